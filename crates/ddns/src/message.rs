//! Builds requests, and parses responses.

use crate::address::{Family, from_rdata, rdata};
use crate::machine::{Change, Request, Update};
use crate::outcome::{Failure, ObservedRrset, Outcome, Refusal};
use tsig::client::{ClientKey, Unverified, UpdateBuilder};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{Message, Section};

/// The bytes of an unsigned request.
#[must_use]
pub fn compose(request: &Request, zone: &Name, id: u16) -> Vec<u8> {
    match request {
        Request::Update { update, .. } => compose_update(update, zone, id),
        Request::Query { owner, family, .. } => MessageBuilder::query(id, owner.as_ref(), family.rtype()).build(),
    }
}

fn compose_update(update: &Update, zone: &Name, id: u16) -> Vec<u8> {
    let owner = update.owner.as_ref();
    let mut message = UpdateBuilder::new(id, zone.as_ref());
    if update.changes.iter().any(|change| !change.to.is_empty()) {
        // RFC 2136 3.4.2.2: records added beside a CNAME are ignored without an error.
        message = message.require_no_rrset(owner, Rtype::CNAME);
    }
    for Change { family, from, .. } in &update.changes {
        message = match from.is_empty() {
            true => message.require_no_rrset(owner, family.rtype()),
            false => from
                .iter()
                .fold(message, |message, address| message.require_record(owner, family.rtype(), &rdata(address))),
        };
    }
    for Change { family, from, to } in &update.changes {
        if !from.is_empty() {
            message = message.delete_rrset(owner, family.rtype());
        }
        message =
            to.iter().fold(message, |message, address| message.add(owner, update.ttl, family.rtype(), &rdata(address)));
    }
    message.finish()
}

/// A parsed response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParsedResponse {
    /// A signed response with the outcome.
    Outcome(Outcome),
    /// A signed, truncated response: the request must be repeated over TCP.
    Truncated,
    /// An unsigned response, which may be forged. It counts only if no signed response arrives.
    Unauthenticated(Refusal),
    /// Not a response to this request.
    Ignored,
}

/// Parses a response to `request`, whose signed bytes are `signed_request`.
#[must_use]
pub fn parse_response(
    request: &Request,
    signed_request: &[u8],
    response: &[u8],
    key: &ClientKey,
    now_s: u64,
) -> ParsedResponse {
    let Ok(message) = Message::parse(response) else { return ParsedResponse::Ignored };
    let rcode = message.rcode();
    let verified = match key.verify(signed_request, response, now_s) {
        Ok(verified) => verified,
        Err(Unverified::Foreign | Unverified::BadMac) => return ParsedResponse::Ignored,
        Err(Unverified::Error(error)) => return ParsedResponse::Unauthenticated(Refusal::Key(error)),
        Err(Unverified::BadTime) => return ParsedResponse::Unauthenticated(Refusal::Clock(None)),
        Err(Unverified::Unsigned) => return ParsedResponse::Unauthenticated(Refusal::Unsigned(rcode)),
    };
    if verified.error == Rcode::BADTIME {
        return ParsedResponse::Outcome(Outcome::Refused(Refusal::Clock(verified.server_time_s)));
    }
    if message.header().tc {
        return ParsedResponse::Truncated;
    }
    ParsedResponse::Outcome(match request {
        Request::Update { .. } => update_outcome(rcode),
        Request::Query { owner, family, .. } => query_outcome(rcode, &message, owner, *family),
    })
}

fn update_outcome(rcode: Rcode) -> Outcome {
    match rcode {
        Rcode::NOERROR => Outcome::Done,
        // RFC 2136 3.2.
        Rcode::YXDOMAIN | Rcode::YXRRSET | Rcode::NXDOMAIN | Rcode::NXRRSET => Outcome::Prerequisite(rcode),
        Rcode::SERVFAIL => Outcome::Unreachable(Failure::Rcode(rcode)),
        _ => Outcome::Refused(Refusal::Rcode(rcode)),
    }
}

fn query_outcome(rcode: Rcode, message: &Message<'_>, owner: &Name, family: Family) -> Outcome {
    match rcode {
        Rcode::NOERROR | Rcode::NXDOMAIN => {}
        Rcode::SERVFAIL => return Outcome::Unreachable(Failure::Rcode(rcode)),
        _ => return Outcome::Refused(Refusal::Rcode(rcode)),
    }
    let mut observed = ObservedRrset::default();
    for record in message.records(Section::Answer).flatten().filter(|record| record.class == Class::IN) {
        // RFC 6672 3.1: a DNAME is above the name; a CNAME that is made from it is at the name.
        let is_at_name = record.owner.as_ref() == owner.as_ref();
        if record.rtype == Rtype::CNAME && is_at_name {
            observed.is_alias = true;
        } else if record.rtype == family.rtype() && is_at_name {
            observed.addresses.extend(from_rdata(family, record.rdata()));
            observed.ttl = Some(record.ttl);
        }
    }
    Outcome::Observed(observed)
}
