//! Answers queries, on the worker that received them.

use super::clock::BatchClock;
use super::cookies::{COOKIE_BYTES, CookieStatus, Cookies};
use super::counters::{LimitAction, Refusal, WorkerCounters};
use super::limiter::shared::RateLimitWatch;
use super::limiter::{Limiter, Verdict};
use super::response::Received;
use super::serving::{ServingNow, ServingReader};
use super::update_thread::{QueuedMessage, UpdateQueue};
use crate::combiner::Dispatch;
use crate::limits::PADDING_BLOCK_BYTES;
use crate::listen::handler::ConnectionLimits;
use crate::listen::{Action, PinnedResponder, Reply, Responder, Transport};
use crate::node::readers::Zones;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;
use wire::limits::HEADER_BYTES;
use wire::number::{Opcode, Rcode};
use wire::parse::{DropReason, EdnsIn, FirstQuestion, Parsed, Reject, Request, parse_request};
use zone::answer::{
    AnswerContext, AnswerKind, Answered, Bare, Batch, Chaos, Head, Prepared, Servable, answer, respond_bare,
};
use zone::lookup::ancestor;
use zone::set::{SetVersion, Zone};

/// What the operator configured about answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnswerOptions {
    /// Largest datagram that is sent, and advertised as accepted (RFC 6891 6.2.3).
    pub(crate) udp_payload: u16,
    pub(crate) nsid: Option<Vec<u8>>,
    pub(crate) chaos_id: Option<Vec<u8>>,
    pub(crate) chaos_version: Option<Vec<u8>>,
}

/// The client of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client<'c> {
    pub(crate) transport: Transport,
    /// The cookie of the response.
    pub(crate) cookie: Option<&'c [u8]>,
}

/// What all workers share.
pub(crate) struct Service {
    pub(crate) options: AnswerOptions,
    pub(crate) update_queue: UpdateQueue,
    pub(crate) connections: ConnectionLimits,
}

impl Service {
    /// The idle timeout now, in units of 100 ms (RFC 7828 3.1).
    fn keepalive(&self) -> u16 {
        u16::try_from(self.connections.idle_timeout().as_millis() / 100).unwrap_or(u16::MAX)
    }
}

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
    prepared: Option<Prepared<'a>>,
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

    fn respond_prepared(&mut self, index: usize, bytes: &[u8], peer: SocketAddr, out: &mut [u8]) -> Option<Action> {
        self.decide(Some(index), bytes, peer, Transport::Udp, out)
    }

    fn prefetch_limits(&mut self, undecided: u64) {
        if let Some(limiter) = &self.limiter {
            limiter.prefetch_batch(undecided);
        }
    }

    fn apply_limit(&mut self, index: usize, bytes: &[u8], peer: SocketAddr, out: &mut [u8]) -> Action {
        let limiter = self.limiter.as_mut();
        let Some((verdict, answered)) = limiter.and_then(|limiter| limiter.check_batched(index, self.clock.now_us()))
        else {
            return Action::Silent;
        };
        if verdict == Verdict::Send {
            return self.sent(&answered);
        }
        // The query is parsed again: slips are rare, and so less is kept for all others.
        if verdict == Verdict::Slip
            && let Parsed::Request(request) = parse_request(bytes)
        {
            return self.slip(&request, peer.ip(), out);
        }
        self.counters.limited(LimitAction::Dropped);
        Action::Silent
    }

    fn prepare<'m>(&mut self, messages: impl Iterator<Item = &'m [u8]>) {
        if let Some(batch) = self.batch.take() {
            self.prepared = Some(batch.prepare(self.set, messages.map(question_of)));
        }
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
            // It is as short as its replacement.
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
    fn sent(&self, answered: &Answered) -> Action {
        self.counters.answered(answered);
        if answered.len == 0 { Action::Silent } else { Action::Respond(answered.len) }
    }

    /// Replaces an answer over the limit with a short one that lets a real client retry.
    fn slip(&mut self, request: &Request<'_>, address: IpAddr, out: &mut [u8]) -> Action {
        let (status, cookie) = self.cookie_status(request.edns.as_ref(), address);
        let (how, bare) = if status == CookieStatus::Unproven {
            (LimitAction::BadCookie, Bare { rcode: Rcode::BADCOOKIE, ..Bare::default() })
        } else {
            (LimitAction::Truncated, Bare { truncated: true, ..Bare::default() })
        };
        self.counters.limited(how);
        self.respond_over_limit(&Head::from(request), cookie.as_ref().map(|cookie| &cookie[..]), bare, out)
    }
}

/// The question of a plain query, for prefetching only.
fn question_of(message: &[u8]) -> Option<FirstQuestion<'_>> {
    let header: &[u8; HEADER_BYTES] = message.first_chunk()?;
    // QR and opcode are zero, and there is one question.
    let asks = header[2] & 0xF8 == 0 && header[4..6] == [0, 1];
    if asks { FirstQuestion::read(message).ok() } else { None }
}

/// Answers a QUERY; the response leaves `tsig_reserve` bytes free behind it.
pub(crate) fn answer_query(
    service: &Service,
    set: SetVersion<'_>,
    serving: ServingNow<'_>,
    request: &Request<'_>,
    client: Client<'_>,
    tsig_reserve: usize,
    out: &mut [u8],
) -> Answered {
    let zone_state = |zone: &Zone<'_>| serving.of(zone);
    answer(set, request, &context(service, client, &zone_state, tsig_reserve), out)
}

/// What a response depends on besides the zones; `zone_state` is asked about none where there are no records.
pub(super) fn context<'c>(
    service: &'c Service,
    client: Client<'c>,
    zone_state: &'c dyn Fn(&Zone<'_>) -> Servable,
    tsig_reserve: usize,
) -> AnswerContext<'c> {
    let options = &service.options;
    AnswerContext {
        transport: match client.transport {
            Transport::Udp => zone::answer::Transport::Udp,
            _ => zone::answer::Transport::Tcp,
        },
        udp_bytes_max: options.udp_payload,
        payload: options.udp_payload,
        nsid: options.nsid.as_deref(),
        cookie: client.cookie,
        keepalive: client.transport.has_keepalive().then(|| service.keepalive()),
        // RFC 8467 4: padding hides nothing where everything can be read.
        padding_block: if client.transport.is_encrypted() { PADDING_BLOCK_BYTES } else { 0 },
        chaos: Chaos { id_server: options.chaos_id.as_deref(), version: options.chaos_version.as_deref() },
        zone_state,
        tsig_reserve,
    }
}

#[cfg(test)]
mod tests;
