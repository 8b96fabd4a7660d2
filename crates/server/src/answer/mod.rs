//! Answers queries, on the worker that received them.

// The stages of a batch, its clock, what all responses depend on, and the heads of responses.
mod batch;
mod clock;
pub(crate) mod context;
pub(crate) mod response;
// Protection against forged addresses: DNS cookies and the rate limit.
pub(crate) mod cookies;
pub(crate) mod limiter;
// Counters of answers and updates.
pub(crate) mod counters;

use crate::combiner::Dispatch;
use crate::listen::batch::DatagramBatch;
use crate::listen::{Action, PinnedResponder, Reply, Responder, Transport};
use crate::published::readers::Zones;
use crate::published::serving::{ServingNow, ServingReader};
use crate::update_queue::QueuedMessage;
use clock::BatchClock;
use context::{Client, Service, context};
use cookies::{COOKIE_BYTES, CookieStatus, Cookies};
use counters::{LimitAction, Refusal, WorkerCounters};
use limiter::shared::RateLimitWatch;
use limiter::{Limiter, Verdict};
use response::Received;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use wire::number::{Opcode, Rcode};
use wire::parse::{DropReason, EdnsIn, Parsed, Reject, Request, parse_request};
use zone::answer::{
    AnswerContext, AnswerKind, Bare, Batch, Head, PreparedBatch, ResponseInfo, Servable, answer, respond_bare,
};
use zone::lookup::ancestor;
use zone::set::{SetVersion, Zone};

/// Answers queries on one worker.
pub(crate) struct QueryResponder {
    pub(crate) service: Arc<Service>,
    pub(crate) zones: Zones,
    pub(crate) serving: ServingReader,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) batch: Batch,
    /// `None` if cookies are off.
    pub(crate) cookies: Option<Cookies>,
    /// Set for UDP, where anyone can forge an address.
    pub(crate) rate_limit: Option<RateLimitWatch>,
    /// Start of the limiter's time.
    pub(crate) started_at: Instant,
}

/// A [`QueryResponder`] with one version of all zones.
pub(crate) struct PinnedQueryResponder<'a> {
    service: &'a Service,
    counters: &'a WorkerCounters,
    set: SetVersion<'a>,
    serving: ServingNow<'a>,
    batch: Option<&'a mut Batch>,
    /// The lookups of the batch.
    prepared: Option<PreparedBatch<'a>>,
    cookies: Option<&'a mut Cookies>,
    limiter: Option<&'a mut Limiter>,
    clock: BatchClock,
}

impl QueryResponder {
    pub(crate) fn new(
        service: Arc<Service>,
        zones: Zones,
        serving: ServingReader,
        counters: Arc<WorkerCounters>,
        cookies: Cookies,
    ) -> Self {
        let (batch, cookies, started_at) = (Batch::new(), Some(cookies), Instant::now());
        Self { service, zones, serving, counters, batch, cookies, rate_limit: None, started_at }
    }
}

impl Responder for QueryResponder {
    type Pinned<'a> = PinnedQueryResponder<'a>;

    fn pin(&mut self) -> PinnedQueryResponder<'_> {
        let Self { service, zones, serving, counters, batch, cookies, rate_limit, started_at } = self;
        // The flag is read first: zones are published before it is set.
        let serving = serving.now();
        PinnedQueryResponder {
            service,
            counters,
            set: zones.pin(),
            serving,
            batch: Some(batch),
            prepared: None,
            cookies: cookies.as_mut(),
            limiter: rate_limit.as_mut().and_then(RateLimitWatch::current),
            clock: BatchClock::new(*started_at),
        }
    }

    fn offline(&mut self) {
        self.zones.offline();
    }
}

