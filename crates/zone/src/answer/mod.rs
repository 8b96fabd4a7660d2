//! The response to a query: finds the zone, looks up the name, and fills the sections.
//!
//! ```text
//!   admit    class, QTYPE, zone, whether it may be served      -> an error, or a zone
//!   chain    CNAME and DNAME from one name to the next         -> answer section
//!   close    what the last outcome wants                       -> authority section
//!   extra    glue, addresses of names in the answer            -> additional section
//! ```
//!
//! One response comes from one [`SetVersion`]. Nothing allocates, and the work of each step is bounded by `limits`.

mod additional;
mod bare;
mod batch;
mod chain;
mod chaos;
mod kind;
mod opt;
mod sections;
mod signed;

pub use bare::{Bare, Head, respond_bare};
use batch::FoundName;
pub use batch::{Batch, PreparedBatch};
pub use chaos::Chaos;
pub use kind::{ALL_LABELS, AnswerKind};

use crate::key;
use crate::set::{SetVersion, Zone};
use chain::Responder;
use store::{Key, Path, Trail};
use wire::compose::{Composer, EdnsOut, ZoneVersionOut, ede};
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{EdnsIn, FirstQuestion, Request};

/// What carries the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Datagrams. The client's payload size limits the response.
    Udp,
    /// Streams, plain or encrypted.
    Tcp,
}

/// Whether a zone may be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Servable {
    /// Yes.
    Ready,
    /// Not yet: this server is behind the others, or the zone is not loaded.
    Loading,
    /// No longer: it has expired (RFC 1035 3.3.13, EXPIRE).
    Expired,
    /// Not now: this server is cut off from the others, which may have a newer version.
    CutOff,
}

/// Everything that an answer depends on, besides the zones.
#[derive(Clone, Copy)]
pub struct AnswerContext<'c> {
    /// What carries the response.
    pub transport: Transport,
    /// Maximum size of a datagram that this server sends, in bytes.
    pub udp_bytes_max: u16,
    /// Maximum size of a datagram that this server accepts, in bytes. It is sent in OPT.
    pub payload: u16,
    /// The server's identifier (RFC 5001). It is sent on request.
    pub nsid: Option<&'c [u8]>,
    /// The COOKIE for this client (RFC 7873): client part and server part.
    pub cookie: Option<&'c [u8]>,
    /// Idle timeout of the connection in units of 100 ms (RFC 7828). It is sent on request.
    pub keepalive: Option<u16>,
    /// Pad the response to a multiple of this many bytes (RFC 8467); 0 means no padding.
    pub padding_block: u16,
    /// The texts of class CH.
    pub chaos: Chaos<'c>,
    /// Whether a zone may be served.
    pub zone_state: &'c dyn Fn(&Zone<'_>) -> Servable,
    /// Bytes to reserve for a TSIG record. If the response is padded, this must be the exact size of the record.
    pub tsig_reserve: usize,
}

/// A written response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseInfo {
    /// Its length; 0 if there was no room for a header.
    pub len: usize,
    /// Its kind.
    pub kind: AnswerKind,
    /// Its RCODE.
    pub rcode: Rcode,
    /// Whether it has TC.
    pub truncated: bool,
    /// The number of rightmost labels that all names with this answer share, without the root label. These are the
    /// labels of the wildcard's parent, of the zone cut, or, for names that do not exist, of the apex. It is
    /// [`ALL_LABELS`] if only this name gets the answer. Response rate limiting counts by this suffix.
    pub common_labels: usize,
}

/// Writes the answer to a request of opcode QUERY to `out`.
#[must_use]
pub fn answer(set: SetVersion<'_>, request: &Request<'_>, context: &AnswerContext<'_>, out: &mut [u8]) -> ResponseInfo {
    answer_found(set, request, context, PriorLookup::Nothing, out)
}

/// Like [`answer`], but only from this zone of the set. Without a zone, or if the name is not in it, the answer is that
/// of a server without the zone. An emulator of many servers uses this, because there the zone also depends on the
/// queried server.
#[must_use]
pub fn answer_from(
    set: SetVersion<'_>,
    zone: Option<&Zone<'_>>,
    request: &Request<'_>,
    context: &AnswerContext<'_>,
    out: &mut [u8],
) -> ResponseInfo {
    answer_found(set, request, context, PriorLookup::Zone(zone), out)
}

