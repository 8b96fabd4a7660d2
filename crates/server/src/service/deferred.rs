//! The update threads: they authenticate, refuse early what is certain, hand updates to the replica, and sign.
//!
//! ```text
//!   packet worker --Desk--> authenticate --> QUERY: answer, sign, send
//!                                        --> AXFR, IXFR: a thread of its own
//!                                        --> UPDATE: prescan --> replica ... outcome --> sign, send
//!                                                    where rules want it, daemons are asked before, elsewhere
//! ```
//! A client's requests all go to the same of them, so they reach the replica in the order in which they came; one that
//! comes alone, and an outcome, are worked off by who brings them, with what is that thread's. What goes
//! over UDP is limited, but for updates that are verified.

// Where work is put down, and who works it off.
mod desk;
// What becomes of responses beyond the limit.
mod guard;
mod refusals;
// Refuses a signed UPDATE, has daemons asked about it, or hands it to the replica.
mod update;

pub(crate) use desk::{Deferred, Desk, Work};

use super::answer::{Client, Service, answer_query};
use super::cookies::{COOKIE_BYTES, Cookies, Standing};
use super::counters::{Refusal, UpdateCounters, WorkerCounters};
use super::external::{Ask, Asked, Asker};
use super::limiter::Verdict as Limit;
use super::limiter::shared::RateLimitWatch;
use super::outcome::Waiting;
use super::response::{Received, ResponseHead};
use super::serving::ServingReader;
use super::shares::Place;
use super::transfer;
use crate::limits::{DATAGRAM_BYTES_MAX, UPDATE_FORGET_MS, UPDATES_FORGET_COUNT};
use crate::listen::{Reply, Transport};
use crate::node::audit_log::refused::RefusedLog;
use crate::node::readers::Zones;
use crate::node::rights::Rights;
use desk::Clerk;
use replica::io::{UpdateRequest, Verdict};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tsig::{Authenticated, Signer, Verified, authenticate, authenticate_bytes};
use wire::name::Name;
use wire::number::{Opcode, Rcode};
use wire::parse::{EdnsIn, Parsed, Reject, Request, parse_request};
use zone::answer::{AnswerKind, Bare};
use zone::lookup::ancestor;
use zone::record::ZoneId;

/// Whose updates share places with one another: those of a key in a zone, as at the leader. What this node would refuse
/// has the share of its key alone: zones that nobody granted would be as many shares as one likes.
#[derive(Hash)]
pub(crate) struct Flow {
    pub(crate) key: Name,
    pub(crate) zone: Option<ZoneId>,
}

/// What an update thread needs of the replica.
pub(crate) trait Submit: Send + Sync {
    /// Hands an update over; gives its place, which is kept until it has an outcome.
    ///
    /// # Errors
    /// Why not: too many have no outcome yet, or too many of this flow while half of the places are taken.
    fn submit(&self, request: UpdateRequest, flow: &Flow) -> Result<Place, Refusal>;
    /// Keys and grants as they are now.
    fn rights(&self) -> Arc<Rights>;
    /// Where what is refused is written down, if it is.
    fn refusals(&self) -> Option<&RefusedLog> {
        None
    }
    /// The published version of all zones, held as long as the caller likes.
    fn freeze(&self, then: Box<dyn FnOnce(zone::set::Frozen) + Send>);
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
    pub(crate) asker: Asker,
    pub(crate) transfers: Arc<transfer::Transfers>,
    pub(crate) out: Vec<u8>,
    pub(crate) waiting: Waiting,
    /// None are given out without.
    pub(crate) cookies: Option<Cookies>,
    /// Of what goes over UDP, but for the outcomes of updates.
    pub(crate) rate_limit: RateLimitWatch,
    /// What the limiter's time counts from.
    pub(crate) started_at: Instant,
}

/// What is known of a request when it is refused.
#[derive(Clone, Copy)]
pub(super) struct Refused {
    pub(super) rcode: Rcode,
    pub(super) reason: Refusal,
}

/// RFC 8945 5.3: question and TSIG with TC and RCODE 0, so that the client asks again over TCP.
const COME_BY_TCP: Bare = Bare { rcode: Rcode::NOERROR, truncated: true, extended: None, text: "" };

