//! Proofs that something does not exist.

use super::alias::chain;
use super::names::is_at_or_below;
use super::nsec3::Chain;
use super::pair::Pair;
use crate::response::{Rr, Section};
use testbed::Kind;
use wire::name::NameRef;
use wire::number::Rtype;

/// RFC 4035 3.1.3.4: if a wildcard matches a name but lacks the type, the answer proves that no closer name exists and
/// that the wildcard has no such RRset. If the wildcard is an empty non-terminal (RFC 4592 2.2.2), an NSEC whose next
/// name is below it proves the second. BIND and Knot leave it out.
pub(super) fn empty_wildcard_is_proved(pair: &mut Pair<'_>) -> bool {
    let Some(last) = chain(&pair.ours, &pair.query.qname).pop() else { return false };
    let extra: Vec<Rr> = pair.ours.authority.difference(&pair.theirs.authority).cloned().collect();
    let Some(nsec) = extra.iter().find(|rr| rr.rtype == Rtype::NSEC) else { return false };
    let Ok((next, _)) = NameRef::split_from(&nsec.rdata) else { return false };
    let is_wildcard_above = |start: usize| {
        // The name after the asterisk label is the closest encloser.
        next.as_bytes()
            .get(start..)
            .and_then(|wildcard| wildcard.strip_prefix(b"\x01*"))
            .is_some_and(|encloser| start > 0 && is_at_or_below(&last, encloser) && last != encloser)
    };
    let holds = label_starts(next.as_bytes()).into_iter().any(is_wildcard_above)
        && extra.iter().all(|rr| rr.owner == nsec.owner && rr.type_covered() == Rtype::NSEC);
    if holds {
        pair.ours.authority.retain(|rr| !extra.contains(rr));
    }
    holds
}

fn label_starts(name: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    while let Some(&length) = name.get(at)
        && length > 0
    {
        starts.push(at);
        at += 1 + usize::from(length);
    }
    starts
}

/// RFC 4592 2.3: an asterisk label in a QNAME is a label like any other. If the proved name begins with one, NSD proves
/// too much or something else, and Knot leaves out the proof of a synthesis, as if the name were the wildcard.
///
/// This never excuses BIND, which is correct here. The differing records are NSEC or NSEC3 that peers serve.
pub(super) fn asterisk_in_qname(pair: &mut Pair<'_>) -> bool {
    let Some(last) = chain(&pair.ours, &pair.query.qname).pop() else { return false };
    let is_proof = |rr: &Rr| matches!(rr.type_covered(), Rtype::NSEC | Rtype::NSEC3);
    let differing: Vec<&Rr> = pair.ours.authority.symmetric_difference(&pair.theirs.authority).collect();
    let holds = matches!(pair.peer, Kind::Nsd | Kind::Knot)
        && last.starts_with(b"\x01*")
        && !differing.is_empty()
        && differing.iter().all(|rr| is_proof(rr) && pair.served.contains(rr));
    if holds {
        pair.theirs.authority.clone_from(&pair.ours.authority);
    }
    holds
}

/// RFC 5155 7.2.1: a closest encloser proof has "an NSEC3 RR that matches the closest (provable) encloser" and one that
/// covers the next closer name. In an opt-out zone, a name that exists only because of unsigned delegations has no
/// NSEC3, so the provable encloser is further up. NSD's records prove no encloser.
pub(super) fn opt_out_provable_encloser(pair: &mut Pair<'_>) -> bool {
    let Some(last) = chain(&pair.ours, &pair.query.qname).pop() else { return false };
    let (Some(ours), Some(theirs)) = (Chain::new(&pair.ours.authority), Chain::new(&pair.theirs.authority)) else {
        return false;
    };
    let holds = ours.proves_encloser(&last) == Some(true) && theirs.proves_encloser(&last).is_none();
    if holds {
        let other = |section: &Section| -> Section {
            section.iter().filter(|rr| rr.type_covered() != Rtype::NSEC3).cloned().collect()
        };
        pair.ours.authority = other(&pair.ours.authority);
        pair.theirs.authority = other(&pair.theirs.authority);
    }
    holds
}

/// RFC 5155 7.2.5: that a wildcard matches a name but lacks the type is proved with the NSEC3 of the wildcard. For
/// QTYPE DS, NSD and Knot only send the closest provable encloser (7.2.4), which is for names without a wildcard.
///
/// The one NSEC3 that they lack matches or covers the wildcard of the encloser that all of them prove.
pub(super) fn wildcard_is_proved_for_ds(pair: &mut Pair<'_>) -> bool {
    let Some(last) = chain(&pair.ours, &pair.query.qname).pop() else { return false };
    let extra: Section = pair.ours.authority.difference(&pair.theirs.authority).cloned().collect();
    let (Some(theirs), Some(lacking)) = (Chain::new(&pair.theirs.authority), Chain::new(&extra)) else { return false };
    let holds = pair.query.qtype == Rtype::DS
        && matches!(pair.peer, Kind::Nsd | Kind::Knot)
        && extra.iter().all(|rr| rr.type_covered() == Rtype::NSEC3)
        && theirs.encloser(&last).is_some_and(|encloser| lacking.is_about_wildcard_of(&encloser));
    if holds {
        pair.ours.authority.retain(|rr| !extra.contains(rr));
    }
    holds
}
