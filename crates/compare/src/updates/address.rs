//! BIND's check whether the name servers of a zone have addresses in it.

use super::contents::Contents;
use crate::response::Rr;
use wire::name::NameRef;
use wire::number::Rtype;

/// Whether each NS of the apex with a target in the zone has an address there, or is below a zone cut.
pub(super) fn all_apex_ns_have_one(zone: &Contents, apex: &[u8]) -> bool {
    zone.rrset(apex, Rtype::NS).all(|ns| !is_at_or_below(&ns.rdata, apex) || has_address(zone, apex, &ns.rdata))
}

fn has_address(zone: &Contents, apex: &[u8], target: &[u8]) -> bool {
    let Ok(mut name) = NameRef::from_bytes(target) else { return false };
    // The first zone cut or DNAME below the apex decides. Glue below a cut is not checked, and there are no names below
    // a DNAME.
    let is_above = |rr: &&Rr| match rr.rtype {
        Rtype::NS => rr.owner != apex && is_at_or_below(target, &rr.owner),
        Rtype::DNAME => rr.owner != target && is_at_or_below(target, &rr.owner),
        _ => false,
    };
    let first = zone.records.iter().filter(is_above).min_by_key(|rr| (rr.owner.len(), rr.rtype));
    let at = |owner: &[u8]| zone.at(owner).any(|rr| matches!(rr.rtype, Rtype::A | Rtype::AAAA));
    let exists = |owner: &[u8]| zone.records.iter().any(|rr| is_at_or_below(&rr.owner, owner));
    if let Some(first) = first {
        return first.rtype == Rtype::NS;
    }
    if exists(target) {
        return at(target);
    }
    // RFC 4592 3.3.1: the wildcard at the closest encloser.
    while let Some(parent) = name.parent() {
        if exists(parent.as_bytes()) {
            return at(&[b"\x01*", parent.as_bytes()].concat());
        }
        name = parent;
    }
    false
}

fn is_at_or_below(owner: &[u8], above: &[u8]) -> bool {
    match (NameRef::from_bytes(owner), NameRef::from_bytes(above)) {
        (Ok(owner), Ok(above)) => owner.is_at_or_below(above),
        _ => false,
    }
}
