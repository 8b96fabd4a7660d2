//! Glue without which a delegation cannot be followed.

use super::names::in_domain_glue;
use super::pair::Pair;
use crate::response::flag;

/// RFC 9471 3.1: a referral sets TC if its in-domain glue does not all fit. NSD 4.6 and BIND 9.18 are older: they send
/// what fits, without TC.
///
/// Our response over TCP has all glue. The peer's response lacks some of its in-domain glue and is otherwise the same.
pub(super) fn in_domain_glue_sets_tc(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    let (ours, theirs) = (&pair.ours, &mut pair.theirs);
    let is_part = theirs.answer == whole.answer
        && theirs.authority == whole.authority
        && theirs.additional.is_subset(&whole.additional)
        && !in_domain_glue(whole).is_subset(&theirs.additional);
    if !ours.flags[flag::TC] || theirs.flags[flag::TC] || !is_part {
        return false;
    }
    truncate(theirs);
    true
}

/// Truncates a response.
pub(super) fn truncate(response: &mut crate::Response) {
    response.flags[flag::TC] = true;
    response.answer.clear();
    response.authority.clear();
    response.additional.clear();
}

/// RFC 9471 3.1: a referral has all in-domain glue, or TC. Ours puts it before sibling glue and has all of it. The peer
/// sent other addresses instead, without TC.
pub(super) fn in_domain_glue_comes_first(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    let needed = in_domain_glue(whole);
    let is_complete = needed.is_subset(&pair.ours.additional) && in_domain_glue(&pair.ours) == needed;
    let lacking: Vec<_> = needed.difference(&pair.theirs.additional).cloned().collect();
    if !pair.differs_in_additional_only() || pair.ours.flags[flag::TC] || !is_complete || lacking.is_empty() {
        return false;
    }
    pair.ours.additional.retain(|rr| !lacking.contains(rr));
    true
}
