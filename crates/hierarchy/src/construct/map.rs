//! Where zones begin, and the servers of each zone.

use super::response::is_below;
use super::rrset::Rrset;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::name::Name;

/// The result of a survey: every zone, its servers, and the addresses of names.
#[derive(Default)]
pub struct Map {
    pub(super) zones: BTreeMap<Name, MappedZone>,
    pub(super) addresses: BTreeMap<Name, BTreeSet<IpAddr>>,
    /// Name servers that a resolver named for zone cuts.
    pub(super) probed: BTreeMap<Name, Rrset>,
    /// Items left out because of the limits.
    pub(super) over_bound: u64,
}

/// One zone.
#[derive(Default)]
pub(super) struct MappedZone {
    /// Addresses of its servers: those that answered for it or referred from it, and those of its name servers.
    pub(super) servers: BTreeSet<IpAddr>,
    /// Those that answered with authority.
    pub(super) answered: BTreeSet<IpAddr>,
    /// Names of its name servers, including those in the zone above.
    pub(super) name_servers: BTreeSet<Name>,
    /// The zone is made up, for records that would otherwise have no zone.
    pub(super) is_made: bool,
}

impl Map {
    /// Number of known zones.
    #[must_use]
    pub fn zone_count(&self) -> usize {
        self.zones.len()
    }

    /// The zone that contains a name.
    pub(super) fn at_or_above(&self, name: &Name) -> Option<&Name> {
        let mut next = Some(name.as_ref());
        while let Some(name) = next {
            if let Some((apex, _)) = self.zones.get_key_value(&name.to_name()) {
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
        self.zones.get(apex).is_some_and(|zone| zone.servers.contains(&server))
    }

    /// Whether an address answered for a zone with authority.
    pub(super) fn has_answered(&self, apex: &Name, server: IpAddr) -> bool {
        self.zones.get(apex).is_some_and(|zone| zone.answered.contains(&server))
    }

    /// Whether a referral leads upwards or nowhere: its server has a zone at or below the cut, and none above it.
    pub(super) fn is_upward(&self, cut: &Name, server: IpAddr) -> bool {
        let below = self.zones.range(cut.clone()..).take_while(|(apex, _)| is_below(apex, cut));
        let has_below = below.into_iter().any(|(_, zone)| zone.answered.contains(&server));
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
        if let Some(zone) = self.zones.get_mut(apex) {
            zone.servers.insert(server);
        }
    }

    /// Makes up a zone with one server.
    pub(super) fn invent_zone(&mut self, apex: &Name, server: IpAddr) {
        let invented = || MappedZone { is_made: true, ..MappedZone::default() };
        self.zones.entry(apex.clone()).or_insert_with(invented).servers.insert(server);
    }
}
