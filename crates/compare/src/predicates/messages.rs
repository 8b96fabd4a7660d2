//! Messages other than plain queries.

use super::pair::Exchange;
use crate::Response;
use crate::query::Query;
use crate::response::{Reaction, flag};
use testbed::Kind;
use trace::Transport;
use wire::number::{Class, Opcode, Rcode, Rtype};
use wire::parse::{Header, Message, ParseError, Section};

/// Whether a response has only flags, an RCODE, and perhaps the question.
fn is_bare(response: &Response) -> bool {
    let is_empty = response.answer.is_empty() && response.authority.is_empty() && response.additional.is_empty();
    is_empty && response.duplicate_count == 0
}

/// Whether the peer was silent, or only said that it cannot handle the message.
fn is_unhandled(theirs: &Reaction) -> bool {
    match theirs {
        Reaction::Silence => true,
        Reaction::Response(theirs) => {
            is_bare(theirs) && matches!(theirs.rcode, Rcode::FORMERR | Rcode::NOTIMP | Rcode::REFUSED)
        }
        Reaction::Garbage(_) => false,
    }
}

/// Whether a response has any flag but RD.
fn has_flags(response: &Response) -> bool {
    [flag::AA, flag::TC, flag::RA, flag::AD, flag::CD].into_iter().any(|flag| response.flags[flag])
}

/// Whether ours sent only a header with this RCODE and no flag but RD, with OPT exactly if the message has a readable
/// one (RFC 6891 6.1.1). The peers' OPT is not checked: NSD and BIND leave it out on early errors.
fn is_header_with(exchange: &Exchange<'_>, rcode: Rcode) -> bool {
    exchange.ours.response().is_some_and(|ours| {
        let is_header = ours.rcode == rcode && is_bare(ours) && ours.question.is_empty() && !has_flags(ours);
        is_header && ours.edns.is_some() == has_opt(&exchange.message.bytes)
    })
}

/// Whether a message can be parsed completely and has one OPT, in the additional section.
fn has_opt(bytes: &[u8]) -> bool {
    let Ok(message) = Message::parse(bytes) else { return false };
    let count = |section| message.records(section).flatten().filter(|record| record.rtype == Rtype::OPT).count();
    [Section::Answer, Section::Authority, Section::Additional].map(count) == [0, 0, 1]
}

/// RFC 1035 4.1.1: NOTIMP for an unknown kind of query, regardless of its contents (RFC 8490 5.4: DSO and IQUERY have
/// no question). Knot is silent; NSD sends NOTIMP with the flags of the query or of a misparsed one; BIND answers
/// FORMERR if there is no question.
pub(super) fn opcode_not_known(exchange: &Exchange<'_>) -> bool {
    let Some(header) = Header::parse(&exchange.message.bytes) else { return false };
    let is_known = matches!(header.opcode, Opcode::QUERY | Opcode::UPDATE);
    !header.qr && !is_known && is_header_with(exchange, Rcode::NOTIMP) && is_unhandled(exchange.theirs)
}

/// RFC 1035 4.1.1: FORMERR for unreadable messages, with only a header, because an unreadable question is not repeated
/// (RFC 9619 4: neither are several). Knot and NSD ignore some of them, NSD takes some for another opcode, and BIND
/// copies CD, drops RD, or repeats the question.
pub(super) fn malformed(exchange: &Exchange<'_>) -> bool {
    let bytes = &exchange.message.bytes;
    let Some(header) = Header::parse(bytes) else { return false };
    let is_malformed = Message::parse(bytes).is_err() || header.counts[0] != 1;
    let is_known = matches!(header.opcode, Opcode::QUERY | Opcode::UPDATE);
    let is_ours = is_header_with(exchange, Rcode::FORMERR);
    !header.qr && is_known && is_malformed && is_ours && is_unhandled(exchange.theirs)
}

/// RFC 1035 4.1: a message ends with its last section. Ours answers FORMERR to a query with trailing bytes, as Knot
/// does; NSD and BIND answer it.
pub(super) fn bytes_left_over(exchange: &Exchange<'_>) -> bool {
    let is_left_over = Message::parse(&exchange.message.bytes).err() == Some(ParseError::LeftOver);
    let answers = exchange.theirs.response().is_some_and(|theirs| {
        matches!(theirs.rcode, Rcode::NOERROR | Rcode::NXDOMAIN) && matches!(exchange.peer, Kind::Nsd | Kind::Bind)
    });
    is_left_over && is_header_with(exchange, Rcode::FORMERR) && answers
}

/// Both results of a plain query, if ours sent only an RCODE.
fn bare_answer<'a>(exchange: &Exchange<'a>) -> Option<(&'a Query, Rcode, &'a Response)> {
    let ours = exchange.ours.response().filter(|ours| is_bare(ours) && !has_flags(ours))?;
    Some((exchange.query?, ours.rcode, exchange.theirs.response()?))
}

