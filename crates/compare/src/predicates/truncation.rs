//! Truncated responses.

use super::additional::RR_HEAD_BYTES;
use super::names::in_domain_glue;
use super::pair::Pair;
use crate::response::flag;
use testbed::Kind;
use wire::number::{Rcode, Rtype};

/// RFC 2181 9: "The TC bit should not be set merely because some extra information could have been included, but there
/// was insufficient room for it." The peer sets it although everything required fits. Our answer, authority and
/// in-domain glue equal those of its answer over TCP.
pub(super) fn tc_without_need(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    let (ours, theirs) = (&pair.ours, &mut pair.theirs);
    let is_complete = ours.rcode == whole.rcode
        && ours.answer == whole.answer
        && ours.authority == whole.authority
        && in_domain_glue(whole).is_subset(&ours.additional);
    if ours.flags[flag::TC] || !theirs.flags[flag::TC] || !is_complete || theirs.rcode != ours.rcode {
        return false;
    }
    theirs.flags[flag::TC] = false;
    theirs.answer.clone_from(&ours.answer);
    theirs.authority.clone_from(&ours.authority);
    theirs.additional.clone_from(&ours.additional);
    true
}

/// RFC 2181 9: a response with TC is ignored and the query is repeated over TCP. If an alias chain does not fit, ours
/// stops before it knows whether the last name exists. The peer continues. Over TCP, ours has the peer's RCODE.
pub(super) fn rcode_of_truncated(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    let (ours, theirs) = (&pair.ours, &mut pair.theirs);
    let both = ours.flags[flag::TC] && theirs.flags[flag::TC];
    let has_alias = whole.answer.iter().any(|rr| rr.rtype == Rtype::CNAME);
    if !both || !has_alias || ours.rcode != Rcode::NOERROR || theirs.rcode == ours.rcode || theirs.rcode != whole.rcode
    {
        return false;
    }
    theirs.rcode = ours.rcode;
    true
}

/// RFC 2181 9: TC is set if required data does not fit. Names may be compressed (RFC 1035 4.1.4), but not where that
/// changes their case (RFC 4343 4.1), and servers send different proofs. So a response may fit for the peer only. Our
/// response over TCP is compared with the peer's instead.
///
/// Without the optional parts of its additional section, it is larger than the response may be.
pub(super) fn whole_does_not_fit(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    let needed = in_domain_glue(whole);
    let optional = whole.additional.difference(&needed).map(|rr| RR_HEAD_BYTES + rr.rdata.len()).sum::<usize>();
    let required = pair.whole_bytes.saturating_sub(optional);
    // If an alias chain does not fit, ours stops before it knows the RCODE.
    let has_alias = whole.answer.iter().any(|rr| rr.rtype == Rtype::CNAME);
    let is_rcode = pair.ours.rcode == whole.rcode || has_alias && pair.ours.rcode == Rcode::NOERROR;
    let is_truncated = pair.ours.flags[flag::TC] && !pair.theirs.flags[flag::TC] && required > pair.bytes_max();
    if !is_truncated || !is_rcode || !pair.agrees_in_flags() {
        return false;
    }
    pair.ours = whole.clone();
    true
}

/// RFC 2308 2.1: a negative answer requires the SOA, so TC is set if it does not fit (RFC 2181 9). Knot leaves the SOA
/// out after an alias chain, without TC. Our response over TCP has it, and is too large.
pub(super) fn knot_leaves_out_soa(pair: &mut Pair<'_>) -> bool {
    let Some(whole) = pair.whole else { return false };
    let has_soa = whole.authority.iter().any(|rr| rr.rtype == Rtype::SOA);
    let holds = pair.peer == Kind::Knot
        && has_soa
        && pair.whole_bytes > pair.bytes_max()
        && pair.ours == *whole
        && pair.theirs.authority.is_empty()
        && pair.theirs.answer == whole.answer;
    if holds {
        pair.theirs.authority.clone_from(&whole.authority);
    }
    holds
}
