//! Answers like a server that behaves differently from ours: takes our complete answer and composes it in the way of
//! that server.

use super::near_composer::NearComposer;
use crate::ServerBehavior;
use wire::builder::MessageBuilder;
use wire::compose::{Composer, EdnsOut, Full};
use wire::limits::MESSAGE_BYTES_MAX;
use wire::name::Name;
use wire::number::{Class, Rtype};
use wire::parse::{Message, Parsed, Request, Section, parse_request};
use zone::answer::{AnswerContext, AnswerKind, Chaos, ResponseInfo, Servable, Transport, answer_from};
use zone::set::{SetVersion, Zone};

/// Size of a record without its rdata, with a pointer as owner.
const RECORD_BYTES: usize = 12;

/// Answers like an emulated server. Has buffers for complete answers.
pub(super) struct Responder {
    complete: Vec<u8>,
    name_servers: Vec<u8>,
}

/// The source of an answer, and the question.
pub(super) struct AnswerSource<'m, 'a> {
    pub(super) set: SetVersion<'a>,
    pub(super) zone: &'m Zone<'a>,
    pub(super) request: &'m Request<'m>,
    pub(super) transport: Transport,
    pub(super) behavior: ServerBehavior,
}

impl Default for Responder {
    fn default() -> Self {
        let buffer = || vec![0; MESSAGE_BYTES_MAX];
        Self { complete: buffer(), name_servers: buffer() }
    }
}

impl Responder {
    /// Writes the answer as the server would. `None` if its behavior does not affect this answer.
    pub(super) fn answer(&mut self, source: &AnswerSource<'_, '_>, out: &mut [u8]) -> Option<ResponseInfo> {
        let AnswerSource { set, zone, request, transport, behavior } = *source;
        let context = context(Transport::Tcp, behavior);
        let answered = answer_from(set, Some(zone), request, &context, &mut self.complete);
        let is_stream = transport == Transport::Tcp;
        let qtype = request.question.as_ref()?.qtype;
        let (has_ns, is_affected) = match answered.kind {
            AnswerKind::Positive | AnswerKind::Alias => {
                let has_ns = behavior.ns_in_answers && !matches!(qtype, Rtype::DS | Rtype::DNSKEY | Rtype::ANY);
                (has_ns, has_ns || behavior.keeps_what_fits && !is_stream)
            }
            AnswerKind::Referral => (false, (behavior.glue_in_order || behavior.keeps_what_fits) && !is_stream),
            AnswerKind::NoData | AnswerKind::NxDomain => (false, behavior.keeps_what_fits && !is_stream),
            _ => (false, false),
        };
        let is_any = qtype == Rtype::ANY && answered.kind == AnswerKind::Positive && behavior.any_whole;
        if !is_affected && !is_any {
            return None;
        }
        let message = Message::parse(&self.complete[..answered.len]).ok()?;
        let [mut answer, mut authority, mut additional] = Section::ALL.map(|section| rrsets(&message, section));
        if is_any {
            answer = all_of(zone, request);
        }
        let is_answered = answer.iter().any(|rrset| rrset.is(zone, Rtype::NS));
        if has_ns && !is_answered || is_any && is_answered {
            let [ns, _, addresses] = name_servers(source, &mut self.name_servers)?;
            authority.extend(ns.into_iter().filter(|_| !is_answered));
            let is_there = |new: &Rrset| answer.iter().chain(&additional).any(|known| known.is_same(new));
            let new: Vec<_> = addresses.into_iter().filter(|new| !is_there(new)).collect();
            additional.extend(new);
        }
        let is_referral = answered.kind == AnswerKind::Referral;
        if is_referral && behavior.glue_in_order {
            order_glue(&authority, &mut additional);
        }
        let edns = request.edns.as_ref().map(|opt| EdnsOut {
            payload: behavior.datagram_bytes_max(),
            dnssec_ok: opt.dnssec_ok,
            ..EdnsOut::default()
        });
        let reserved = edns.as_ref().map_or(0, EdnsOut::byte_count);
        let bytes_max = bytes_max(source);
        let response = if behavior.points_near {
            let first = (answered.rcode, message.header().aa);
            ResponseWriter::Near(NearComposer::new(out, bytes_max, reserved, request, first))
        } else {
            let mut composer = Composer::new(out, bytes_max);
            composer.reserve(reserved);
            composer.start_response(request, answered.rcode, message.header().aa);
            ResponseWriter::Ours(composer)
        };
        let mut writer = Writer { response, behavior };
        let pushed = if is_any { writer.push_any(&answer) } else { writer.push(Section::Answer, &answer) };
        if pushed.and_then(|()| writer.push(Section::Authority, &authority)).is_ok() {
            let needed = authority.first().filter(|_| is_referral && !behavior.glue_in_order);
            // A truncated answer to ANY may lack the name servers.
            if !is_any || !writer.response.is_truncated() {
                writer.push_addresses(&additional, needed);
            }
        } else {
            writer.response.truncate_all();
        }
        let truncated = writer.response.is_truncated();
        Some(ResponseInfo { len: writer.response.finish(edns.as_ref()), truncated, ..answered })
    }
}

