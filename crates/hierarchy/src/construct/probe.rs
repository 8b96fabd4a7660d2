//! Finds zone cuts that the traffic does not show: a resolver is asked for NS at each name between two servers.

use super::rrset::collect;
use super::survey::Survey;
use crate::limits::FETCHED_MAX;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Message, Section};

impl Survey {
    /// Names at which an unknown zone may begin: between the nearest known zone and a name that another server
    /// answered. Each is asked once for NS.
    #[must_use]
    pub fn wanted_cuts(&self) -> Vec<(Name, Rtype)> {
        let mut wanted = BTreeSet::new();
        for (owner, server) in &self.unassigned {
            let (mut between, mut next) = (Vec::new(), Some(owner.as_ref()));
            while let Some(name) = next.filter(|name| !name.is_root() && !self.zones.contains_key(&name.to_name())) {
                between.push(name.to_name());
                next = name.parent();
            }
            if !next.is_some_and(|apex| self.is_served_by(&apex.to_name(), *server)) {
                wanted.extend(between);
            }
            if wanted.len() >= FETCHED_MAX {
                break;
            }
        }
        wanted.into_iter().map(|name| (name, Rtype::NS)).take(FETCHED_MAX).collect()
    }

    /// Takes a resolver's answer to one of these questions. A zone begins at a name with NS records.
    pub fn add_probed(&mut self, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        let Some(question) = message.question().filter(|_| message.rcode() == Rcode::NOERROR) else { return };
        let qname = question.qname.as_ref().to_canonical();
        let mut malformed_count = 0;
        for rrset in collect(&message, Section::Answer, &mut malformed_count) {
            // After an alias, the NS records belong to another name.
            if rrset.kind.rtype == Rtype::NS && rrset.owner == qname {
                self.zone(&qname, None);
                self.probed.insert(qname.clone(), rrset);
            }
        }
    }

    /// Whether an address answered for a zone, or belongs to one of its name servers.
    fn is_served_by(&self, apex: &Name, server: IpAddr) -> bool {
        self.zones.get(apex).is_some_and(|known| {
            let mut addresses = known.name_servers.iter().filter_map(|name| self.addresses.get(name)).flatten();
            known.answered.contains(&server) || addresses.any(|address| *address == server)
        })
    }
}
