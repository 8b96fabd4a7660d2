//! Where zones begin, and who serves them.

use super::response::is_below;
use super::rrset::Rrset;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::name::Name;

/// What a survey learned: every zone, its servers, and the addresses of names.
#[derive(Default)]
pub struct Map {
    pub(super) places: BTreeMap<Name, Place>,
    pub(super) addresses: BTreeMap<Name, BTreeSet<IpAddr>>,
    /// Name servers of zones that a resolver told of when it was asked where servers change.
    pub(super) probed: BTreeMap<Name, Rrset>,
    /// What was left out because there was no room for more names.
    pub(super) over_bound: u64,
}

/// One zone.
#[derive(Default)]
pub(super) struct Place {
    /// Addresses that serve it: those that answered for it or referred from it, and those of its name servers.
    pub(super) servers: BTreeSet<IpAddr>,
    /// Those of them that answered with authority.
    pub(super) answered: BTreeSet<IpAddr>,
    /// The names of its name servers, those that the zone above says among them.
    pub(super) name_servers: BTreeSet<Name>,
    /// Nothing names the zone; it was made for records that would have had none.
    pub(super) is_made: bool,
}

impl Map {
    /// How many zones are known, those that nothing else is known of among them.
    #[must_use]
    pub fn zone_count(&self) -> usize {
        self.places.len()
    }

    /// The zone that a name is in.
    pub(super) fn at_or_above(&self, name: &Name) -> Option<&Name> {
        let mut next = Some(name.as_ref());
        while let Some(name) = next {
            if let Some((apex, _)) = self.places.get_key_value(&name.to_name()) {
                return Some(apex);
            }
            next = name.parent();
        }
        None
    }

    /// The zone above a zone cut.
    pub(super) fn above(&self, cut: &Name) -> Option<&Name> {
        self.at_or_above(&cut.as_ref().parent()?.to_name())
    }

    /// Whether an address serves a zone.
    pub(super) fn has_server(&self, apex: &Name, server: IpAddr) -> bool {
        self.places.get(apex).is_some_and(|place| place.servers.contains(&server))
    }

    /// Whether an address answered for a zone with authority.
    pub(super) fn has_answered(&self, apex: &Name, server: IpAddr) -> bool {
        self.places.get(apex).is_some_and(|place| place.answered.contains(&server))
    }

    /// Whether a referral to a zone leads up or nowhere: its server has a zone at or below it, and none above it.
    pub(super) fn is_upward(&self, cut: &Name, server: IpAddr) -> bool {
        let below = self.places.range(cut.clone()..).take_while(|(apex, _)| is_below(apex, cut));
        let has_below = below.into_iter().any(|(_, place)| place.answered.contains(&server));
        let mut above = self.above(cut);
        while let Some(apex) = above {
            if self.has_answered(apex, server) || self.has_server(apex, server) {
                return false;
            }
            above = self.above(apex);
        }
        has_below
    }

    pub(super) fn add_server(&mut self, apex: &Name, server: IpAddr) {
        if let Some(place) = self.places.get_mut(apex) {
            place.servers.insert(server);
        }
    }

    /// Makes a zone that nothing names, and gives it a server.
    pub(super) fn make(&mut self, apex: &Name, server: IpAddr) {
        let made = || Place { is_made: true, ..Place::default() };
        self.places.entry(apex.clone()).or_insert_with(made).servers.insert(server);
    }
}
