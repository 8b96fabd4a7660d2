//! The names over which a zone has authority, and the NSEC chain over them.

use super::rrsets::{Rrsets, negative_ttl};
use crate::bitmap;
use std::collections::{BTreeMap, BTreeSet};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::Record;

/// The role of a zone at one of its names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NameRole {
    /// It has authority.
    Own,
    /// It delegates: NS belongs to the child (RFC 4035 2.2).
    Cut,
    /// Below a delegation or a DNAME: glue, or nothing.
    Below,
}

impl NameRole {
    /// Whether an RRset of this type is signed here (RFC 4035 2.2).
    pub(super) fn signs(self, rtype: Rtype) -> bool {
        match self {
            Self::Own => true,
            Self::Cut => rtype == Rtype::DS || rtype == Rtype::NSEC,
            Self::Below => false,
        }
    }

    /// Whether the NSEC record here lists the type (RFC 4035 2.3).
    fn is_listed(self, rtype: Rtype) -> bool {
        self.signs(rtype) || (self == Self::Cut && rtype == Rtype::NS)
    }
}

/// The role of the zone at each owner.
pub(super) fn roles(rrsets: &Rrsets, apex: NameRef<'_>) -> BTreeMap<Name, NameRole> {
    let mut roles = BTreeMap::new();
    // The name that hides the names below it. They follow it directly, in canonical order.
    let mut hides_below: Option<Name> = None;
    for (owner, rtype) in rrsets.keys() {
        let name = owner.as_ref();
        let hidden =
            hides_below.as_ref().is_some_and(|above| name != above.as_ref() && name.is_at_or_below(above.as_ref()));
        if hidden || !name.is_at_or_below(apex) {
            roles.insert(owner.clone(), NameRole::Below);
            continue;
        }
        let is_cut = *rtype == Rtype::NS.0 && name != apex;
        if is_cut {
            roles.insert(owner.clone(), NameRole::Cut);
        } else {
            roles.entry(owner.clone()).or_insert(NameRole::Own);
        }
        if is_cut || *rtype == Rtype::DNAME.0 {
            hides_below = Some(owner.clone());
        }
    }
    roles
}

/// NSEC records for all names with authority or a delegation, in a circle (RFC 4034 4).
pub(super) fn chain(rrsets: &Rrsets, roles: &BTreeMap<Name, NameRole>, apex: NameRef<'_>) -> Vec<Record> {
    let ttl = negative_ttl(rrsets, apex);
    let visible: Vec<(&Name, NameRole)> =
        roles.iter().map(|(name, role)| (name, *role)).filter(|(_, role)| *role != NameRole::Below).collect();
    let next_names = visible.iter().skip(1).chain(&visible).map(|(name, _)| *name);
    let record = |(&(owner, role), next): (&(&Name, NameRole), &Name)| {
        let mut rtypes = BTreeSet::from([Rtype::RRSIG, Rtype::NSEC]);
        let rrsets_of_owner = rrsets.range((owner.clone(), 0)..=(owner.clone(), u16::MAX));
        rtypes.extend(rrsets_of_owner.map(|((_, rtype), _)| Rtype(*rtype)).filter(|rtype| role.is_listed(*rtype)));
        let mut rdata = next.as_bytes().to_vec();
        bitmap::push(&rtypes, &mut rdata);
        Record { owner: owner.clone(), rtype: Rtype::NSEC, ttl, rdata: rdata.into() }
    };
    visible.iter().zip(next_names).map(record).collect()
}
