//! The first look at traffic: where zones begin, and which addresses answer for them.
//!
//! A zone shows itself by its SOA, by its name servers in an authoritative answer, by a referral to it, and as the
//! signer of records. All of that is a fact of the whole tree, so that what one server says tells where the records of
//! another belong.

use super::map::{Map, Place};
use super::response::{Response, Shape, is_below};
use super::rrset::Rrset;
use crate::limits::SURVEYED_NAMES_MAX;
use crate::roots;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::name::Name;
use wire::number::Rtype;
use wire::parse::Section;

/// Learns zones and servers. To be shown every message; then [`Survey::finish`].
#[derive(Default)]
pub struct Survey {
    pub(super) zones: BTreeMap<Name, Known>,
    /// Addresses of names, wherever they stood.
    pub(super) addresses: BTreeMap<Name, BTreeSet<IpAddr>>,
    /// Referrals: to which zone, by whom.
    referrals: BTreeSet<(Name, IpAddr)>,
    /// Answers that do not say which zone they are from: owner, and by whom.
    pub(super) loose: BTreeSet<(Name, IpAddr)>,
    /// Name servers that a resolver told of.
    pub(super) probed: BTreeMap<Name, Rrset>,
    room: Room,
}

/// What is known of a zone.
#[derive(Default)]
pub(super) struct Known {
    pub(super) answered: BTreeSet<IpAddr>,
    pub(super) name_servers: BTreeSet<Name>,
}

/// How many names and addresses are remembered, and how many there was no room for.
#[derive(Default)]
struct Room {
    taken: usize,
    over_bound: u64,
}

impl Room {
    /// Whether there is room for one more, which is taken.
    fn take(&mut self) -> bool {
        let has_room = self.taken < SURVEYED_NAMES_MAX;
        self.taken += usize::from(has_room);
        self.over_bound += u64::from(!has_room);
        has_room
    }

    /// Remembers one if there is room; what is known needs none.
    fn insert<T: Ord>(&mut self, known: &mut BTreeSet<T>, one: T) {
        if !known.contains(&one) && self.take() {
            known.insert(one);
        }
    }
}

impl Survey {
    /// Looks at a message that `server` sent.
    pub fn add(&mut self, server: IpAddr, bytes: &[u8]) {
        let Ok(response) = Response::read(bytes) else { return };
        match &response.shape {
            Shape::Referral(cut) => {
                self.zone(cut, None);
                self.room.insert(&mut self.referrals, (cut.clone(), server));
            }
            Shape::Authoritative | Shape::Plain => self.learn_answer(server, &response),
        }
        for section in Section::ALL {
            for rrset in response.rrsets(section) {
                self.learn_rrset(server, rrset);
            }
        }
    }

    fn learn_answer(&mut self, server: IpAddr, response: &Response) {
        // Without AA too: what is no answer of a cache comes from who has the zone, however it sets its flags.
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
        // DS is asked for above the zone, so it does not tell where a zone begins.
        if !says_zone && response.qtype != Rtype::DS && !response.rrsets(Section::Answer).is_empty() {
            self.room.insert(&mut self.loose, (response.qname.clone(), server));
        }
    }

    /// What any RRset tells, wherever it stands: name servers, addresses, who signed.
    fn learn_rrset(&mut self, server: IpAddr, rrset: &Rrset) {
        let Self { zones, addresses, room, .. } = self;
        match rrset.kind.rtype {
            Rtype::NS => {
                let Some(known) = zones.get_mut(&rrset.owner) else { return };
                rrset.targets().for_each(|target| room.insert(&mut known.name_servers, target));
            }
            Rtype::A | Rtype::AAAA => {
                if !addresses.contains_key(&rrset.owner) && !room.take() {
                    return;
                }
                let known = addresses.entry(rrset.owner.clone()).or_default();
                let found = rrset.rdatas.iter().filter_map(|rdata| address(rdata));
                found.for_each(|address| room.insert(known, address));
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

    /// Notes that there is a zone, and who answered for it.
    pub(super) fn zone(&mut self, apex: &Name, by: Option<IpAddr>) {
        let Self { zones, room, .. } = self;
        if zones.contains_key(apex) || room.take() {
            let known = zones.entry(apex.clone()).or_default();
            by.into_iter().for_each(|server| room.insert(&mut known.answered, server));
        }
    }

    /// What there is.
    #[must_use]
    pub fn finish(self) -> Map {
        let Self { zones, addresses, referrals, loose, probed, room } = self;
        let mut map = Map { places: BTreeMap::new(), addresses, probed, over_bound: room.over_bound };
        for (apex, known) in zones {
            let listed = known.name_servers.iter().filter_map(|name| map.addresses.get(name)).flatten().copied();
            let mut servers: BTreeSet<IpAddr> = listed.collect();
            servers.extend(&known.answered);
            let Known { answered, name_servers } = known;
            map.places.insert(apex, Place { servers, answered, name_servers, is_made: false });
        }
        for (cut, server) in &referrals {
            settle_referral(&mut map, cut, *server);
        }
        for (owner, server) in &loose {
            settle_loose(&mut map, owner, *server);
        }
        map
    }
}

/// Whose referral it is: that of the nearest zone above, if nothing is known against it.
fn settle_referral(map: &mut Map, cut: &Name, server: IpAddr) {
    if map.is_upward(cut, server) {
        return;
    }
    let above = map.above(cut).cloned();
    let is_by_root = |map: &Map| roots::is_root_server(server) || map.has_server(&Name::root(), server);
    let labels = cut.as_ref().label_count();
    match above {
        Some(above) if !above.as_ref().is_root() || labels < 2 || is_by_root(map) => map.add_server(&above, server),
        // Only the root itself is known above, and this is none of its servers: a zone is missing in between.
        _ if labels >= 2 && !is_by_root(map) => {
            if let Some(parent) = cut.as_ref().parent() {
                map.make(&parent.to_name(), server);
            }
        }
        _ => map.make(&Name::root(), server),
    }
}

/// Where an answer is from that names no zone: from the nearest that is known, if that is no top-level domain whose
/// server this is not.
fn settle_loose(map: &mut Map, owner: &Name, server: IpAddr) {
    let nearest = map.at_or_above(owner).cloned();
    if let Some(apex) = nearest
        && (apex.as_ref().label_count() >= 2 || map.has_server(&apex, server))
    {
        return map.add_server(&apex, server);
    }
    map.make(&likely_apex(owner), server);
}

/// The zone that a name is likely to be in: two labels, or three where the second is as short as in `co.uk`.
fn likely_apex(owner: &Name) -> Name {
    let labels: Vec<&[u8]> = owner.as_ref().labels().collect();
    let is_short = |from_right: usize, most: usize| {
        labels.len().checked_sub(from_right).is_some_and(|at| labels[at].len() <= most)
    };
    let kept = if labels.len() >= 3 && is_short(1, 2) && is_short(2, 3) { 3 } else { 2 };
    let name = owner.as_ref();
    name.strip(labels.len().saturating_sub(kept)).unwrap_or(name).to_name()
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
    fn there_is_room_for_so_many_names_and_others_are_counted() {
        let mut room = Room { taken: SURVEYED_NAMES_MAX - 1, over_bound: 0 };
        let mut known = BTreeSet::new();
        [1, 1, 2, 3, 1].into_iter().for_each(|one| room.insert(&mut known, one));
        assert_eq!((known.len(), room.over_bound), (1, 2));
    }

    #[test]
    fn a_name_without_a_zone_is_given_a_likely_one() {
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
