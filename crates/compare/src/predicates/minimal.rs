//! Minimal answers to broad queries.

use super::pair::Pair;
use crate::response::{Rr, Section};
use std::collections::BTreeSet;
use wire::number::Rtype;

/// RFC 8482 4.1: QTYPE ANY is answered with a subset of the RRsets. All signatures for QTYPE RRSIG would amplify as
/// much. Ours sends one RRset with its signatures, or the signatures of one. The peers choose others, or send all.
///
/// All differing RRs have one owner. Ours are one complete RRset that a peer serves too.
pub(super) fn any_one_rrset(pair: &mut Pair<'_>) -> bool {
    if !matches!(pair.query.qtype, Rtype::ANY | Rtype::RRSIG)
        || pair.ours.rcode != pair.theirs.rcode
        || pair.ours.flags != pair.theirs.flags
    {
        return false;
    }
    let own: Vec<&Rr> = pair.ours.answer.difference(&pair.theirs.answer).collect();
    let their: Vec<&Rr> = pair.theirs.answer.difference(&pair.ours.answer).collect();
    let Some(owner) = own.iter().chain(&their).map(|rr| rr.owner.clone()).next() else { return false };
    let of_owner: Vec<&Rr> = pair.ours.answer.iter().filter(|rr| rr.owner == owner).collect();
    let rtypes: BTreeSet<Rtype> = of_owner.iter().map(|rr| rr.type_covered()).collect();
    let is_one = rtypes.len() == 1 && own.iter().chain(&their).all(|rr| rr.owner == owner);
    let own_rrset: Section = of_owner.into_iter().cloned().collect();
    let is_served = own_rrset.iter().all(|rr| pair.served.contains(rr));
    if !is_one || !is_served || !pair.served.is_whole(&own_rrset, pair.query.dnssec_ok) {
        return false;
    }
    let theirs: Section = pair.theirs.answer.iter().filter(|rr| rr.owner != owner).cloned().collect();
    pair.ours.answer.retain(|rr| rr.owner != owner);
    pair.theirs.answer = theirs;
    true
}
