//! The additional section beyond the glue that must be there.

use super::names::{covered, in_domain_glue, targets};
use super::{Pair, Rr, Section};
use std::collections::BTreeSet;
use wire::number::Rtype;

/// Bytes of an RR before its rdata: a pointer in place of its owner, then type, class, TTL and length.
pub(super) const RR_HEAD_BYTES: usize = 12;

/// RFC 2181 9: what does not fit is left out and does not set TC; RFC 9471 3.2: sibling glue may be left out; RFC 4035
/// 3.1: of a signed RRset in the additional section either the signatures or all may go. The peer found room for other
/// RRsets, or for an RRset without its signatures.
///
/// Each RRset that ours lacks stands in what ours answers over TCP, and there is no room for it and its signatures.
pub(super) fn extra_does_not_fit(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    if !pair.differs_in_additional_only() || !in_domain_glue(whole).is_subset(&pair.ours.additional) {
        return false;
    }
    let room = pair.bytes_max().saturating_sub(pair.ours_bytes);
    let bytes_of = |missing: &Rr| -> usize {
        let same = |rr: &&Rr| rr.owner == missing.owner && covered(rr) == covered(missing);
        whole.additional.iter().filter(same).map(|rr| RR_HEAD_BYTES + rr.rdata.len()).sum()
    };
    let excused: Vec<Rr> = pair
        .theirs
        .additional
        .difference(&pair.ours.additional)
        .filter(|rr| whole.additional.contains(rr) && bytes_of(rr) > room)
        .cloned()
        .collect();
    pair.theirs.additional.retain(|rr| !excused.contains(rr));
    !excused.is_empty()
}

/// RFC 1034 4.3.2 step 6: other RRs "which may be useful" are added; RFC 9471 3.2: sibling glue may be. NSD and BIND
/// are set to minimal responses, and none finds room for the same RRsets.
///
/// What the peer lacks are addresses, or SVCB behind SVCB (RFC 9460 4.1), and their signatures, of names that the
/// answer or a referral names, no in-domain glue; and a peer serves every one of these RRs.
pub(super) fn peer_leaves_out_extra(pair: &mut Pair<'_>) -> bool {
    if !pair.differs_in_additional_only() {
        return false;
    }
    let mut named: BTreeSet<Vec<u8>> = targets(&pair.ours.answer);
    named.extend(targets(&pair.ours.authority));
    let needed = in_domain_glue(&pair.ours);
    let is_extra = |rr: &&Rr| {
        matches!(covered(rr), Rtype::A | Rtype::AAAA | Rtype::SVCB | Rtype::HTTPS)
            && named.contains(&rr.owner)
            && !needed.contains(*rr)
            && pair.served.contains(rr)
    };
    let excused: Section = pair.ours.additional.difference(&pair.theirs.additional).filter(is_extra).cloned().collect();
    pair.ours.additional.retain(|rr| !excused.contains(rr));
    !excused.is_empty()
}
