//! Hierarchies that were built apart, as one.

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

/// Puts zones together. Where two have an RRset the first wins; what was sent wins over what was made, and that stays
/// marked with why it was. The same zones twice are those zones.
pub struct Merge(Assembly, BTreeMap<IpAddr, ServerBehavior>);

impl Default for Merge {
    fn default() -> Self {
        Self(Assembly::new(Map::default(), Dnssec::Keep), BTreeMap::new())
    }
}

impl Merge {
    /// Takes a zone of one hierarchy: who serves it, and its records, each with why it was made up, if it was.
    pub fn add<'r>(
        &mut self,
        apex: &Name,
        servers: &[IpAddr],
        records: impl IntoIterator<Item = (RecordRef<'r>, Option<&'r str>)>,
    ) {
        let Self(assembly, _) = self;
        let (mut sent, mut elsewhere, mut made) = (Grouping::default(), Grouping::default(), Grouping::default());
        let mut reasons = BTreeMap::new();
        for (record, why) in records {
            let grouping = match why {
                None => &mut sent,
                Some(ELSEWHERE) => &mut elsewhere,
                // Signatures that were made hold for the records of one build only; proofs that it made are made again.
                Some(_) if is_dnssec(record.rtype) => continue,
                Some(why) => {
                    reasons.entry((record.owner.to_canonical(), record.rtype)).or_insert(why);
                    &mut made
                }
            };
            grouping.add(record.owner, record.rtype, record.ttl, record.rdata);
        }
        let place = assembly.map.places.entry(apex.clone()).or_default();
        place.servers.extend(servers);
        place.answered.extend(servers);
        for (grouping, rank) in [(sent, Rank::Answer), (elsewhere, Rank::Elsewhere)] {
            for rrset in grouping.finish() {
                learn_addresses(&mut assembly.map, &rrset);
                assembly.put(apex, &rrset.owner, &rrset, rank);
            }
        }
        let draft = assembly.drafts.entry(apex.clone()).or_default();
        for Rrset { owner, kind, ttl, rdatas, .. } in made.finish() {
            let key = (owner, kind.rtype);
            if let Some(&why) = reasons.get(&key).filter(|_| draft.get(&key.0, kind.rtype).is_none()) {
                draft.make(&key.0, kind.rtype, ttl, rdatas, why.to_owned());
            }
        }
    }

    /// Adds the behaviors of the servers of one hierarchy.
    pub fn add_behaviors(&mut self, behaviors: BTreeMap<IpAddr, ServerBehavior>) {
        for (server, behavior) in behaviors {
            self.1.entry(server).or_insert(behavior);
        }
    }

    /// The zones, made whole.
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