impl PinnedResponder for PinnedQueryResponder<'_> {
    fn respond(&mut self, bytes: &[u8], peer: SocketAddr, transport: Transport, out: &mut [u8]) -> Action {
        let action = self.decide(None, bytes, peer, transport, out);
        action.unwrap_or_else(|| self.apply_limit(0, bytes, peer, out))
    }

    fn ignore(&mut self, reason: DropReason) {
        self.counters.received.one();
        self.counters.drop_for(reason);
    }

    fn respond_batch(&mut self, batch: &mut DatagramBatch) {
        self.look_up(batch);
        let undecided = self.make_responses(batch);
        self.apply_limits(batch, undecided);
    }

    fn defer(&mut self, bytes: &[u8], reply: Reply, dispatch: Dispatch, out: &mut [u8]) -> Action {
        let (peer, transport) = (reply.peer(), reply.transport());
        let deferred = QueuedMessage { bytes: bytes.to_vec(), reply, received_at: Instant::now() };
        if self.service.update_queue.put(deferred, dispatch) {
            self.counters.queued.one();
            return Action::Defer;
        }
        self.counters.refuse_for(Refusal::QueueFull);
        let parsed = parse_request(bytes);
        let received = match &parsed {
            Parsed::Request(request) => Received::from(request),
            Parsed::Reject(reject) => Received::from(reject),
            Parsed::Drop(_) => return Action::Silent,
        };
        let (status, cookie) = self.cookie_status(received.edns.as_ref(), peer.ip());
        let verdict = self.check_error(status, peer.ip(), AnswerKind::ServFail);
        let client = Client { transport, cookie: cookie.as_ref().map(|cookie| &cookie[..]) };
        // It was not proposed, so SERVFAIL is correct (RFC 2136 3.4.2). Without a key it goes unsigned.
        self.respond_error(verdict, &received.head, client, Rcode::SERVFAIL, out)
    }
}

