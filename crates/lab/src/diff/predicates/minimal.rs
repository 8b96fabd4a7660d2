//! Questions for everything, to which little is answered.

use super::names::covered;
use super::{Pair, Rr, Section};
use std::collections::BTreeSet;
use wire::number::Rtype;

/// RFC 8482 4.1: to QTYPE ANY a subset of the RRsets is answered, and all signatures to QTYPE RRSIG would amplify as
/// much. Ours gives one RRset with its signatures, or the signatures of one; the peers choose others, or give all.
///
/// All RRs that differ have one owner; those of ours are one RRset, the whole of it, and what a peer serves.
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
    let rtypes: BTreeSet<Rtype> = of_owner.iter().map(|rr| covered(rr)).collect();
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
