//! Merges hierarchies that were built separately.

use super::assembly::{Assembly, is_dnssec};
use super::draft::Rank;
use super::finish::ELSEWHERE;
use super::map::Map;
use super::rrset::{Grouping, Rrset};
use super::survey::address;
use super::{Built, Dnssec};
use crate::ServerBehavior;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::name::Name;
use wire::number::Rtype;
use zone::RecordRef;

/// Merges zones. If two hierarchies have the same RRset, the first wins. Records from traffic win over made-up ones,
/// which keep their marks. Merging a hierarchy with itself changes nothing.
pub struct Merge(Assembly, BTreeMap<IpAddr, ServerBehavior>);

impl Default for Merge {
    fn default() -> Self {
        Self(Assembly::new(Map::default(), Dnssec::Keep), BTreeMap::new())
    }
}

impl Merge {
    /// Adds a zone: its servers, and its records with the reason if they are made up.
    pub fn add<'r>(
        &mut self,
        apex: &Name,
        servers: &[IpAddr],
        records: impl IntoIterator<Item = (RecordRef<'r>, Option<&'r str>)>,
    ) {
        let Self(assembly, _) = self;
        let (mut sent, mut elsewhere, mut made) = (Grouping::default(), Grouping::default(), Grouping::default());
        let mut reasons = BTreeMap::new();
        for (record, reason) in records {
            let grouping = match reason {
                None => &mut sent,
                Some(ELSEWHERE) => &mut elsewhere,
                // Made-up signatures are valid for the records of one build only. Made-up proofs are made again.
                Some(_) if is_dnssec(record.rtype) => continue,
                Some(reason) => {
                    reasons.entry((record.owner.to_canonical(), record.rtype)).or_insert(reason);
                    &mut made
                }
            };
            grouping.add(record.owner, record.rtype, record.ttl, record.rdata);
        }
        let zone = assembly.map.zones.entry(apex.clone()).or_default();
        zone.servers.extend(servers);
        zone.answered.extend(servers);
        for (grouping, rank) in [(sent, Rank::Answer), (elsewhere, Rank::Elsewhere)] {
            for rrset in grouping.finish() {
                learn_addresses(&mut assembly.map, &rrset);
                assembly.put(apex, &rrset.owner, &rrset, rank);
            }
        }
        let draft = assembly.drafts.entry(apex.clone()).or_default();
        for Rrset { owner, kind, ttl, rdatas, .. } in made.finish() {
            let key = (owner, kind.rtype);
            if let Some(&reason) = reasons.get(&key).filter(|_| draft.get(&key.0, kind.rtype).is_none()) {
                draft.make(&key.0, kind.rtype, ttl, rdatas, reason.to_owned());
            }
        }
    }

    /// Adds the behaviors of the servers of one hierarchy.
    pub fn add_behaviors(&mut self, behaviors: BTreeMap<IpAddr, ServerBehavior>) {
        for (server, behavior) in behaviors {
            self.1.entry(server).or_insert(behavior);
        }
    }

    /// Returns the completed zones.
    #[must_use]
    pub fn finish(self) -> Built {
        let Self(assembly, behaviors) = self;
        Built { behaviors, ..assembly.finish() }
    }
}

fn learn_addresses(map: &mut Map, rrset: &Rrset) {
    if matches!(rrset.kind.rtype, Rtype::A | Rtype::AAAA) {
        let addresses: BTreeSet<IpAddr> = rrset.rdatas.iter().filter_map(|rdata| address(rdata)).collect();
        map.addresses.entry(rrset.owner.clone()).or_default().extend(addresses);
    }
}
