//! Peculiarities of a single peer.

use super::names::{is_at_or_below, targets};
use super::pair::Pair;
use crate::response::{Rr, Section};
use testbed::Kind;
use wire::name::NameRef;
use wire::number::Rtype;

/// RFC 4343 4.1: data keeps its case. NSD lowercases the target of SVCB and HTTPS, which are not among the types with
/// case-folded names (RFC 4034 6.2, RFC 6840 5.1), so signatures break.
pub(super) fn nsd_folds_svcb_target(pair: &mut Pair<'_>) -> bool {
    let folded = |rr: &Rr| -> Rr {
        let mut rr = rr.clone();
        if matches!(rr.rtype, Rtype::SVCB | Rtype::HTTPS)
            && let Some(target) = rr.rdata.get(2..).and_then(|rest| NameRef::split_from(rest).ok())
        {
            let end = 2 + target.0.as_bytes().len();
            rr.rdata[2..end].make_ascii_lowercase();
        }
        rr
    };
    let fold = |section: &Section| -> Section { section.iter().map(folded).collect() };
    let (own, own_extra) = (fold(&pair.ours.answer), fold(&pair.ours.additional));
    let is_folded =
        fold(&pair.theirs.answer) == pair.theirs.answer && fold(&pair.theirs.additional) == pair.theirs.additional;
    if pair.peer != Kind::Nsd || !is_folded || (own == pair.ours.answer && own_extra == pair.ours.additional) {
        return false;
    }
    pair.ours.answer = own;
    pair.ours.additional = own_extra;
    true
}

/// RFC 9460 4.1 asks for addresses of the target. RFC 4343 3: names are compared ignoring case. Knot does not find a
/// target with capital letters: it adds the wildcard's addresses, or a denial.
pub(super) fn knot_misses_svcb_target(pair: &mut Pair<'_>) -> bool {
    let is_service = |rr: &Rr| matches!(rr.rtype, Rtype::SVCB | Rtype::HTTPS);
    if pair.peer != Kind::Knot || !pair.ours.answer.iter().any(is_service) {
        return false;
    }
    let targets = targets(&pair.ours.answer);
    let is_wildcard_of = |rr: &Rr, target: &Vec<u8>| {
        rr.owner.strip_prefix(b"\x01*").is_some_and(|encloser| is_at_or_below(target, encloser))
    };
    let ours = &pair.ours.additional;
    let is_instead = |rr: &Rr| match rr.type_covered() {
        Rtype::NSEC | Rtype::NSEC3 => true,
        Rtype::A | Rtype::AAAA => targets.iter().any(|target| is_wildcard_of(rr, target)),
        _ => false,
    };
    let before = pair.theirs.additional.len();
    pair.theirs.additional.retain(|rr| ours.contains(rr) || !is_instead(rr));
    pair.theirs.additional.len() < before
}

/// RFC 2181 5: an RRset has no duplicates. The peer repeats RRs in an alias loop. Ours does not.
pub(super) fn peer_repeats_rrs(pair: &mut Pair<'_>) -> bool {
    let holds = pair.ours.duplicate_count == 0 && pair.theirs.duplicate_count > 0;
    if holds {
        pair.theirs.duplicate_count = 0;
    }
    holds
}