impl<S: Submit + 'static> Clerk for UpdateThread<S> {
    fn work_off(&mut self, work: Work) {
        // Behind one that waits long many are done: who carries out one piece is not kept by all of them.
        let mut most = UPDATES_FORGET_COUNT;
        match work {
            Work::Message(message) => {
                self.service.desk.taken(message.reply.peer().ip());
                self.guarded_message(message, Asked::default());
            }
            Work::Asked(message, asked) => self.guarded_message(message, asked),
            Work::Outcome(request_id, verdict) => {
                let reply = self.waiting.reply(request_id);
                self.guarded(reply, |thread| thread.outcome(request_id, verdict));
            }
            Work::Nothing => most = usize::MAX,
        }
        self.waiting.forget(Instant::now(), Duration::from_millis(UPDATE_FORGET_MS), most);
        self.zones.offline();
    }
}

impl<S: Submit + 'static> UpdateThread<S> {
    /// Works until the process ends.
    pub(crate) fn run(mut self, work: &Receiver<Work>) {
        self.zones.offline();
        let (index, desk) = (self.index, self.service.desk.clone());
        desk.work_off(index, Box::new(self), work);
    }

    fn guarded_message(&mut self, message: Deferred, asked: Asked) {
        let reply = message.reply.clone();
        self.guarded(Some(reply), |thread| thread.message(message, asked));
    }

    /// A panic is a bug of ours; it costs the message that met it, never the thread. Its client waits for no response.
    fn guarded(&mut self, reply: Option<Reply>, work: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.listen.panics.one_shared();
            if let Some(reply) = reply {
                reply.give_up();
            }
        }
    }

    fn message(&mut self, message: Deferred, asked: Asked) {
        // The worker has already parsed it: only a QUERY, an UPDATE, or an error with TSIG gets here.
        let Deferred { bytes, reply, received_at } = message;
        let request = match parse_request(&bytes) {
            Parsed::Request(request) => request,
            Parsed::Reject(reject) => return self.reject(&reject, reply),
            Parsed::Drop(_) => return reply.give_up(),
        };
        let (rights, received) = (self.submit.rights(), Received::from(&request));
        match authenticate(&request, &rights.keys, now_s()) {
            Authenticated::Rejected { rcode, reason, signer } => {
                self.count(&reply).tsig_reject_for(reason);
                self.note_stranger(&request, &reply, reason.label(), signer.as_ref());
                self.limited_error(received, rcode, signer.as_ref(), reply);
            }
            Authenticated::Unsigned => {
                // Unsigned queries never come here; an unsigned UPDATE is refused, but for what is said about its zone.
                let refused = self.admit_update(&request, None, &rights);
                let refused = refused.err().unwrap_or(Refused { rcode: Rcode::REFUSED, reason: Refusal::Unsigned });
                self.note_stranger(&request, &reply, refused.reason.label(), None);
                match self.judge_error(received, &reply) {
                    Limit::Send => self.refuse(&request, &refused, None, reply),
                    verdict => {
                        self.count(&reply).refuse_for(refused.reason);
                        self.send_beyond(received, verdict, None, None, reply);
                    }
                }
            }
            // It was certainly not proposed.
            Authenticated::Verified { signer, .. } if asked.had_no_turn => {
                let refused = Refused { rcode: Rcode::SERVFAIL, reason: Refusal::QueueFull };
                self.refuse(&request, &refused, Some(&signer), reply);
            }
            Authenticated::Verified { verified, signer } if request.header.opcode == Opcode::UPDATE => {
                match self.questions(&request, &verified, &rights, &reply, &asked) {
                    Some((questions, who)) => {
                        let message = Deferred { bytes, reply, received_at };
                        self.ask(Box::new(Ask { thread: self.index, message, asked, questions, who }));
                    }
                    None => {
                        let external = asked.external;
                        self.update(&bytes, &request, verified, signer, &rights, reply, received_at, external);
                    }
                }
            }
            Authenticated::Verified { verified, signer } => match transfer::wanted(&request, &reply) {
                Some(wanted) => self.transfer(&request, wanted, &verified, signer, &rights, reply),
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
        match self.judge_error(received, &reply) {
            Limit::Send => self.error(received, rcode, None, signer, reply),
            verdict => {
                // The response is signed only if the client proved that it has the key.
                let is_signed = signer.is_some_and(Signer::is_signing);
                let instead = is_signed.then(|| Bare { rcode, ..Bare::default() });
                self.send_beyond(received, verdict, instead, signer, reply);
            }
        }
    }

    fn query(&mut self, request: &Request<'_>, signer: &Signer, reply: Reply) {
        let transport = reply.transport();
        let limit = out_limit(transport, &self.service);
        let (standing, cookie) = self.standing_of(request.edns.as_ref(), &reply);
        let serving = self.serving.now();
        let set = self.zones.pin();
        let client = Client { transport, cookie: cookie.as_ref().map(|cookie| &cookie[..]) };
        let reserve = signer.byte_count();
        let answered = answer_query(&self.service, set, serving, request, client, reserve, &mut self.out[..limit]);
        // What was verified once may be sent again by anybody, from any address, for as long as its time is good.
        let name = request.question.as_ref().map(|question| ancestor(question.qname, answered.common_labels));
        let verdict = self.judge(standing, &reply, answered.kind, name);
        if verdict != Limit::Send {
            return self.send_beyond(request.into(), verdict, Some(COME_BY_TCP), Some(signer), reply);
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
        wanted: transfer::Wanted,
        key: &Verified,
        signer: Signer,
        rights: &Rights,
        reply: Reply,
    ) {
        let name = request.question.as_ref().map(|question| question.qname);
        let (standing, _) = self.standing_of(request.edns.as_ref(), &reply);
        let verdict = self.judge(standing, &reply, AnswerKind::Positive, name);
        if verdict != Limit::Send {
            return self.send_beyond(request.into(), verdict, Some(COME_BY_TCP), Some(&signer), reply);
        }
        if let Err(refused) = transfer::admit(&mut self.zones, &wanted, key, rights, self.serving.now()) {
            return self.refuse(request, &refused, Some(&signer), reply);
        }
        // A response of one message takes no place among those that run.
        if !reply.takes_transfers() {
            self.count(&reply).response(Rcode::NOERROR);
            return self.current_soa(request, &wanted, &signer, reply);
        }
        let Some(running) = transfer::Running::enter(&self.transfers, key, &reply) else {
            let refused = Refused { rcode: Rcode::SERVFAIL, reason: Refusal::TransfersMax };
            return self.refuse(request, &refused, Some(&signer), reply);
        };
        self.count(&reply).response(Rcode::NOERROR);
        let (service, head) = (self.service.clone(), self.head(request.into(), &reply));
        let job = transfer::Job::new(service, head, wanted, signer, reply, running);
        self.submit.freeze(Box::new(move |frozen| job.start(frozen)));
    }

    fn outcome(&mut self, request_id: u64, verdict: Verdict) {
        if verdict == Verdict::BadTime && !self.may_say_bad_time(request_id) {
            return;
        }
        self.note_outcome(request_id, &verdict);
        self.waiting.finish(request_id, verdict, &self.counters, &self.service, now_s(), &mut self.out);
    }

    /// Where what happens to a request is counted.
    fn count(&self, reply: &Reply) -> &WorkerCounters {
        self.counters.of(reply.transport())
    }

    /// What the response to a request is made of.
    fn head(&mut self, received: Received<'_>, reply: &Reply) -> ResponseHead {
        let (_, cookie) = self.standing_of(received.edns.as_ref(), reply);
        ResponseHead::new(&received.head, reply.transport(), cookie)
    }

    /// What the client has shown by its cookie, and the one in its response.
    fn standing_of(&mut self, edns: Option<&EdnsIn<'_>>, reply: &Reply) -> (Standing, Option<[u8; COOKIE_BYTES]>) {
        let sent = edns.and_then(EdnsIn::cookie);
        match (&mut self.cookies, &sent) {
            (Some(cookies), Some(sent)) => cookies.judge(sent, reply.peer().ip(), now_s()),
            _ => (Standing::None, None),
        }
    }

    /// The response to an IXFR where only one message can be sent.
    fn current_soa(&mut self, request: &Request<'_>, wanted: &transfer::Wanted, signer: &Signer, reply: Reply) {
        let head = self.head(request.into(), &reply);
        let set = self.zones.pin();
        let len = transfer::current_soa(set, &head, wanted, &self.service, signer.byte_count(), &mut self.out);
        match len.map(|len| signer.sign(&mut self.out, len, now_s())) {
            Some(Ok(len)) => reply.send(self.out[..len].to_vec()),
            // Removed since it was admitted.
            Some(Err(_)) | None => self.error(request.into(), Rcode::SERVFAIL, None, Some(signer), reply),
        }
    }
}

/// Bytes that a response may have before it is known what the client takes.
fn out_limit(transport: Transport, service: &Service) -> usize {
    match transport {
        Transport::Udp => usize::from(service.options.udp_payload),
        _ => DATAGRAM_BYTES_MAX,
    }
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
