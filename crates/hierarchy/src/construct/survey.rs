//! The first pass over the traffic: where zones begin, and which addresses answer for them.
//!
//! An SOA, the NS records of an authoritative answer, a referral, and the signer of a record show a zone. All of these
//! are facts about the whole tree. So the answer of one server shows where records of another one belong.

use super::map::{Map, MappedZone};
use super::response::{Response, ResponseKind, is_below};
use super::rrset::Rrset;
use crate::limits::SURVEYED_NAMES_MAX;
use crate::roots;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::name::Name;
use wire::number::Rtype;
use wire::parse::Section;

/// Finds zones and servers. It must see every message before [`Survey::finish`].
#[derive(Default)]
pub struct Survey {
    pub(super) zones: BTreeMap<Name, ZoneEvidence>,
    /// Addresses of names, from any section.
    pub(super) addresses: BTreeMap<Name, BTreeSet<IpAddr>>,
    /// Referrals: zone and server.
    referrals: BTreeSet<(Name, IpAddr)>,
    /// Answers that do not name their zone: owner and server.
    pub(super) unassigned: BTreeSet<(Name, IpAddr)>,
    /// Name servers that a resolver named.
    pub(super) probed: BTreeMap<Name, Rrset>,
    memory_bound: MemoryBound,
}

/// What is known about a zone.
#[derive(Default)]
pub(super) struct ZoneEvidence {
    pub(super) answered: BTreeSet<IpAddr>,
    pub(super) name_servers: BTreeSet<Name>,
}

/// Limits the number of remembered names and addresses, and counts the rest.
#[derive(Default)]
struct MemoryBound {
    used: usize,
    over_bound: u64,
}

impl MemoryBound {
    /// Takes a place, if there is one left.
    fn take(&mut self) -> bool {
        let has_room = self.used < SURVEYED_NAMES_MAX;
        self.used += usize::from(has_room);
        self.over_bound += u64::from(!has_room);
        has_room
    }

    /// Inserts an item if there is room. A known item needs none.
    fn insert<T: Ord>(&mut self, known: &mut BTreeSet<T>, one: T) {
        if !known.contains(&one) && self.take() {
            known.insert(one);
        }
    }
}

impl Survey {
    /// Learns from a message that `server` sent.
    pub fn add(&mut self, server: IpAddr, bytes: &[u8]) {
        let Ok(response) = Response::read(bytes) else { return };
        match &response.kind {
            ResponseKind::Referral(cut) => {
                self.zone(cut, None);
                self.memory_bound.insert(&mut self.referrals, (cut.clone(), server));
            }
            ResponseKind::Authoritative | ResponseKind::Plain => self.learn_answer(server, &response),
        }
        for section in Section::ALL {
            for rrset in response.rrsets(section) {
                self.learn_rrset(server, rrset);
            }
        }
    }

    fn learn_answer(&mut self, server: IpAddr, response: &Response) {
        // Also without AA: an answer that is not from a cache comes from a server of the zone.
        let by = Some(server);
        let mut says_zone = false;
        for rrset in response.rrsets(Section::Answer) {
            let is_asked_ns = rrset.kind.rtype == Rtype::NS && rrset.owner == response.qname;
            if rrset.kind.rtype == Rtype::SOA || is_asked_ns {
                self.zone(&rrset.owner, by);
                says_zone = true;
            }
            says_zone |= rrset.signer().is_some();
        }
        for rrset in response.rrsets(Section::Authority) {
            match rrset.kind.rtype {
                Rtype::SOA => self.zone(&rrset.owner, by),
                Rtype::NS if response.is_own_zone(&rrset.owner) => self.zone(&rrset.owner, by),
                Rtype::NS => self.zone(&rrset.owner, None),
                _ => continue,
            }
            says_zone = true;
        }
        // DS is asked of the zone above, so it does not show a zone.
        if !says_zone && response.qtype != Rtype::DS && !response.rrsets(Section::Answer).is_empty() {
            self.memory_bound.insert(&mut self.unassigned, (response.qname.clone(), server));
        }
    }

    /// Learns from an RRset of any section: name servers, addresses, signers.
    fn learn_rrset(&mut self, server: IpAddr, rrset: &Rrset) {
        let Self { zones, addresses, memory_bound, .. } = self;
        match rrset.kind.rtype {
            Rtype::NS => {
                let Some(known) = zones.get_mut(&rrset.owner) else { return };
                rrset.targets().for_each(|target| memory_bound.insert(&mut known.name_servers, target));
            }
            Rtype::A | Rtype::AAAA => {
                if !addresses.contains_key(&rrset.owner) && !memory_bound.take() {
                    return;
                }
                let known = addresses.entry(rrset.owner.clone()).or_default();
                let found = rrset.rdatas.iter().filter_map(|rdata| address(rdata));
                found.for_each(|address| memory_bound.insert(known, address));
            }
            Rtype::RRSIG => {
                let signer = rrset.signer().map(|signer| signer.to_canonical());
                if let Some(signer) = signer.filter(|signer| is_below(&rrset.owner, signer)) {
                    self.zone(&signer, Some(server));
                }
            }
            _ => {}
        }
    }