/// RFC 6895 3.1: OPT, TSIG and TKEY are meta types, which a question must not have, so FORMERR. RFC 9824 3.5 requires
/// the same for NXNAME. RFC 1035 4.1.1: NOTIMP for MAILA and MAILB. BIND agrees; NSD and Knot look up the name.
pub(super) fn meta_qtype(exchange: &Exchange<'_>) -> bool {
    let Some((query, rcode, theirs)) = bare_answer(exchange) else { return false };
    let expected = match query.qtype {
        Rtype::OPT | Rtype::TSIG | Rtype::TKEY | Rtype::NXNAME => Rcode::FORMERR,
        Rtype::MAILA | Rtype::MAILB => Rcode::NOTIMP,
        _ => return false,
    };
    let looks_up = matches!(exchange.peer, Kind::Nsd | Kind::Knot)
        && matches!(theirs.rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::SERVFAIL | Rcode::YXDOMAIN);
    rcode == expected && looks_up
}

/// RFC 3597 3: an unknown type is looked up like any other. Knot answers NOTIMP for type 0.
pub(super) fn reserved_qtype(exchange: &Exchange<'_>) -> bool {
    let (Some(query), Some(ours), Some(theirs)) =
        (exchange.query, exchange.ours.response(), exchange.theirs.response())
    else {
        return false;
    };
    let is_knot_at_0 = (exchange.peer, query.qtype) == (Kind::Knot, Rtype(0)) && theirs.rcode == Rcode::NOTIMP;
    let is_lookup = matches!(ours.rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN);
    is_lookup && is_knot_at_0 && is_bare(theirs)
}

/// RFC 1035 4.1.1: REFUSED if the server has no data of a class. NSD leaves out the question; BIND answers FORMERR,
/// NOTIMP, NOTAUTH or nothing; Knot answers NOTIMP to AXFR. For class ANY, NSD and Knot answer from class IN.
pub(super) fn class_not_in(exchange: &Exchange<'_>) -> bool {
    let Some(query) = exchange.query.filter(|query| query.qclass != Class::IN) else { return false };
    let Some(ours) = exchange.ours.response() else { return false };
    let theirs_is = match (exchange.peer, exchange.theirs) {
        (Kind::Nsd, Reaction::Response(theirs)) if theirs.rcode == Rcode::REFUSED => {
            is_bare(theirs) && theirs.question.is_empty()
        }
        (Kind::Nsd | Kind::Knot, Reaction::Response(_)) if query.qclass == Class::ANY => true,
        (Kind::Knot, Reaction::Response(theirs)) => is_bare(theirs) && theirs.rcode == Rcode::NOTIMP,
        (Kind::Bind, Reaction::Response(theirs)) => {
            is_bare(theirs) && matches!(theirs.rcode, Rcode::FORMERR | Rcode::NOTIMP | Rcode::NOTAUTH)
        }
        (Kind::Bind, Reaction::Silence) => true,
        _ => false,
    };
    ours.rcode == Rcode::REFUSED && is_bare(ours) && !has_flags(ours) && theirs_is
}

/// RFC 5936 4.2: there is no AXFR over UDP, and the RCODE is not specified. Ours answers REFUSED, NSD and Knot NOTIMP,
/// and BIND NOTAUTH if the name is no apex.
pub(super) fn axfr_over_udp(exchange: &Exchange<'_>) -> bool {
    let Some((query, rcode, theirs)) = bare_answer(exchange) else { return false };
    let is_it = query.transport == Transport::Udp && query.qtype == Rtype::AXFR && rcode == Rcode::REFUSED;
    is_it && is_bare(theirs) && matches!(theirs.rcode, Rcode::NOTIMP | Rcode::NOTAUTH | Rcode::REFUSED)
}

/// RFC 1035 4.1.1: REFUSED is "for policy reasons", with a transfer as the example. Ours checks the key before it looks
/// up the zone, so a client without a key learns nothing else. The peers look up the zone first, and answer NOTAUTH
/// (RFC 5936 2.2.1) if the name is no apex.
pub(super) fn transfer_without_key(exchange: &Exchange<'_>) -> bool {
    let Some((query, rcode, theirs)) = bare_answer(exchange) else { return false };
    let is_it = query.transport == Transport::Tcp && matches!(query.qtype, Rtype::AXFR | Rtype::IXFR);
    is_it && rcode == Rcode::REFUSED && is_bare(theirs) && theirs.rcode == Rcode::NOTAUTH
}

/// RFC 2136 3.3: an unauthorized UPDATE is REFUSED. RFC 3007 3: an UPDATE without TSIG is never authorized. NSD does
/// not support UPDATE and answers NOTIMP; Knot answers NOTAUTH.
pub(super) fn unsigned_update(exchange: &Exchange<'_>) -> bool {
    let Ok(message) = Message::parse(&exchange.message.bytes) else { return false };
    let is_signed = message.records(Section::Additional).flatten().any(|record| record.rtype == Rtype::TSIG);
    let (Reaction::Response(ours), Reaction::Response(theirs)) = (exchange.ours, exchange.theirs) else { return false };
    let theirs_is = match exchange.peer {
        Kind::Nsd => theirs.rcode == Rcode::NOTIMP,
        Kind::Knot => theirs.rcode == Rcode::NOTAUTH,
        _ => false,
    };
    let is_update = message.header().opcode == Opcode::UPDATE && !message.header().qr;
    is_update && !is_signed && ours.rcode == Rcode::REFUSED && theirs_is && is_bare(ours) && is_bare(theirs)
}
