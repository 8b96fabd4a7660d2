//! Names in the RRs of a response, and glue.

use crate::response::{Response, Rr, Section};
use std::collections::BTreeSet;
use wire::name::NameRef;
use wire::number::Rtype;

/// Whether a name, in wire form and lower case, is `ancestor` or below it.
pub(super) fn is_at_or_below(name: &[u8], ancestor: &[u8]) -> bool {
    match (NameRef::from_bytes(name), NameRef::from_bytes(ancestor)) {
        (Ok(name), Ok(ancestor)) => name.is_at_or_below(ancestor),
        _ => false,
    }
}

/// Names in the rdata of a section that clients query next, in lower case (RFC 1035 3.3.9 and 3.3.11, RFC 2782, RFC
/// 9460 4.1). An SVCB target of the root stands for the owner.
pub(super) fn targets(section: &Section) -> BTreeSet<Vec<u8>> {
    let target = |rr: &Rr| {
        let at = match rr.rtype {
            Rtype::NS => 0,
            Rtype::MX | Rtype::SVCB | Rtype::HTTPS => 2,
            Rtype::SRV => 6,
            _ => return None,
        };
        let (target, _) = NameRef::split_from(rr.rdata.get(at..)?).ok()?;
        let is_owner = target.is_root() && matches!(rr.rtype, Rtype::SVCB | Rtype::HTTPS);
        Some(if is_owner { rr.owner.clone() } else { target.as_bytes().to_ascii_lowercase() })
    };
    section.iter().filter_map(target).collect()
}

/// The zone cut of a referral: the owner of the NS in its authority section.
pub(super) fn cut(response: &Response) -> Option<&[u8]> {
    response.authority.iter().find(|rr| rr.rtype == Rtype::NS).map(|rr| rr.owner.as_slice())
}

/// Addresses in a referral whose owners are name servers at or below its zone cut (RFC 9471 2: in-domain glue).
pub(super) fn in_domain_glue(response: &Response) -> Section {
    let Some(cut) = cut(response) else { return Section::new() };
    let targets = targets(&response.authority);
    let is_glue = |rr: &&Rr| {
        matches!(rr.rtype, Rtype::A | Rtype::AAAA) && targets.contains(&rr.owner) && is_at_or_below(&rr.owner, cut)
    };
    response.additional.iter().filter(is_glue).cloned().collect()
}
