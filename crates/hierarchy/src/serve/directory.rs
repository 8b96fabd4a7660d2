//! Which address serves which zones.
//!
//! Zones have numbers, in canonical order of their apexes. Addresses with the same zones share one list. So 100,000
//! zones with four addresses each take some tens of megabytes.

use crate::ServerBehavior;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::set::{SetVersion, Zone};

/// Maps addresses to zones; see the module.
#[derive(Debug, Default)]
pub struct Directory {
    apexes: Vec<Name>,
    /// In order of addresses.
    servers: Vec<Server>,
    /// Lists of zone numbers, ascending.
    lists: Vec<Box<[u32]>>,
}

#[derive(Debug)]
struct Server {
    address: IpAddr,
    list: u32,
    behavior: ServerBehavior,
}

/// The zone that answers a question.
pub(super) struct ServedZone<'a> {
    pub(super) zone: Zone<'a>,
    /// Its number.
    pub(super) number: usize,
}

impl Directory {
    /// From the zones and the addresses of their servers, without duplicate zones. Servers without an entry in
    /// `behaviors` answer as ours does.
    pub(super) fn new(mut zones: Vec<(Name, Vec<IpAddr>)>, behaviors: &BTreeMap<IpAddr, ServerBehavior>) -> Self {
        let behaviors: BTreeMap<IpAddr, ServerBehavior> =
            behaviors.iter().map(|(address, behavior)| (address.to_canonical(), *behavior)).collect();
        zones.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut served = Vec::new();
        let mut apexes = Vec::with_capacity(zones.len());
        for (number, (apex, addresses)) in (0..).zip(zones) {
            apexes.push(apex);
            // An IPv4-mapped address counts as IPv4.
            served.extend(addresses.into_iter().map(|address| (address.to_canonical(), number)));
        }
        served.sort_unstable();
        served.dedup();
        let (mut servers, mut lists, mut known) = (Vec::new(), Vec::new(), HashMap::new());
        for of_server in served.chunk_by(|(one, _), (other, _)| one == other) {
            let list: Box<[u32]> = of_server.iter().map(|&(_, zone)| zone).collect();
            let number = *known.entry(list).or_insert_with_key(|list| {
                lists.push(list.clone());
                lists.len() as u32 - 1
            });
            let address = of_server[0].0;
            let behavior = behaviors.get(&address).copied().unwrap_or_default();
            servers.push(Server { address, list: number, behavior });
        }
        servers.shrink_to_fit();
        Self { apexes, servers, lists }
    }

    /// Number of zones.
    #[must_use]
    pub fn zone_count(&self) -> usize {
        self.apexes.len()
    }

    /// Number of addresses with a server.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Apex of a zone.
    #[must_use]
    pub fn apex(&self, zone: usize) -> &Name {
        &self.apexes[zone]
    }

    /// Number of zones above a zone.
    #[must_use]
    pub fn level(&self, zone: usize) -> usize {
        self.zones_above(self.apexes[zone].as_ref()) - 1
    }

    /// The address of a server.
    #[must_use]
    pub fn address(&self, server: usize) -> IpAddr {
        self.servers[server].address
    }

    /// Behavior of a server.
    #[must_use]
    pub(super) fn behavior(&self, server: usize) -> ServerBehavior {
        self.servers[server].behavior
    }

    /// The zones of a server.
    pub fn zones_of(&self, server: usize) -> impl ExactSizeIterator<Item = usize> {
        self.lists[self.servers[server].list as usize].iter().map(|&zone| zone as usize)
    }

    /// The server at an address.
    #[must_use]
    pub fn server(&self, address: IpAddr) -> Option<usize> {
        let address = address.to_canonical();
        self.servers.binary_search_by_key(&address, |server| server.address).ok()
    }

    /// Number of zones from the root down to the one that contains a name.
    #[must_use]
    pub fn zones_above(&self, name: NameRef<'_>) -> usize {
        let names = std::iter::successors(Some(name), |name| name.parent());
        names.filter(|name| self.apexes.binary_search_by(|apex| apex.as_ref().cmp(name)).is_ok()).count()
    }

    /// The zone from which a server answers: of its zones, the one with the longest apex at or above the name. For DS
    /// at an apex, the parent zone if the server has it (RFC 4035 3.1.4.1).
    pub(super) fn zone_for<'a>(
        &self,
        set: SetVersion<'a>,
        server: usize,
        qname: NameRef<'_>,
        qtype: Rtype,
    ) -> Option<ServedZone<'a>> {
        let list = &self.lists[self.servers[server].list as usize];
        let above = || qname.parent().and_then(|parent| self.nearest(set, list, parent));
        match qtype {
            Rtype::DS => above().or_else(|| self.nearest(set, list, qname)),
            _ => self.nearest(set, list, qname),
        }
    }

    /// Walks up the zones above a name until one is in the list.
    fn nearest<'a>(&self, set: SetVersion<'a>, list: &[u32], name: NameRef<'_>) -> Option<ServedZone<'a>> {
        let mut zone = set.find(name)?;
        loop {
            let apex = zone.apex();
            let found = list.binary_search_by(|&number| self.apexes[number as usize].as_ref().cmp(&apex));
            if let Ok(index) = found {
                return Some(ServedZone { zone, number: list[index] as usize });
            }
            zone = set.find(apex.parent()?)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn servers_of_the_same_zones_share_a_list() {
        let both = vec![address("192.0.2.1"), address("2001:db8::1")];
        let directory = Directory::new(
            vec![
                (name("b.test."), both.clone()),
                (name("a.test."), both),
                (name("."), vec![address("192.0.2.9"), address("::ffff:192.0.2.9")]),
            ],
            &BTreeMap::new(),
        );
        assert_eq!((directory.zone_count(), directory.server_count(), directory.lists.len()), (3, 3, 2));
        let server = directory.server(address("2001:db8::1")).unwrap();
        let zones: Vec<_> = directory.zones_of(server).map(|zone| directory.apex(zone).to_string()).collect();
        assert_eq!(zones, ["a.test.", "b.test."]);
        assert_eq!(directory.address(server), address("2001:db8::1"));
        assert!(directory.server(address("192.0.2.2")).is_none());
        assert_eq!(directory.server(address("::ffff:192.0.2.9")), directory.server(address("192.0.2.9")));
    }

    #[test]
    fn zones_above_a_name_are_counted() {
        let directory =
            Directory::new([".", "test.", "b.a.test."].map(|apex| (name(apex), Vec::new())).into(), &BTreeMap::new());
        for (below, count) in [(".", 1), ("a.test.", 2), ("www.b.a.test.", 3), ("b.a.test.", 3), ("example.", 1)] {
            assert_eq!(directory.zones_above(name(below).as_ref()), count, "{below}");
        }
        let levels: Vec<_> = (0..3).map(|zone| directory.level(zone)).collect();
        assert_eq!(levels, [0, 1, 2]);
    }
}
