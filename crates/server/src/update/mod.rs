//! The update threads: they authenticate, refuse updates early where possible, pass the rest to the replica, and
//! sign responses.
//!
//! ```text
//!   packet worker --UpdateQueue--> authenticate --> QUERY: answer, sign, send
//!                                               --> AXFR, IXFR: a new thread
//!                                               --> UPDATE: prescan --> replica ... outcome --> sign, send
//!                                                   `external` rules: other threads query daemons first
//! ```
//! All requests of a client go to the same thread, so they reach the replica in order. A lone job runs on the thread
//! that submits it. Responses over UDP are rate limited, except those to verified updates.

// Refuses a signed UPDATE, queries daemons about it, or passes it to the replica.
mod check;
pub(crate) mod external;
// Updates that wait for the replica, and the responses to their outcomes.
mod outcome;
// Responses over the rate limit, and refused requests.
mod rate_limit;
mod refusals;

use crate::answer::answer_query;
use crate::answer::context::{Client, Service};
use crate::answer::cookies::{COOKIE_BYTES, CookieStatus, Cookies};
use crate::answer::counters::{Refusal, Refused, UpdateCounters, WorkerCounters};
use crate::answer::limiter::Verdict as Limit;
use crate::answer::limiter::shared::RateLimitWatch;
use crate::answer::response::{Received, ResponseHead};
use crate::audit_log::refused::RefusedLog;
use crate::limits::{DATAGRAM_BYTES_MAX, UPDATE_FORGET_MS, UPDATES_FORGET_COUNT};
use crate::listen::{Reply, Transport};
use crate::published::readers::Zones;
use crate::published::rights::Rights;
use crate::published::serving::ServingReader;
use crate::sys::clock::now_s;
use crate::transfer::{self, QueuedTransfer};
use crate::update_queue::fair_quota::QuotaPermit;
use crate::update_queue::{ExternalAnswers, QueuedMessage, UpdateWorker, Work};
use external::{ExternalClient, ExternalRequest};
use outcome::PendingUpdates;
use replica::io::{UpdateRequest, Verdict};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tsig::{Authenticated, Signer, Verified, authenticate, authenticate_bytes};
use wire::name::Name;
use wire::number::{Opcode, Rcode};
use wire::parse::{EdnsIn, Parsed, Reject, Request, parse_request};
use zone::answer::{AnswerKind, Bare};
use zone::lookup::ancestor;
use zone::record::ZoneId;
use zone::set::Frozen;

/// Updates that share a quota: those of a key in a zone, as at the leader. Updates that this node would refuse have no
/// zone here. Otherwise a client could name many zones to get more quota.
#[derive(Hash)]
pub(crate) struct Flow {
    pub(crate) key: Name,
    pub(crate) zone: Option<ZoneId>,
}

/// The part of the replica that an update thread uses.
pub(crate) trait Submit: Send + Sync {
    /// Submits an update; the permit is kept until it has an outcome.
    ///
    /// # Errors
    /// Too many updates have no outcome yet, or too many of this flow while the queue is half full.
    fn submit(&self, request: UpdateRequest, flow: &Flow) -> Result<QuotaPermit, Refusal>;
    /// The current keys and grants.
    fn rights(&self) -> Arc<Rights>;
    /// The log of refused requests, if there is one.
    fn refusals(&self) -> Option<&RefusedLog> {
        None
    }
    /// Requests the published version of all zones. The receiver may keep it. An error means that the replica ended.
    fn freeze(&self) -> oneshot::Receiver<Frozen>;
}

