//! What a zone says about names: which it is the authority of, and the chain of NSEC records over them.

use super::{Rrsets, negative_ttl};
use crate::bitmap;
use std::collections::{BTreeMap, BTreeSet};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use zone::Record;

/// What a zone is at a name that it has records of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// The authority.
    Own,
    /// Where it delegates: NS is the child's (RFC 4035 2.2).
    Cut,
    /// Below a delegation or a DNAME: glue, or nothing.
    Below,
}

impl Place {
    /// Whether an RRset there is signed (RFC 4035 2.2).
    pub(super) fn signs(self, rtype: Rtype) -> bool {
        match self {
            Self::Own => true,
            Self::Cut => rtype == Rtype::DS || rtype == Rtype::NSEC,
            Self::Below => false,
        }
    }

    /// Whether the type is named in the NSEC record there (RFC 4035 2.3).
    fn shows(self, rtype: Rtype) -> bool {
        self.signs(rtype) || (self == Self::Cut && rtype == Rtype::NS)
    }
}

/// Of each owner what the zone is there.
pub(super) fn places(rrsets: &Rrsets, apex: NameRef<'_>) -> BTreeMap<Name, Place> {
    let mut places = BTreeMap::new();
    // The name that hides what is below it. Owners come in canonical order, so these come right behind it.
    let mut hiding: Option<Name> = None;
    for (owner, rtype) in rrsets.keys() {
        let name = owner.as_ref();
        let hidden = hiding.as_ref().is_some_and(|above| name != above.as_ref() && name.is_at_or_below(above.as_ref()));
        if hidden || !name.is_at_or_below(apex) {
            places.insert(owner.clone(), Place::Below);
            continue;
        }
        let is_cut = *rtype == Rtype::NS.0 && name != apex;
        if is_cut {
            places.insert(owner.clone(), Place::Cut);
        } else {
            places.entry(owner.clone()).or_insert(Place::Own);
        }
        if is_cut || *rtype == Rtype::DNAME.0 {
            hiding = Some(owner.clone());
        }
    }
    places
}

/// An NSEC record at each name that the zone is the authority of or delegates, in a circle (RFC 4034 4).
pub(super) fn chain(rrsets: &Rrsets, places: &BTreeMap<Name, Place>, apex: NameRef<'_>) -> Vec<Record> {
    let ttl = negative_ttl(rrsets, apex);
    let shown: Vec<(&Name, Place)> =
        places.iter().map(|(name, place)| (name, *place)).filter(|(_, place)| *place != Place::Below).collect();
    let nexts = shown.iter().skip(1).chain(&shown).map(|(name, _)| *name);
    let record = |(&(owner, place), next): (&(&Name, Place), &Name)| {
        let mut rtypes = BTreeSet::from([Rtype::RRSIG, Rtype::NSEC]);
        let own = rrsets.range((owner.clone(), 0)..=(owner.clone(), u16::MAX));
        rtypes.extend(own.map(|((_, rtype), _)| Rtype(*rtype)).filter(|rtype| place.shows(*rtype)));
        let mut rdata = next.as_bytes().to_vec();
        bitmap::push(&rtypes, &mut rdata);
        Record { owner: owner.clone(), rtype: Rtype::NSEC, ttl, rdata: rdata.into() }
    };
    shown.iter().zip(nexts).map(record).collect()
}