/// The size limit: the one of our server, with the largest datagram of this one.
fn bytes_max(source: &AnswerSource<'_, '_>) -> usize {
    match source.transport {
        Transport::Tcp => MESSAGE_BYTES_MAX,
        Transport::Udp => {
            // RFC 6891 6.2.3, RFC 1035 4.2.1.
            let payload_bytes = source.request.edns.as_ref().map_or(512, |edns| edns.payload_bytes());
            payload_bytes.min(usize::from(source.behavior.datagram_bytes_max())).max(512)
        }
    }
}

/// The answer of the zone for its own NS records.
fn name_servers(source: &AnswerSource<'_, '_>, buffer: &mut [u8]) -> Option<[Vec<Rrset>; 3]> {
    let AnswerSource { set, zone, request, behavior, .. } = *source;
    let query =
        MessageBuilder::query(0, zone.apex(), Rtype::NS).edns(behavior.datagram_bytes_max(), request.dnssec_ok());
    let query = query.build();
    let Parsed::Request(ns_request) = parse_request(&query) else { return None };
    let answered = answer_from(set, Some(zone), &ns_request, &context(Transport::Tcp, behavior), buffer);
    let message = Message::parse(&buffer[..answered.len]).ok()?;
    Some(Section::ALL.map(|section| rrsets(&message, section)))
}

/// Records of one owner and type. Signatures that cover the same type are one RRset.
struct Rrset {
    owner: Name,
    rtype: Rtype,
    covered: Rtype,
    ttl: u32,
    rdatas: Vec<Vec<u8>>,
}

impl Rrset {
    fn is(&self, zone: &Zone<'_>, rtype: Rtype) -> bool {
        self.rtype == rtype && self.owner.as_ref() == zone.apex()
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.rtype, self.covered) == (other.rtype, other.covered) && self.owner == other.owner
    }

    fn is_address(&self) -> bool {
        matches!(self.rtype, Rtype::A | Rtype::AAAA)
    }
}

/// The type that a signature covers.
fn covered(rtype: Rtype, rdata: &[u8]) -> Rtype {
    match rdata[..] {
        [high, low, ..] if rtype == Rtype::RRSIG => Rtype(u16::from_be_bytes([high, low])),
        _ => Rtype(0),
    }
}

/// The RRsets of a section in order, without OPT.
fn rrsets(message: &Message<'_>, section: Section) -> Vec<Rrset> {
    let mut all: Vec<Rrset> = Vec::new();
    for record in message.records(section).map_while(Result::ok).filter(|record| !record.rtype.is_meta()) {
        let mut rdata = Vec::new();
        if record.rdata_canonical(&mut rdata).is_err() {
            continue;
        }
        let covered = covered(record.rtype, &rdata);
        let (owner, rtype, ttl) = (record.owner.to_name(), record.rtype, record.ttl);
        let new = Rrset { owner, rtype, covered, ttl, rdatas: Vec::new() };
        if !all.last().is_some_and(|last| last.is_same(&new)) {
            all.push(new);
        }
        if let Some(last) = all.last_mut() {
            last.rdatas.push(rdata);
        }
    }
    all
}

/// Sorts the addresses of a referral into the order of its name servers.
fn order_glue(authority: &[Rrset], additional: &mut [Rrset]) {
    let ns = authority.iter().find(|rrset| rrset.rtype == Rtype::NS);
    let targets: Vec<&[u8]> = ns.into_iter().flat_map(|ns| &ns.rdatas).map(Vec::as_slice).collect();
    let position = |rrset: &Rrset| {
        let owner = rrset.owner.as_ref();
        targets.iter().position(|target| wire::name::NameRef::from_bytes(target).is_ok_and(|target| target == owner))
    };
    additional.sort_by_cached_key(|rrset| position(rrset).unwrap_or(usize::MAX));
}

/// All RRsets of the queried name: SOA, signatures, the others.
fn all_of(zone: &Zone<'_>, request: &Request<'_>) -> Vec<Rrset> {
    let mut all: Vec<Rrset> = Vec::new();
    let Some(question) = &request.question else { return all };
    for record in zone.records_at(question.qname) {
        let rdata = record.rdata.to_vec();
        let covered = covered(record.rtype, &rdata);
        let (owner, rtype, ttl) = (question.qname.to_name(), record.rtype, record.ttl);
        let new = Rrset { owner, rtype, covered, ttl, rdatas: vec![rdata] };
        match all.iter_mut().find(|known| known.is_same(&new)) {
            Some(known) => known.rdatas.extend(new.rdatas),
            None => all.push(new),
        }
    }
    all.sort_by_key(|rrset| match rrset.rtype {
        Rtype::SOA => 0,
        Rtype::RRSIG => 1,
        _ => 2,
    });
    all
}

