//! The response to a query: which zone, what it says, what goes into which section.
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
mod opt;
mod sections;

pub use bare::{Bare, Head, respond_bare};
use batch::Found;
pub use batch::{Batch, Prepared};
pub use chaos::Chaos;

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
    /// Datagrams: what the client takes bounds the response.
    Udp,
    /// Streams, plain or encrypted.
    Tcp,
}

/// Whether a zone may be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Servable {
    /// Yes.
    Ready,
    /// Not yet: this server has not caught up, or the zone is not loaded.
    Loading,
    /// Not any more (RFC 1035 3.3.13, EXPIRE).
    Expired,
    /// Not now: others may show something newer.
    CutOff,
}

/// What an answer depends on besides the zones.
#[derive(Clone, Copy)]
pub struct AnswerContext<'c> {
    /// What carries the response.
    pub transport: Transport,
    /// The largest datagram that is sent, in bytes, whatever the client takes.
    pub udp_bytes_max: u16,
    /// The largest datagram that this server takes, in bytes; for OPT.
    pub payload: u16,
    /// The server's identifier (RFC 5001), sent when asked for.
    pub nsid: Option<&'c [u8]>,
    /// COOKIE for this client (RFC 7873), client and server part.
    pub cookie: Option<&'c [u8]>,
    /// Idle time of the connection in units of 100 ms (RFC 7828); sent when the client asked.
    pub keepalive: Option<u16>,
    /// Pad the response to a multiple of this many bytes (RFC 8467); 0 is not.
    pub padding_block: u16,
    /// Names of class CH that are answered.
    pub chaos: Chaos<'c>,
    /// Whether a zone may be served.
    pub zone_state: &'c dyn Fn(&Zone<'_>) -> Servable,
    /// Bytes to be left for a TSIG record; where the response is padded, as many as it will have.
    pub tsig_reserve: usize,
}

/// What became of a query; for counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerKind {
    /// What was asked for, perhaps at the end of aliases.
    Positive,
    /// The name exists, the type does not.
    NoData,
    /// The name does not exist.
    NxDomain,
    /// The name is in a delegated zone.
    Referral,
    /// Aliases that lead out of the zone, in a circle or too far.
    Alias,
    /// A DNAME whose target is too long a name.
    YxDomain,
    /// No zone, another class, or a transfer.
    Refused,
    /// A zone that may not be served now.
    ServFail,
    /// A QTYPE that no question has.
    FormErr,
    /// A QTYPE that is not implemented.
    NotImp,
    /// No question but a COOKIE (RFC 7873 5.4).
    CookieOnly,
    /// A name of class CH.
    Chaos,
}

impl AnswerKind {
    /// A stable name for metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Positive => "positive",
            Self::NoData => "nodata",
            Self::NxDomain => "nxdomain",
            Self::Referral => "referral",
            Self::Alias => "alias",
            Self::YxDomain => "yxdomain",
            Self::Refused => "refused",
            Self::ServFail => "servfail",
            Self::FormErr => "formerr",
            Self::NotImp => "notimp",
            Self::CookieOnly => "cookie_only",
            Self::Chaos => "chaos",
        }
    }
}

/// A response that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Its bytes; 0 when not even a header fits.
    pub len: usize,
    /// What it is.
    pub kind: AnswerKind,
    /// Its RCODE.
    pub rcode: Rcode,
    /// Whether it has TC.
    pub truncated: bool,
    /// How many labels from the right all names share that get this answer, the root label not counted: those of the
    /// wildcard's parent, of the zone cut, of the zone's apex for names that do not exist; [`ALL_LABELS`] when it is
    /// about this name alone. Whoever limits responses counts by it.
    pub common_labels: usize,
}

/// The answer is about one name.
pub const ALL_LABELS: usize = usize::MAX;

/// Answers a request whose opcode is QUERY into `out`.
#[must_use]
pub fn answer(set: SetVersion<'_>, request: &Request<'_>, context: &AnswerContext<'_>, out: &mut [u8]) -> Answered {
    answer_found(set, request, context, PriorLookup::Nothing, out)
}

/// As [`answer`], from this zone of the set and no other; as a server without the zone where there is none, or where
/// the name of the question is not in it: where one process stands for many servers, which zone answers depends on
/// which of them was asked.
#[must_use]
pub fn answer_from(
    set: SetVersion<'_>,
    zone: Option<&Zone<'_>>,
    request: &Request<'_>,
    context: &AnswerContext<'_>,
    out: &mut [u8],
) -> Answered {
    answer_found(set, request, context, PriorLookup::Zone(zone), out)
}

/// What an earlier lookup found for a question.
enum PriorLookup<'f, 'a> {
    Nothing,
    /// Where its name was found.
    Name(Found<'f>),
    /// Which zone answers, if any.
    Zone(Option<&'f Zone<'a>>),
}

/// As [`answer`], with the result of an earlier lookup.
fn answer_found(
    set: SetVersion<'_>,
    request: &Request<'_>,
    context: &AnswerContext<'_>,
    prior: PriorLookup<'_, '_>,
    out: &mut [u8],
) -> Answered {
    let requested = request.edns.as_ref().map(EdnsIn::requested);
    let mut composer = Composer::new(out, context.bytes_max(requested.as_ref()));
    let mut edns = requested.map(|requested| context.edns_out(&requested));
    // The zone is not known yet, so the composer only reserves room for its version.
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
    Answered { len: composer.finish(edns.as_ref()), kind, rcode, truncated, common_labels }
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
    fn tell_of(self, zone: &Zone<'_>, question: &FirstQuestion<'_>) {
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
    let mut own;
    let (qkey, trail, name, chosen) = match prior {
        PriorLookup::Name(Found { key, zone, name }) => (key, *zone, Some(name), None),
        PriorLookup::Nothing => {
            own = Key::new();
            key::write(question.qname, &mut own);
            let trail = set.store().trail(set.zones_tree(), &own);
            (&mut own, trail, None, None)
        }
        PriorLookup::Zone(zone) => {
            own = Key::new();
            key::write(question.qname, &mut own);
            let zone = zone.filter(|zone| question.qname.is_at_or_below(zone.apex()));
            (&mut own, Trail::default(), None, Some(zone))
        }
    };
    debug_assert!(key::is_of(question.qname, qkey), "found for another question");
    let mut path = Path::new();
    let nearest = match chosen {
        None => set.find_nearest(question.qname, question.qtype, &trail),
        Some(zone) => zone.copied(),
    };
    let mut find = || match nearest {
        None if chosen.is_none() => set.find_key(qkey, question.qtype, &mut path),
        nearest => nearest,
    };
    let admitted = refuse_question(question).map_or_else(|| admit(find(), context), Err);
    match admitted {
        Err(Refusal { rcode, kind, extended }) => {
            composer.start_response(request, rcode, false);
            if let (Some(opt), Some(code)) = (opt, extended) {
                // Nothing else is in the message, so what was reserved does not matter.
                opt.edns.ede[0] = Some((code, ""));
            }
            // It would be the same for any name.
            (kind, 0)
        }
        Ok(zone) => {
            if let Some(opt) = opt {
                opt.tell_of(&zone, question);
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

/// What a question is refused for before any zone is looked at.
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
        // Transfers are no lookups: whoever can do them has taken the request before.
        Rtype::AXFR | Rtype::IXFR => refused(Some(ede::NOT_SUPPORTED)),
        _ => None,
    }
}

/// The zone that answers, which was looked for.
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