/// One update thread.
pub(crate) struct UpdateThread<S> {
    pub(crate) index: u64,
    pub(crate) threads: u64,
    pub(crate) service: Arc<Service>,
    pub(crate) zones: Zones,
    pub(crate) serving: ServingReader,
    pub(crate) counters: UpdateCounters,
    pub(crate) listen: Arc<crate::listen::counters::ListenCounters>,
    pub(crate) submit: Arc<S>,
    pub(crate) external: ExternalClient,
    pub(crate) transfers: Arc<transfer::Transfers>,
    /// For the thread that starts transfers. Their slots limit the number.
    pub(crate) transfer_queue: Sender<QueuedTransfer>,
    pub(crate) out: Vec<u8>,
    pub(crate) pending: PendingUpdates,
    /// `None` if cookies are off.
    pub(crate) cookies: Option<Cookies>,
    /// Applies to UDP, except for outcomes of updates.
    pub(crate) rate_limit: RateLimitWatch,
    /// Start of the limiter's time.
    pub(crate) started_at: Instant,
}

/// RFC 8945 5.3: question and TSIG with TC and RCODE 0, so that the client asks again over TCP.
const RETRY_OVER_TCP: Bare = Bare { rcode: Rcode::NOERROR, truncated: true, extended: None, text: "" };

impl<S: Submit + 'static> UpdateWorker for UpdateThread<S> {
    fn handle(&mut self, work: Work) {
        // Many finished updates may queue behind an old one. One job does not clear them all.
        let mut most = UPDATES_FORGET_COUNT;
        match work {
            Work::Message(message) => {
                self.service.update_queue.dequeued(message.reply.peer().ip());
                self.guarded_message(message, ExternalAnswers::default());
            }
            Work::PolicyAnswered(message, answers) => self.guarded_message(message, answers),
            Work::Outcome(request_id, verdict) => {
                let reply = self.pending.reply(request_id);
                self.guarded(reply, |thread| thread.outcome(request_id, verdict));
            }
            Work::Tick => most = usize::MAX,
        }
        self.pending.expire(Instant::now(), Duration::from_millis(UPDATE_FORGET_MS), most);
        self.zones.offline();
    }
}

