//! Learns how servers answer where a zone leaves a choice. Each response that shows it is one vote; the majority
//! decides.

use super::rrset::target_of;
use crate::ServerBehavior;
use crate::limits::{BEHAVIORS_MAX, DATAGRAM_BYTES_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::name::Name;
use wire::number::{Class, Opcode, Rcode, Rtype};
use wire::parse::{Message, Question, Section};

/// The votes for each address.
#[derive(Default)]
pub(super) struct BehaviorVotes {
    by_server: BTreeMap<IpAddr, Votes>,
}

/// Votes for a behavior less votes against it.
#[derive(Default)]
struct Votes {
    datagram_bytes: u16,
    ns_in_answers: i64,
    glue_in_order: i64,
    keeps_what_fits: i64,
    points_near: i64,
    any_whole: i64,
}

impl BehaviorVotes {
    /// Counts a message that `server` sent. Returns false if there is no room for another server.
    pub(super) fn add(&mut self, server: IpAddr, bytes: &[u8]) -> bool {
        let Ok(message) = Message::parse(bytes) else { return true };
        let header = message.header();
        // A response from a cache says nothing about the servers of the zone.
        let is_told = header.qr && header.opcode == Opcode::QUERY && (header.aa || !header.ra);
        let Some(question) = message.question().filter(|question| is_told && question.qclass == Class::IN) else {
            return true;
        };
        if self.by_server.len() >= BEHAVIORS_MAX && !self.by_server.contains_key(&server) {
            return false;
        }
        let votes = self.by_server.entry(server).or_default();
        if let Some(edns) = message.edns() {
            votes.datagram_bytes = votes.datagram_bytes.max(edns.payload_bytes() as u16);
        }
        votes.points_near += points_near(&message);
        match message.rcode() {
            Rcode::NOERROR | Rcode::NXDOMAIN if header.tc => votes.keeps_what_fits += keeps_what_fits(&message),
            Rcode::NOERROR if question.qtype == Rtype::ANY => votes.any_whole += any_whole(&message),
            Rcode::NOERROR if header.counts[1] > 0 => votes.ns_in_answers += ns_in_answer(&message, &question),
            Rcode::NOERROR if !header.aa => votes.glue_in_order += glue_in_order(&message),
            _ => {}
        }
        true
    }

    /// The behaviors that differ from those of our server.
    pub(super) fn finish(self) -> BTreeMap<IpAddr, ServerBehavior> {
        let behaviors = self.by_server.into_iter().map(|(server, votes)| {
            let bytes = votes.datagram_bytes;
            let behavior = ServerBehavior {
                datagram_bytes: if bytes > DATAGRAM_BYTES_MAX { bytes } else { 0 },
                ns_in_answers: votes.ns_in_answers > 0,
                glue_in_order: votes.glue_in_order > 0,
                keeps_what_fits: votes.keeps_what_fits > 0,
                points_near: votes.points_near > 0,
                any_whole: votes.any_whole > 0,
            };
            (server, behavior)
        });
        behaviors.filter(|(_, behavior)| *behavior != ServerBehavior::default()).collect()
    }
}

fn vote(is_so: bool) -> i64 {
    if is_so { 1 } else { -1 }
}

fn types(message: &Message<'_>, section: Section) -> impl Iterator<Item = Rtype> {
    message.records(section).map_while(Result::ok).map(|record| record.rtype)
}

/// Whether a truncated response has more than the name servers of a referral.
fn keeps_what_fits(message: &Message<'_>) -> i64 {
    let has_answer = message.header().counts[1] > 0;
    vote(has_answer || types(message, Section::Authority).any(|rtype| rtype != Rtype::NS))
}

/// Whether a positive answer contains the NS records of its zone, if it may.
fn ns_in_answer(message: &Message<'_>, question: &Question) -> i64 {
    let rtype = question.qtype;
    if !message.header().aa || matches!(rtype, Rtype::NS | Rtype::DS | Rtype::DNSKEY) {
        return 0;
    }
    if !types(message, Section::Answer).any(|answered| answered == rtype) {
        return 0;
    }
    vote(types(message, Section::Authority).any(|rtype| rtype == Rtype::NS))
}

/// Whether an answer to ANY has more than one type.
fn any_whole(message: &Message<'_>) -> i64 {
    let mut first = None;
    let mut types = types(message, Section::Answer).filter(|rtype| *rtype != Rtype::RRSIG);
    let has_more = types.any(|rtype| *first.get_or_insert(rtype) != rtype);
    if first.is_none() || !message.header().aa { 0 } else { vote(has_more) }
}

/// Whether a name server's name is written in full although it could point to the owner. Only a name that ends as the
/// owner does, and not as the name before it, counts.
fn points_near(message: &Message<'_>) -> i64 {
    let mut before: Option<Name> = None;
    let mut votes = 0;
    for section in [Section::Answer, Section::Authority] {
        for record in message.records(section).map_while(Result::ok).filter(|record| record.rtype == Rtype::NS) {
            let mut rdata = Vec::new();
            let is_read = record.rdata_canonical(&mut rdata).is_ok();
            let Some(target) = target_of(Rtype::NS, &rdata).filter(|_| is_read) else { continue };
            let owner: Name = record.owner.as_ref().to_canonical();
            let owner_end = last_label(&owner);
            let could = owner_end.is_some() && last_label(&target) == owner_end;
            if could && before.as_ref().is_some_and(|before| last_label(before) != owner_end) {
                votes += vote(record.rdata().len() == rdata.len());
            }
            before = Some(target);
        }
    }
    votes
}

/// The rightmost label below the root.
fn last_label(name: &Name) -> Option<&[u8]> {
    name.as_ref().labels().last()
}

/// Whether the addresses of a referral are in the order of its name servers. Only a referral counts in which an address
/// of a server outside the cut comes before an address of a server below it, in that order. Our server sends the latter
/// first.
fn glue_in_order(message: &Message<'_>) -> i64 {
    let (mut cut, mut targets, mut rdata) = (None, Vec::new(), Vec::new());
    for record in message.records(Section::Authority).map_while(Result::ok) {
        match record.rtype {
            Rtype::SOA => return 0,
            Rtype::NS => {
                rdata.clear();
                let is_read = record.rdata_canonical(&mut rdata).is_ok();
                targets.extend(target_of(Rtype::NS, &rdata).filter(|_| is_read));
                cut.get_or_insert_with(|| record.owner.as_ref().to_canonical());
            }
            _ => {}
        }
    }
    let Some(cut) = cut else { return 0 };
    let is_in_domain = |position: usize| targets[position].as_ref().is_at_or_below(cut.as_ref());
    // The position of each address's server in the NS RRset.
    let mut positions: Vec<usize> = Vec::new();
    for record in message.records(Section::Additional).map_while(Result::ok) {
        if matches!(record.rtype, Rtype::A | Rtype::AAAA) {
            let owner: Name = record.owner.as_ref().to_canonical();
            positions.extend(targets.iter().position(|target| *target == owner));
        }
    }
    let last_in_domain = positions.iter().copied().filter(|position| is_in_domain(*position)).max();
    let is_conclusive = positions.iter().any(|position| !is_in_domain(*position) && Some(*position) < last_in_domain);
    if !is_conclusive {
        return 0;
    }
    vote(positions.is_sorted())
}