/// The composer of a response.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
enum ResponseWriter<'b> {
    Ours(Composer<'b>),
    Near(NearComposer<'b>),
}

impl ResponseWriter<'_> {
    fn set_tc(&mut self) {
        match self {
            Self::Ours(composer) => composer.set_tc(),
            Self::Near(near) => near.set_tc(),
        }
    }

    fn truncate_all(&mut self) {
        match self {
            Self::Ours(composer) => composer.truncate_all(),
            Self::Near(near) => near.truncate_all(),
        }
    }

    const fn bytes_left(&self) -> usize {
        match self {
            Self::Ours(composer) => composer.bytes_left(),
            Self::Near(near) => near.bytes_left(),
        }
    }

    const fn is_truncated(&self) -> bool {
        match self {
            Self::Ours(composer) => composer.is_truncated(),
            Self::Near(near) => near.is_truncated(),
        }
    }

    fn finish(self, edns: Option<&EdnsOut<'_>>) -> usize {
        match self {
            Self::Ours(composer) => composer.finish(edns),
            Self::Near(near) => near.finish(edns),
        }
    }
}

/// Adds RRsets to a response.
struct Writer<'b> {
    response: ResponseWriter<'b>,
    behavior: ServerBehavior,
}

impl Writer<'_> {
    fn push_one(&mut self, section: Section, rrset: &Rrset) -> Result<(), Full> {
        let Rrset { owner, rtype, ttl, rdatas, .. } = rrset;
        let rdatas = rdatas.iter().map(Vec::as_slice);
        match &mut self.response {
            ResponseWriter::Ours(composer) => {
                composer.push_rrset(section, owner.as_ref(), *rtype, Class::IN, *ttl, rdatas)
            }
            ResponseWriter::Near(near) => near.push_rrset(section, (owner.as_ref(), *rtype, *ttl), rdatas),
        }
    }

    /// Fills a section. On an error, the response must be emptied.
    fn push(&mut self, section: Section, rrsets: &[Rrset]) -> Result<(), Full> {
        // First without signatures: they are dropped first from a truncated response.
        let (signatures, plain): (Vec<_>, Vec<_>) = rrsets.iter().partition(|rrset| rrset.rtype == Rtype::RRSIG);
        for rrset in plain.into_iter().chain(signatures) {
            match self.push_one(section, rrset) {
                Err(full) if !self.behavior.keeps_what_fits => return Err(full),
                Err(_) => self.response.set_tc(),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Fills the answer section with all records of a name that fit. Its signatures are one RRset, because they have
    /// one owner and type.
    fn push_any(&mut self, rrsets: &[Rrset]) -> Result<(), Full> {
        let is_signature = |rrset: &&Rrset| rrset.rtype == Rtype::RRSIG;
        let bytes = |rrset: &Rrset| rrset.rdatas.iter().map(|rdata| RECORD_BYTES + rdata.len()).sum::<usize>();
        let mut signatures: usize = rrsets.iter().filter(is_signature).map(bytes).sum();
        for rrset in rrsets {
            let has_room = !is_signature(&rrset) || signatures <= self.response.bytes_left();
            if is_signature(&rrset) {
                signatures -= bytes(rrset);
            }
            if !has_room || self.push_one(Section::Answer, rrset).is_err() {
                self.response.set_tc();
                return if self.behavior.keeps_what_fits { Ok(()) } else { Err(Full) };
            }
        }
        Ok(())
    }

    /// Fills the additional section with what fits. Glue at or below the cut is `needed`.
    fn push_addresses(&mut self, rrsets: &[Rrset], needed: Option<&Rrset>) {
        for rrset in rrsets {
            let is_needed = needed.is_some_and(|cut| rrset.owner.as_ref().is_at_or_below(cut.owner.as_ref()));
            if self.push_one(Section::Additional, rrset).is_err() && is_needed && rrset.is_address() {
                // RFC 9471 3.1.
                self.response.set_tc();
            }
        }
    }
}

/// A plain server with common sizes: no cookies and no NSID, so equal queries get equal answers. The behavior sets the
/// size of datagrams.
pub(super) fn context(transport: Transport, behavior: ServerBehavior) -> AnswerContext<'static> {
    AnswerContext {
        transport,
        udp_bytes_max: behavior.datagram_bytes_max(),
        payload: behavior.datagram_bytes_max(),
        nsid: None,
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos { id_server: None, version: None },
        zone_state: &|_| Servable::Ready,
        tsig_reserve: 0,
    }
}