/// The result of an earlier lookup for a question.
enum PriorLookup<'f, 'a> {
    Nothing,
    /// The position of its name.
    Name(FoundName<'f>),
    /// The zone that answers, if any.
    Zone(Option<&'f Zone<'a>>),
}

/// Like [`answer`], with the result of an earlier lookup.
fn answer_found(
    set: SetVersion<'_>,
    request: &Request<'_>,
    context: &AnswerContext<'_>,
    prior: PriorLookup<'_, '_>,
    out: &mut [u8],
) -> ResponseInfo {
    let requested = request.edns.as_ref().map(EdnsIn::requested);
    let mut composer = Composer::new(out, context.bytes_max(requested.as_ref()));
    let mut edns = requested.map(|requested| context.edns_out(&requested));
    // The zone is not known yet, so only room for its version is reserved.
    let has_version = requested.is_some_and(|requested| requested.zoneversion);
    let version_bytes = if has_version { ZoneVersionOut::OPTION_BYTES } else { 0 };
    let has_expire = requested.is_some_and(|requested| requested.expire);
    let expire_bytes = if has_expire { EdnsOut::EXPIRE_BYTES } else { 0 };
    composer.reserve(edns.as_ref().map_or(0, EdnsOut::byte_count) + version_bytes + expire_bytes);
    let (kind, common_labels) = match &request.question {
        None => {
            composer.start_response(request, Rcode::NOERROR, false);
            (AnswerKind::CookieOnly, 0)
        }
        Some(question) => {
            let edns = edns.as_mut().map(|edns| Opt { edns, has_version, has_expire });
            answer_question(set, request, question, context, prior, &mut composer, edns)
        }
    };
    let (rcode, truncated) = (composer.rcode(), composer.is_truncated());
    ResponseInfo { len: composer.finish(edns.as_ref()), kind, rcode, truncated, common_labels }
}

/// A query that is not answered from a zone.
struct Refusal {
    rcode: Rcode,
    kind: AnswerKind,
    /// RFC 8914.
    extended: Option<u16>,
}

/// OPT of a response whose zone is not known yet.
struct Opt<'o, 'c> {
    edns: &'o mut EdnsOut<'c>,
    /// Whether the client asks for ZONEVERSION.
    has_version: bool,
    /// Whether the client asks for EXPIRE.
    has_expire: bool,
}

impl Opt<'_, '_> {
    /// Adds the requested options about the zone that answers.
    #[inline]
    fn add_options(self, zone: &Zone<'_>, question: &FirstQuestion<'_>) {
        // RFC 9660 3.2: only an answer from a zone has a version, so this is the only place that adds the option.
        if self.has_version {
            self.edns.zoneversion = version_of(zone);
        }
        if self.has_expire && question.qtype == Rtype::SOA && question.qname == zone.apex() {
            self.edns.expire = zone.expire();
        }
    }
}

fn answer_question(
    set: SetVersion<'_>,
    request: &Request<'_>,
    question: &FirstQuestion<'_>,
    context: &AnswerContext<'_>,
    prior: PriorLookup<'_, '_>,
    composer: &mut Composer<'_>,
    opt: Option<Opt<'_, '_>>,
) -> (AnswerKind, usize) {
    if question.qclass == Class::CH
        && let Some(text) = context.chaos.find(question)
    {
        composer.start_response(request, Rcode::NOERROR, true);
        chaos::push(composer, question, text);
        return (AnswerKind::Chaos, ALL_LABELS);
    }
    let mut own_key;
    let (qkey, trail, name, given_zone) = match prior {
        PriorLookup::Name(FoundName { key, zone, name }) => (key, *zone, Some(name), None),
        PriorLookup::Nothing => {
            own_key = Key::new();
            key::write(question.qname, &mut own_key);
            let trail = set.store().trail(set.zones_tree(), &own_key);
            (&mut own_key, trail, None, None)
        }
        PriorLookup::Zone(zone) => {
            own_key = Key::new();
            key::write(question.qname, &mut own_key);
            let zone = zone.filter(|zone| question.qname.is_at_or_below(zone.apex()));
            (&mut own_key, Trail::default(), None, Some(zone))
        }
    };
    debug_assert!(key::is_of(question.qname, qkey), "found for another question");
    let mut path = Path::new();
    let nearest = match given_zone {
        None => set.find_nearest(question.qname, question.qtype, &trail),
        Some(zone) => zone.copied(),
    };
    let mut find = || match nearest {
        None if given_zone.is_none() => set.find_key(qkey, question.qtype, &mut path),
        nearest => nearest,
    };
    let admitted = refuse_question(question).map_or_else(|| admit(find(), context), Err);
    match admitted {
        Err(Refusal { rcode, kind, extended }) => {
            composer.start_response(request, rcode, false);
            if let (Some(opt), Some(code)) = (opt, extended) {
                // The message has no records, so there is room without a reservation.
                opt.edns.ede[0] = Some((code, ""));
            }
            // All names get this answer.
            (kind, 0)
        }
        Ok(zone) => {
            if let Some(opt) = opt {
                opt.add_options(&zone, question);
            }
            composer.start_response(request, Rcode::NOERROR, true);
            let trail = match name {
                Some(name) if nearest.is_some() => *name,
                _ => set.store().trail(zone.names(), qkey),
            };
            Responder::new(composer, zone, *question, request.dnssec_ok()).respond(qkey, &trail, &mut path)
        }
    }
}

/// Refuses some questions before the search for a zone.
fn refuse_question(question: &FirstQuestion<'_>) -> Option<Refusal> {
    let refused = |extended| Some(Refusal { rcode: Rcode::REFUSED, kind: AnswerKind::Refused, extended });
    if question.qclass != Class::IN {
        return refused(None);
    }
    match question.qtype {
        // RFC 9824 3.5: "the DNS server MUST return a Format Error", and may say EDE 30.
        Rtype::NXNAME => {
            Some(Refusal { rcode: Rcode::FORMERR, kind: AnswerKind::FormErr, extended: Some(ede::INVALID_QUERY_TYPE) })
        }
        // RFC 6891 6.1.1, RFC 8945 4.2, RFC 2930 2: no zone has these.
        Rtype::OPT | Rtype::TSIG | Rtype::TKEY => {
            Some(Refusal { rcode: Rcode::FORMERR, kind: AnswerKind::FormErr, extended: None })
        }
        Rtype::MAILA | Rtype::MAILB => Some(Refusal { rcode: Rcode::NOTIMP, kind: AnswerKind::NotImp, extended: None }),
        // Zone transfers do not come here if the caller supports them.
        Rtype::AXFR | Rtype::IXFR => refused(Some(ede::NOT_SUPPORTED)),
        _ => None,
    }
}

/// Checks the zone that was found: whether there is one, and whether it may be served.
fn admit<'a>(zone: Option<Zone<'a>>, context: &AnswerContext<'_>) -> Result<Zone<'a>, Refusal> {
    let refusal = |rcode, kind, code| Refusal { rcode, kind, extended: Some(code) };
    let Some(zone) = zone else {
        return Err(refusal(Rcode::REFUSED, AnswerKind::Refused, ede::NOT_AUTHORITATIVE));
    };
    let state = if zone.serial().is_none() { Servable::Loading } else { (context.zone_state)(&zone) };
    match state {
        Servable::Ready => Ok(zone),
        Servable::Loading | Servable::CutOff => Err(refusal(Rcode::SERVFAIL, AnswerKind::ServFail, ede::NOT_READY)),
        Servable::Expired => Err(refusal(Rcode::SERVFAIL, AnswerKind::ServFail, ede::INVALID_DATA)),
    }
}

/// The version of the zone that an answer comes from (RFC 9660 3.2).
fn version_of(zone: &Zone<'_>) -> Option<ZoneVersionOut> {
    let label_count = zone.apex().label_count() as u8;
    zone.serial().map(|serial| ZoneVersionOut { label_count, serial })
}
