//! Hierarchies that were built apart, as one.

use super::assembly::{Assembly, is_dnssec};
use super::draft::Rank;
use super::map::Map;
use super::rrset::{Grouping, Rrset};
use super::survey::address;
use super::{Built, Dnssec};
use crate::Manner;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::name::Name;
use wire::number::Rtype;
use zone::RecordRef;

/// Why something is there that an earlier build made.
const MADE_BEFORE: &str = "made when its zone was built";

/// Puts zones together. Where two have an RRset the first wins; what was sent wins over what was made.
pub struct Merge(Assembly, BTreeMap<IpAddr, Manner>);

impl Default for Merge {
    fn default() -> Self {
        Self(Assembly::new(Map::default(), Dnssec::Keep), BTreeMap::new())
    }
}

impl Merge {
    /// Takes a zone of one hierarchy: who serves it, and its records, each with whether it was made up.
    pub fn add<'r>(
        &mut self,
        apex: &Name,
        servers: &[IpAddr],
        records: impl IntoIterator<Item = (RecordRef<'r>, bool)>,
    ) {
        let Self(assembly, _) = self;
        let (mut sent, mut made) = (Grouping::default(), Grouping::default());
        for (record, is_made) in records {
            // Signatures that a build made hold for its own records only; proofs that it made are made again.
            if is_made && is_dnssec(record.rtype) {
                continue;
            }
            let grouping = if is_made { &mut made } else { &mut sent };
            grouping.add(record.owner, record.rtype, record.ttl, record.rdata);
        }
        let place = assembly.map.places.entry(apex.clone()).or_default();
        place.servers.extend(servers);
        place.answered.extend(servers);
        let sent = sent.finish();
        sent.iter().for_each(|rrset| learn_addresses(&mut assembly.map, rrset));
        sent.iter().for_each(|rrset| assembly.put(apex, &rrset.owner, rrset, Rank::Answer));
        let draft = assembly.drafts.entry(apex.clone()).or_default();
        for rrset in made.finish() {
            if !draft.rrsets.contains_key(&(rrset.owner.clone(), rrset.kind)) {
                draft.make(&rrset.owner, rrset.kind.rtype, rrset.ttl, rrset.rdatas, MADE_BEFORE);
            }
        }
    }

    /// Takes the manners of the servers of one hierarchy.
    pub fn add_manners(&mut self, manners: BTreeMap<IpAddr, Manner>) {
        for (server, manner) in manners {
            self.1.entry(server).or_insert(manner);
        }
    }

    /// The zones, made whole.
    #[must_use]
    pub fn finish(self) -> Built {
        let Self(assembly, manners) = self;
        Built { manners, ..assembly.finish() }
    }
}

fn learn_addresses(map: &mut Map, rrset: &Rrset) {
    if matches!(rrset.kind.rtype, Rtype::A | Rtype::AAAA) {
        let addresses: BTreeSet<IpAddr> = rrset.rdatas.iter().filter_map(|rdata| address(rdata)).collect();
        map.addresses.entry(rrset.owner.clone()).or_default().extend(addresses);
    }
}
