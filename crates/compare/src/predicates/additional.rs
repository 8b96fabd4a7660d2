//! Optional records in the additional section.

use super::names::{in_domain_glue, targets};
use super::pair::Pair;
use crate::response::{Rr, Section};
use std::collections::BTreeSet;
use wire::number::Rtype;

/// Bytes of an RR before its rdata: a pointer in place of its owner, then type, class, TTL and length.
pub(super) const RR_HEAD_BYTES: usize = 12;

/// RFC 2181 9: data that does not fit is left out without TC. RFC 9471 3.2: sibling glue may be left out. RFC 4035 3.1:
/// of a signed RRset in the additional section, the signatures or the whole RRset may be left out. The peer chose other
/// RRsets, or an RRset without its signatures.
///
/// Each RRset that ours lacks is in our response over TCP, and does not fit together with its signatures.
pub(super) fn extra_does_not_fit(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    if !pair.differs_in_additional_only() || !in_domain_glue(whole).is_subset(&pair.ours.additional) {
        return false;
    }
    let room = pair.bytes_max().saturating_sub(pair.ours_bytes);
    let bytes_of = |missing: &Rr| -> usize {
        let same = |rr: &&Rr| rr.owner == missing.owner && rr.type_covered() == missing.type_covered();
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

/// RFC 1034 4.3.2 step 6: other RRs "which may be useful" are added. RFC 9471 3.2: sibling glue may be added. NSD and
/// BIND are configured for minimal responses, and servers choose different RRsets.
///
/// The peer lacks addresses, or SVCB behind SVCB (RFC 9460 4.1), with their signatures, of names in the answer or
/// referral. None is in-domain glue, and a peer serves every one of these RRs.
pub(super) fn peer_leaves_out_extra(pair: &mut Pair<'_>) -> bool {
    if !pair.differs_in_additional_only() {
        return false;
    }
    let mut named: BTreeSet<Vec<u8>> = targets(&pair.ours.answer);
    named.extend(targets(&pair.ours.authority));
    let needed = in_domain_glue(&pair.ours);
    let is_extra = |rr: &&Rr| {
        matches!(rr.type_covered(), Rtype::A | Rtype::AAAA | Rtype::SVCB | Rtype::HTTPS)
            && named.contains(&rr.owner)
            && !needed.contains(*rr)
            && pair.served.contains(rr)
    };
    let excused: Section = pair.ours.additional.difference(&pair.theirs.additional).filter(is_extra).cloned().collect();
    pair.ours.additional.retain(|rr| !excused.contains(rr));
    !excused.is_empty()
}