impl<S: Submit + 'static> UpdateThread<S> {
    /// Runs jobs until the process ends.
    pub(crate) fn run(mut self, work: &Receiver<Work>) {
        self.zones.offline();
        let (index, update_queue) = (self.index, self.service.update_queue.clone());
        update_queue.run_worker(index, Box::new(self), work);
    }

    fn guarded_message(&mut self, message: QueuedMessage, answers: ExternalAnswers) {
        let reply = message.reply.clone();
        self.guarded(Some(reply), |thread| thread.message(message, answers));
    }

    /// A panic is a bug. It costs only this message, whose client is released.
    fn guarded(&mut self, reply: Option<Reply>, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.listen.panics.one_shared();
            if let Some(reply) = reply {
                reply.give_up();
            }
        }
    }

    fn message(&mut self, message: QueuedMessage, answers: ExternalAnswers) {
        // The worker has already parsed it: only a QUERY, an UPDATE, or an error with TSIG gets here.
        let QueuedMessage { bytes, reply, received_at } = message;
        let request = match parse_request(&bytes) {
            Parsed::Request(request) => request,
            Parsed::Reject(reject) => return self.reject(&reject, reply),
            Parsed::Drop(_) => return reply.give_up(),
        };
        let (rights, received) = (self.submit.rights(), Received::from(&request));
        match authenticate(&request, &rights.keys, now_s()) {
            Authenticated::Rejected { rcode, reason, signer } => {
                self.count(&reply).tsig_reject_for(reason);
                self.note_unverified(&request, &reply, reason.label(), signer.as_ref());
                self.limited_error(received, rcode, signer.as_ref(), reply);
            }
            Authenticated::Unsigned => {
                // Only an unsigned UPDATE gets here. It is always refused, with the error of its zone if there is one.
                let refused = self.admit_update(&request, None, &rights);
                let refused = refused.err().unwrap_or(Refused { rcode: Rcode::REFUSED, reason: Refusal::Unsigned });
                self.note_unverified(&request, &reply, refused.reason.label(), None);
                match self.check_error(received, &reply) {
                    Limit::Send => self.refuse(&request, &refused, None, reply),
                    verdict => {
                        self.count(&reply).refuse_for(refused.reason);
                        self.send_over_limit(received, verdict, None, None, reply);
                    }
                }
            }
            // The update was not proposed.
            Authenticated::Verified { signer, .. } if answers.was_queue_full => {
                let refused = Refused { rcode: Rcode::SERVFAIL, reason: Refusal::QueueFull };
                self.refuse(&request, &refused, Some(&signer), reply);
            }
            Authenticated::Verified { verified, signer } if request.header.opcode == Opcode::UPDATE => {
                match self.questions(&request, &verified, &rights, &reply, &answers) {
                    Some((questions, requestor)) => {
                        let message = QueuedMessage { bytes, reply, received_at };
                        let thread = self.index;
                        self.query_daemons(Box::new(ExternalRequest {
                            thread,
                            message,
                            answers,
                            questions,
                            requestor,
                        }));
                    }
                    None => {
                        let external = answers.external;
                        self.update(&bytes, &request, verified, signer, &rights, reply, received_at, external);
                    }
                }
            }
            Authenticated::Verified { verified, signer } => match transfer::transfer_request(&request, &reply) {
                Some(transfer) => self.transfer(&request, transfer, &verified, signer, &rights, reply),
                None => self.query(&request, &signer, reply),
            },
        }
    }

    /// Answers a message that has an error before its TSIG record. RFC 8945 5.2: TSIG is processed first. A wrong key
    /// or MAC gets its own error; otherwise the error is signed (5.3).
    fn reject(&mut self, reject: &Reject<'_>, reply: Reply) {
        let Some(at) = &reject.tsig else { return reply.give_up() };
        let rights = self.submit.rights();
        let (rcode, signer) = match authenticate_bytes(reject.bytes, at, &rights.keys, now_s()) {
            Authenticated::Rejected { rcode, reason, signer } => {
                self.count(&reply).tsig_reject_for(reason);
                (rcode, signer)
            }
            Authenticated::Verified { signer, .. } => {
                self.count(&reply).reject_for(reject.reason);
                (reject.rcode, Some(signer))
            }
            Authenticated::Unsigned => return reply.give_up(),
        };
        self.limited_error(Received::from(reject), rcode, signer.as_ref(), reply);
    }

    /// Sends a FORMERR or TSIG error, if the rate limit allows it.
    fn limited_error(&mut self, received: Received<'_>, rcode: Rcode, signer: Option<&Signer>, reply: Reply) {
        match self.check_error(received, &reply) {
            Limit::Send => self.error(received, rcode, None, signer, reply),
            verdict => {
                // The response is signed only if the client proved that it has the key.
                let is_signed = signer.is_some_and(Signer::is_signing);
                let instead = is_signed.then(|| Bare { rcode, ..Bare::default() });
                self.send_over_limit(received, verdict, instead, signer, reply);
            }
        }
    }

    fn query(&mut self, request: &Request<'_>, signer: &Signer, reply: Reply) {
        let transport = reply.transport();
        let limit = out_limit(transport, &self.service);
        let (status, cookie) = self.cookie_status(request.edns.as_ref(), &reply);
        let serving = self.serving.now();
        let set = self.zones.pin();
        let client = Client { transport, cookie: cookie.as_ref().map(|cookie| &cookie[..]) };
        let reserve = signer.byte_count();
        let answered = answer_query(&self.service, set, serving, request, client, reserve, &mut self.out[..limit]);
        // Anyone can replay a verified query from any address while its time is valid.
        let name = request.question.as_ref().map(|question| ancestor(question.qname, answered.common_labels));
        let verdict = self.check_limit(status, &reply, answered.kind, name);
        if verdict != Limit::Send {
            return self.send_over_limit(request.into(), verdict, Some(RETRY_OVER_TCP), Some(signer), reply);
        }
        self.counters.of(transport).answered(&answered);
        if answered.len == 0 {
            return reply.give_up();
        }
        match signer.sign(&mut self.out, answered.len, now_s()) {
            Ok(len) => reply.send(self.out[..len].to_vec()),
            Err(_) => self.error(request.into(), Rcode::SERVFAIL, None, Some(signer), reply),
        }
    }

    fn transfer(
        &mut self,
        request: &Request<'_>,
        transfer: transfer::TransferRequest,
        key: &Verified,
        signer: Signer,
        rights: &Rights,
        reply: Reply,
    ) {
        let name = request.question.as_ref().map(|question| question.qname);
        let (status, _) = self.cookie_status(request.edns.as_ref(), &reply);
        let verdict = self.check_limit(status, &reply, AnswerKind::Positive, name);
        if verdict != Limit::Send {
            return self.send_over_limit(request.into(), verdict, Some(RETRY_OVER_TCP), Some(&signer), reply);
        }
        if let Err(refused) = transfer::admit(&mut self.zones, &transfer, key, rights, self.serving.now()) {
            return self.refuse(request, &refused, Some(&signer), reply);
        }
        // A response of one message needs no transfer slot.
        if !reply.takes_transfers() {
            self.count(&reply).response(Rcode::NOERROR);
            return self.current_soa(request, &transfer, &signer, reply);
        }
        let Some(running) = transfer::RunningTransfer::acquire(&self.transfers, key, &reply) else {
            let refused = Refused { rcode: Rcode::SERVFAIL, reason: Refusal::TransfersMax };
            return self.refuse(request, &refused, Some(&signer), reply);
        };
        self.count(&reply).response(Rcode::NOERROR);
        let (service, head) = (self.service.clone(), self.head(request.into(), &reply));
        let job = transfer::Job::new(service, head, transfer, signer, reply, running);
        // The receiver only ends after this thread.
        let _ = self.transfer_queue.send((job, self.submit.freeze()));
    }

    fn outcome(&mut self, request_id: u64, verdict: Verdict) {
        if verdict == Verdict::BadTime && !self.may_send_bad_time(request_id) {
            return;
        }
        self.note_outcome(request_id, &verdict);
        self.pending.finish(request_id, verdict, &self.counters, &self.service, now_s(), &mut self.out);
    }

    /// The counters of a request's transport.
    fn count(&self, reply: &Reply) -> &WorkerCounters {
        self.counters.of(reply.transport())
    }

    /// The head of a response.
    fn head(&mut self, received: Received<'_>, reply: &Reply) -> ResponseHead {
        let (_, cookie) = self.cookie_status(received.edns.as_ref(), reply);
        ResponseHead::new(&received.head, reply.transport(), cookie)
    }

    /// The status of the client's cookie, and the cookie of the response.
    fn cookie_status(
        &mut self,
        edns: Option<&EdnsIn<'_>>,
        reply: &Reply,
    ) -> (CookieStatus, Option<[u8; COOKIE_BYTES]>) {
        let sent = edns.and_then(EdnsIn::cookie);
        match (&mut self.cookies, &sent) {
            (Some(cookies), Some(sent)) => cookies.check(sent, reply.peer().ip(), now_s()),
            _ => (CookieStatus::None, None),
        }
    }

    /// Answers an IXFR over UDP, where only one message can be sent.
    fn current_soa(
        &mut self,
        request: &Request<'_>,
        transfer: &transfer::TransferRequest,
        signer: &Signer,
        reply: Reply,
    ) {
        let head = self.head(request.into(), &reply);
        let set = self.zones.pin();
        let len = transfer::current_soa(set, &head, transfer, &self.service, signer.byte_count(), &mut self.out);
        match len.map(|len| signer.sign(&mut self.out, len, now_s())) {
            Some(Ok(len)) => reply.send(self.out[..len].to_vec()),
            // The zone was removed after the request was admitted.
            Some(Err(_)) | None => self.error(request.into(), Rcode::SERVFAIL, None, Some(signer), reply),
        }
    }
}

/// Maximum bytes of a response, apart from the client's own limit.
fn out_limit(transport: Transport, service: &Service) -> usize {
    match transport {
        Transport::Udp => usize::from(service.options.udp_payload),
        _ => DATAGRAM_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests;
