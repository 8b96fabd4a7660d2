//! Data that is missing in the traffic and that a resolver could provide: name servers of zones, and their addresses.

use super::assembly::Assembly;
use super::draft::Draft;
use super::rrset::{collect, target_of};
use super::survey::address;
use crate::limits::FETCHED_MAX;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Message, Section};

const FETCHED: &str = "fetched from a resolver";

impl Assembly {
    /// Gives zones without name servers the ones that a resolver named for zone cuts.
    pub fn adopt_probed(&mut self) {
        for (apex, rrset) in std::mem::take(&mut self.map.probed) {
            let Some(draft) = self.drafts.get_mut(&apex).filter(|draft| draft.is_zone()) else { continue };
            if draft.get(&apex, Rtype::NS).is_none() {
                draft.make(&apex, Rtype::NS, rrset.ttl, rrset.rdatas, FETCHED);
            }
        }
    }

    /// Zones without known name servers.
    #[must_use]
    pub fn wanted_name_servers(&self) -> Vec<(Name, Rtype)> {
        let is_named = |apex: &Name| self.map.zones.get(apex).is_some_and(|zone| !zone.name_servers.is_empty());
        let has_some = |apex: &Name, draft: &Draft| draft.get(apex, Rtype::NS).is_some();
        let missing = self.zones().filter(|(apex, draft)| !is_named(apex) && !has_some(apex, draft));
        missing.map(|(apex, _)| (apex.clone(), Rtype::NS)).take(FETCHED_MAX).collect()
    }

    /// Name servers without any known address.
    #[must_use]
    pub fn wanted_addresses(&self) -> Vec<(Name, Rtype)> {
        let mut missing = BTreeSet::new();
        for (apex, draft) in self.zones() {
            let ns = draft.get(apex, Rtype::NS).into_iter().flat_map(|ns| &ns.rdatas);
            missing.extend(ns.filter_map(|rdata| target_of(Rtype::NS, rdata)));
        }
        let unknown = missing.into_iter().filter(|name| !self.map.addresses.contains_key(name));
        unknown.flat_map(|name| [(name.clone(), Rtype::A), (name, Rtype::AAAA)]).take(FETCHED_MAX).collect()
    }

    /// Takes a resolver's answer to one of these questions.
    pub fn add_fetched(&mut self, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        if message.rcode() != Rcode::NOERROR {
            return;
        }
        for rrset in collect(&message, Section::Answer, &mut self.report.malformed_records) {
            match rrset.kind.rtype {
                Rtype::NS => {
                    let Some(draft) = self.drafts.get_mut(&rrset.owner) else { continue };
                    if draft.get(&rrset.owner, Rtype::NS).is_none() {
                        draft.make(&rrset.owner, Rtype::NS, rrset.ttl, rrset.rdatas, FETCHED);
                    }
                }
                Rtype::A | Rtype::AAAA => {
                    let addresses: Vec<IpAddr> = rrset.rdatas.iter().filter_map(|rdata| address(rdata)).collect();
                    self.map.addresses.entry(rrset.owner).or_default().extend(addresses);
                }
                _ => {}
            }
        }
    }

    fn zones(&self) -> impl Iterator<Item = (&Name, &Draft)> {
        self.drafts.iter().filter(|(_, draft)| draft.is_zone())
    }
}
