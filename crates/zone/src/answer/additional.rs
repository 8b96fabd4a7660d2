//! The additional section: glue of a referral, and the addresses of names in an answer.

use super::chain::{ChainEnd, Responder};
use super::signed::Signed;
use crate::key;
use crate::limits::{ADDITIONAL_NAMES_MAX, GLUE_NAMES_MAX};
use crate::lookup::{Outcome, locate, source_of_synthesis};
use crate::vertex::{RrsetRef, Vertex};
use store::Path;
use wire::compose::Full;
use wire::name::NameRef;
use wire::number::Rtype;
use wire::parse::{NameBuf, Section};

impl<'a> Responder<'_, '_, 'a> {
    /// Fills the additional section.
    pub(super) fn extend(&mut self, end: &ChainEnd<'a>) {
        match end {
            ChainEnd::Outcome(Outcome::Referral { cut }) => self.push_glue(cut),
            ChainEnd::Outcome(Outcome::Positive { rrset, .. }) if self.question.qtype == rrset.rtype => {
                self.push_targets(rrset);
            }
            _ => {}
        }
    }

    /// Adds addresses of the name servers of a delegation. Resolvers need those at or below the zone cut (RFC 9471
    /// 3.1). Others in this zone save queries (RFC 9471 3.2).
    fn push_glue(&mut self, cut: &Vertex<'a>) {
        let Some(ns) = cut.rrset(Rtype::NS) else { return };
        let apex = self.zone.apex();
        let targets = || ns.rdatas().filter_map(|rdata| NameRef::from_bytes(rdata).ok());
        let in_domain = targets().filter(|target| target.is_at_or_below(cut.owner()));
        for (index, target) in in_domain.enumerate() {
            if index == GLUE_NAMES_MAX || self.push_addresses(target, true).is_err() {
                // RFC 9471 3.1: if not all in-domain glue fits, TC is set.
                self.composer.set_tc();
                return;
            }
        }
        let sibling = targets().filter(|target| !target.is_at_or_below(cut.owner()) && target.is_at_or_below(apex));
        for target in sibling.take(ADDITIONAL_NAMES_MAX) {
            // RFC 9471 3.2: sibling glue may be left out. The addresses of a later name may still fit.
            let _left_out = self.push_addresses(target, true);
        }
    }

    /// Adds records of the names that the queried RRset points to (RFC 1035 3.3.9, RFC 2782, RFC 9460 4.1). Records
    /// that do not fit are left out.
    fn push_targets(&mut self, rrset: &RrsetRef<'a>) {
        let name_at = match rrset.rtype {
            Rtype::NS => 0,
            Rtype::MX | Rtype::SVCB | Rtype::HTTPS => 2,
            Rtype::SRV => 6,
            _ => return,
        };
        let is_service = matches!(rrset.rtype, Rtype::SVCB | Rtype::HTTPS);
        let mut added = [NameRef::ROOT; ADDITIONAL_NAMES_MAX];
        let mut count = 0;
        for rdata in rrset.rdatas() {
            let name = rdata.get(name_at..).and_then(|bytes| NameRef::split_from(bytes).ok());
            let Some((target, _)) = name else { continue };
            // RFC 9460 2.5: as a target, the root means the owner in ServiceMode, and no service in AliasMode.
            let (is_alias, is_owner) = (rdata.starts_with(&[0, 0]), is_service && target.is_root());
            if added[..count].contains(&target) || is_owner && is_alias {
                continue;
            }
            if count == ADDITIONAL_NAMES_MAX {
                return;
            }
            added[count] = target;
            count += 1;
            let _left_out = if is_owner {
                self.push_own_addresses()
            } else if is_service && is_alias {
                self.push_alias_mode(target, rrset.rtype)
            } else {
                self.push_addresses(target, rrset.rtype == Rtype::NS)
            };
        }
    }

    /// Adds the addresses of the queried name.
    fn push_own_addresses(&mut self) -> Result<(), Full> {
        let name = NameBuf::from(self.qname());
        self.push_addresses(name.as_ref(), false)
    }

    /// Adds records of the target of an SVCB record in AliasMode: the RRset of the same type, and addresses (RFC 9460
    /// 4.1).
    fn push_alias_mode(&mut self, target: NameRef<'_>, rtype: Rtype) -> Result<(), Full> {
        self.push_rrsets(target, &[rtype, Rtype::A, Rtype::AAAA], false)
    }

    fn push_addresses(&mut self, target: NameRef<'_>, with_glue: bool) -> Result<(), Full> {
        self.push_rrsets(target, &[Rtype::A, Rtype::AAAA], with_glue)
    }

    /// Adds RRsets of a name, or of the wildcard that matches it. Records below a zone cut are glue; names below a
    /// DNAME do not exist. Returns an error if not all RRsets fit.
    fn push_rrsets(&mut self, owner: NameRef<'_>, rtypes: &[Rtype], with_glue: bool) -> Result<(), Full> {
        if !owner.is_at_or_below(self.zone.apex()) {
            return Ok(());
        }
        let (mut key, mut path) = (key::of(owner), Path::new());
        let trail = self.zone.store().trail(self.zone.names(), &key);
        locate(&self.zone, owner, &key, &trail, &mut path);
        let mut above = path.prefixes().iter().map(|leaf| Vertex::from_leaf(leaf));
        let occluder = above.find(|above| above.is_zone_cut() || above.has_dname());
        let vertex = match path.exact() {
            Some(leaf) => Vertex::from_leaf(leaf),
            // A wildcard cannot match below a zone cut or a DNAME. Such names belong to another zone or do not exist.
            None if occluder.is_some() => return Ok(()),
            None => match source_of_synthesis(&self.zone, owner, &path, &mut key) {
                // NS of a wildcard has no meaning (RFC 4592 4.2), so there is no glue for it.
                Some(vertex) if !vertex.is_zone_cut() => vertex,
                _ => return Ok(()),
            },
        };
        let is_glue = vertex.is_zone_cut() || occluder.is_some_and(|above| above.is_zone_cut());
        if is_glue && !with_glue || occluder.is_some_and(|above| !above.is_zone_cut()) {
            return Ok(());
        }
        let mut all = Ok(());
        for &rtype in rtypes {
            if let Some(rrset) = vertex.rrset(rtype) {
                let dnssec_ok = self.dnssec_ok && !is_glue;
                let signed = Signed { owner, rrset: &rrset, ttl_max: u32::MAX, dnssec_ok };
                all = signed.push(self.composer, Section::Additional).and(all);
            }
        }
        all
    }
}