    /// Notes a zone and a server that answered for it.
    pub(super) fn zone(&mut self, apex: &Name, by: Option<IpAddr>) {
        let Self { zones, memory_bound, .. } = self;
        if zones.contains_key(apex) || memory_bound.take() {
            let known = zones.entry(apex.clone()).or_default();
            by.into_iter().for_each(|server| memory_bound.insert(&mut known.answered, server));
        }
    }

    /// What there is.
    #[must_use]
    pub fn finish(self) -> Map {
        let Self { zones, addresses, referrals, unassigned, probed, memory_bound } = self;
        let mut map = Map { zones: BTreeMap::new(), addresses, probed, over_bound: memory_bound.over_bound };
        for (apex, known) in zones {
            let listed = known.name_servers.iter().filter_map(|name| map.addresses.get(name)).flatten().copied();
            let mut servers: BTreeSet<IpAddr> = listed.collect();
            servers.extend(&known.answered);
            let ZoneEvidence { answered, name_servers } = known;
            map.zones.insert(apex, MappedZone { servers, answered, name_servers, is_made: false });
        }
        for (cut, server) in &referrals {
            assign_referral(&mut map, cut, *server);
        }
        for (owner, server) in &unassigned {
            assign_unassigned(&mut map, owner, *server);
        }
        map
    }
}

/// Assigns a referral to the nearest zone above, unless something speaks against it.
fn assign_referral(map: &mut Map, cut: &Name, server: IpAddr) {
    if map.is_upward(cut, server) {
        return;
    }
    let above = map.above(cut).cloned();
    let is_by_root = |map: &Map| roots::is_root_server(server) || map.has_server(&Name::root(), server);
    let labels = cut.as_ref().label_count();
    match above {
        Some(above) if !above.as_ref().is_root() || labels < 2 || is_by_root(map) => map.add_server(&above, server),
        // Only the root is known above, and this is not a root server: a zone between them is missing.
        _ if labels >= 2 && !is_by_root(map) => {
            if let Some(parent) = cut.as_ref().parent() {
                map.invent_zone(&parent.to_name(), server);
            }
        }
        _ => map.invent_zone(&Name::root(), server),
    }
}

/// Assigns an answer that names no zone: to the nearest known zone, unless that is a top-level domain with other
/// servers.
fn assign_unassigned(map: &mut Map, owner: &Name, server: IpAddr) {
    let nearest = map.at_or_above(owner).cloned();
    if let Some(apex) = nearest
        && (apex.as_ref().label_count() >= 2 || map.has_server(&apex, server))
    {
        return map.add_server(&apex, server);
    }
    map.invent_zone(&likely_apex(owner), server);
}

/// The likely zone of a name: the last two labels, or three if the second one is short, as in `co.uk`.
fn likely_apex(owner: &Name) -> Name {
    let labels: Vec<&[u8]> = owner.as_ref().labels().collect();
    let is_short = |from_right: usize, most: usize| {
        labels.len().checked_sub(from_right).is_some_and(|at| labels[at].len() <= most)
    };
    let label_count = if labels.len() >= 3 && is_short(1, 2) && is_short(2, 3) { 3 } else { 2 };
    let name = owner.as_ref();
    name.strip(labels.len().saturating_sub(label_count)).unwrap_or(name).to_name()
}

/// The address in the rdata of A or AAAA.
pub(super) fn address(rdata: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(rdata) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(rdata).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_memory_bound_are_counted() {
        let mut memory_bound = MemoryBound { used: SURVEYED_NAMES_MAX - 1, over_bound: 0 };
        let mut known = BTreeSet::new();
        [1, 1, 2, 3, 1].into_iter().for_each(|one| memory_bound.insert(&mut known, one));
        assert_eq!((known.len(), memory_bound.over_bound), (1, 2));
    }

    #[test]
    fn names_without_a_zone_get_a_likely_one() {
        for (owner, apex) in [
            ("www.example.com.", "example.com."),
            ("example.com.", "example.com."),
            ("a.b.example.co.uk.", "example.co.uk."),
            ("com.", "com."),
            (".", "."),
        ] {
            assert_eq!(likely_apex(&owner.parse().unwrap()), apex.parse().unwrap(), "{owner}");
        }
    }
}