impl PinnedQueryResponder<'_> {
    /// `index` is the index in the prepared batch, if any. `None` if the response waits for the rate limit.
    fn decide(
        &mut self,
        index: Option<usize>,
        bytes: &[u8],
        peer: SocketAddr,
        transport: Transport,
        out: &mut [u8],
    ) -> Option<Action> {
        self.counters.received.one();
        if peer.port() == 0 {
            // No response can be sent to port 0; such datagrams are forged.
            self.counters.drop_for(DropReason::SourcePortZero);
            return Some(Action::Silent);
        }
        match parse_request(bytes) {
            Parsed::Drop(reason) => {
                self.counters.drop_for(reason);
                Some(Action::Silent)
            }
            // RFC 8945 5.2: TSIG is checked before other errors of the message.
            Parsed::Reject(reject) if reject.tsig.is_some() => Some(Action::Defer),
            Parsed::Reject(reject) => Some(self.reject(&reject, peer.ip(), transport, out)),
            Parsed::Request(request) if request.header.opcode == Opcode::UPDATE || request.tsig.is_some() => {
                Some(Action::Defer)
            }
            Parsed::Request(request) => self.answer(index, &request, peer.ip(), transport, out),
        }
    }

    fn reject(&mut self, reject: &Reject<'_>, address: IpAddr, transport: Transport, out: &mut [u8]) -> Action {
        self.counters.reject_for(reject.reason);
        let (status, cookie) = self.cookie_status(reject.edns.as_ref(), address);
        let verdict = self.check_error(status, address, AnswerKind::FormErr);
        let client = Client { transport, cookie: cookie.as_ref().map(|cookie| &cookie[..]) };
        self.respond_error(verdict, &Head::from(reject), client, reject.rcode, out)
    }

    /// Checks an error response against the limit.
    fn check_error(&mut self, status: CookieStatus, address: IpAddr, kind: AnswerKind) -> Verdict {
        match &mut self.limiter {
            Some(limiter) if status != CookieStatus::Proven => limiter.check_error(address, kind, self.clock.now_us()),
            _ => Verdict::Send,
        }
    }

    /// Answers with an error, if the limit allows it.
    fn respond_error(
        &self,
        verdict: Verdict,
        head: &Head<'_>,
        client: Client<'_>,
        rcode: Rcode,
        out: &mut [u8],
    ) -> Action {
        let bare = Bare { rcode, ..Bare::default() };
        match verdict {
            Verdict::Send => self.respond_bare(head, client, bare, out),
            // The replacement of an error is the same error without options.
            Verdict::Slip => {
                self.counters.limited(LimitAction::Shortened);
                self.respond_over_limit(head, None, bare, out)
            }
            Verdict::Drop => {
                self.counters.limited(LimitAction::Dropped);
                Action::Silent
            }
        }
    }

    /// Counts a response without records, and writes it.
    fn respond_bare(&self, head: &Head<'_>, client: Client<'_>, bare: Bare, out: &mut [u8]) -> Action {
        self.write_bare(head, &context(self.service, client, &|_| Servable::Ready, 0), bare, out)
    }

    /// The same over the limit, without server options. It is no longer than the query, except for a server cookie
    /// (16 bytes), which RFC 7873 5.2.3 asks for.
    fn respond_over_limit(&self, head: &Head<'_>, cookie: Option<&[u8]>, bare: Bare, out: &mut [u8]) -> Action {
        let client = Client { transport: Transport::Udp, cookie };
        let context = context(self.service, client, &|_| Servable::Ready, 0);
        self.write_bare(head, &AnswerContext { nsid: None, ..context }, bare, out)
    }

    fn write_bare(&self, head: &Head<'_>, context: &AnswerContext<'_>, bare: Bare, out: &mut [u8]) -> Action {
        self.counters.response(bare.rcode);
        if bare.truncated {
            self.counters.truncated.one();
        }
        match respond_bare(head, context, bare, out) {
            0 => Action::Silent,
            len => Action::Respond(len),
        }
    }

    fn answer(
        &mut self,
        index: Option<usize>,
        request: &Request<'_>,
        address: IpAddr,
        transport: Transport,
        out: &mut [u8],
    ) -> Option<Action> {
        let (status, cookie) = self.cookie_status(request.edns.as_ref(), address);
        let client = Client { transport, cookie: cookie.as_ref().map(|cookie| &cookie[..]) };
        let answered = match (&mut self.prepared, index) {
            (Some(prepared), Some(index)) => {
                let zone_state = |zone: &Zone<'_>| self.serving.of(zone);
                prepared.answer(index, request, &context(self.service, client, &zone_state, 0), out)
            }
            _ => answer_query(self.service, self.set, self.serving, request, client, 0, out),
        };
        match self.limiter.as_mut().filter(|_| status != CookieStatus::Proven) {
            Some(limiter) if !limiter.is_exempt(address) => {
                let name = request.question.as_ref().map(|question| {
                    let qname = question.qname;
                    ancestor(qname, answered.common_labels)
                });
                let keys = limiter.keys_of(address, answered.kind, name);
                limiter.add_to_batch(index.unwrap_or(0), keys, answered);
                None
            }
            _ => Some(self.sent(&answered)),
        }
    }

    /// The status of the client's cookie, and the cookie of the response.
    fn cookie_status(
        &mut self,
        edns: Option<&EdnsIn<'_>>,
        address: IpAddr,
    ) -> (CookieStatus, Option<[u8; COOKIE_BYTES]>) {
        let sent = edns.and_then(EdnsIn::cookie);
        match (&mut self.cookies, &sent) {
            (Some(cookies), Some(sent)) => cookies.check(sent, address, self.clock.now_s()),
            _ => (CookieStatus::None, None),
        }
    }

    /// Counts an answer that is sent.
    fn sent(&self, answered: &ResponseInfo) -> Action {
        self.counters.answered(answered);
        if answered.len == 0 { Action::Silent } else { Action::Respond(answered.len) }
    }
}

/// Answers a QUERY. The response leaves `tsig_reserve` bytes free for TSIG.
pub(crate) fn answer_query(
    service: &Service,
    set: SetVersion<'_>,
    serving: ServingNow<'_>,
    request: &Request<'_>,
    client: Client<'_>,
    tsig_reserve: usize,
    out: &mut [u8],
) -> ResponseInfo {
    let zone_state = |zone: &Zone<'_>| serving.of(zone);
    answer(set, request, &context(service, client, &zone_state, tsig_reserve), out)
}

#[cfg(test)]
mod tests;
