//! The messages to servers, and what their responses mean.

use crate::address::{Family, from_rdata, rdata};
use crate::machine::{Change, Request, Update};
use crate::outcome::{Failure, Outcome, Refusal, Seen};
use tsig::client::{ClientKey, Unverified, UpdateBuilder};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{Message, Section};

/// The bytes of a request, not signed.
#[must_use]
pub fn compose(request: &Request, zone: &Name, id: u16) -> Vec<u8> {
    match request {
        Request::Update { update, .. } => compose_update(update, zone, id),
        Request::Look { owner, family, .. } => MessageBuilder::query(id, owner.as_ref(), family.rtype()).build(),
    }
}

fn compose_update(update: &Update, zone: &Name, id: u16) -> Vec<u8> {
    let owner = update.owner.as_ref();
    let mut message = UpdateBuilder::new(id, zone.as_ref());
    if update.changes.iter().any(|change| !change.to.is_empty()) {
        // RFC 2136 3.4.2.2: what is added beside a CNAME is left out without a word.
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

/// What a response says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It is for us and signed: this became of the request.
    Outcome(Outcome),
    /// It is for us and signed, and has no room for the answer: the same is to be asked over TCP.
    Truncated,
    /// It is for us, and anybody can have written it: better is waited for, and this is told if nothing better comes.
    Hearsay(Refusal),
    /// It is nothing.
    Noise,
}

/// Reads a response to `asked`, which is `request` as `key` signed it.
#[must_use]
pub fn hear(request: &Request, asked: &[u8], response: &[u8], key: &ClientKey, now_s: u64) -> Heard {
    let Ok(message) = Message::parse(response) else { return Heard::Noise };
    let rcode = message.rcode();
    let verified = match key.verify(asked, response, now_s) {
        Ok(verified) => verified,
        Err(Unverified::Foreign | Unverified::BadMac) => return Heard::Noise,
        Err(Unverified::Error(error)) => return Heard::Hearsay(Refusal::Key(error)),
        Err(Unverified::BadTime) => return Heard::Hearsay(Refusal::Clock(None)),
        Err(Unverified::Unsigned) => return Heard::Hearsay(Refusal::Unsigned(rcode)),
    };
    if verified.error == Rcode::BADTIME {
        return Heard::Outcome(Outcome::Refused(Refusal::Clock(verified.server_time_s)));
    }
    if message.header().tc {
        return Heard::Truncated;
    }
    Heard::Outcome(match request {
        Request::Update { .. } => updated(rcode),
        Request::Look { owner, family, .. } => looked(rcode, &message, owner, *family),
    })
}

fn updated(rcode: Rcode) -> Outcome {
    match rcode {
        Rcode::NOERROR => Outcome::Done,
        // RFC 2136 3.2.
        Rcode::YXDOMAIN | Rcode::YXRRSET | Rcode::NXDOMAIN | Rcode::NXRRSET => Outcome::Prerequisite(rcode),
        Rcode::SERVFAIL => Outcome::Unreachable(Failure::Rcode(rcode)),
        _ => Outcome::Refused(Refusal::Rcode(rcode)),
    }
}

fn looked(rcode: Rcode, message: &Message<'_>, owner: &Name, family: Family) -> Outcome {
    match rcode {
        Rcode::NOERROR | Rcode::NXDOMAIN => {}
        Rcode::SERVFAIL => return Outcome::Unreachable(Failure::Rcode(rcode)),
        _ => return Outcome::Refused(Refusal::Rcode(rcode)),
    }
    let mut seen = Seen::default();
    for record in message.records(Section::Answer).flatten().filter(|record| record.class == Class::IN) {
        // RFC 6672 3.1: a DNAME is above the name; a CNAME that is made from it is at the name.
        let is_at_name = record.owner.as_ref() == owner.as_ref();
        if record.rtype == Rtype::CNAME && is_at_name {
            seen.is_alias = true;
        } else if record.rtype == family.rtype() && is_at_name {
            seen.addresses.extend(from_rdata(family, record.rdata()));
            seen.ttl = Some(record.ttl);
        }
    }
    Outcome::Seen(seen)
}
