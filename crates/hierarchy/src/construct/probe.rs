//! Where servers change and nothing says why: a resolver is asked for NS at each name between.

use super::rrset::collect;
use super::survey::Survey;
use crate::limits::FETCHED_MAX;
use std::collections::BTreeSet;
use std::net::IpAddr;
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Message, Section};

impl Survey {
    /// Names at which a zone may begin that nothing names: from below the nearest zone that is known to a name that was
    /// answered by a server which is none of that zone's. Each is a question for NS, once.
    #[must_use]
    pub fn wanted_cuts(&self) -> Vec<(Name, Rtype)> {
        let mut wanted = BTreeSet::new();
        for (owner, server) in &self.loose {
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

    /// Takes what a resolver answered to one of these questions: a zone begins where there are name servers.
    pub fn add_probed(&mut self, bytes: &[u8]) {
        let Ok(message) = Message::parse(bytes) else { return };
        let Some(question) = message.question().filter(|_| message.rcode() == Rcode::NOERROR) else { return };
        let asked = question.qname.as_ref().to_canonical();
        let mut malformed_count = 0;
        for rrset in collect(&message, Section::Answer, &mut malformed_count) {
            // Behind an alias they are those of another name.
            if rrset.kind.rtype == Rtype::NS && rrset.owner == asked {
                self.zone(&asked, None);
                self.probed.insert(asked.clone(), rrset);
            }
        }
    }

    /// Whether an address answered for a zone, or is one of its name servers'.
    fn is_served_by(&self, apex: &Name, server: IpAddr) -> bool {
        self.zones.get(apex).is_some_and(|known| {
            let mut listed = known.name_servers.iter().filter_map(|name| self.addresses.get(name)).flatten();
            known.answered.contains(&server) || listed.any(|address| *address == server)
        })
    }
}
