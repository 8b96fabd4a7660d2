//! Where a server may differ from the reference: each predicate names one difference and the rule that settles it.

use super::contents::Contents;
use super::message::Update;
use super::reference::{self, Quirk};
use crate::peers::Kind;
use wire::number::{Class, Rcode, Rtype};

/// What one server made of one UPDATE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The RCODE; `None` when it stayed silent or ended.
    pub rcode: Option<Rcode>,
    /// Its zone after it.
    pub zone: Contents,
}

/// One judged step.
pub struct Case<'a> {
    /// Which server.
    pub kind: Kind,
    /// What it got.
    pub update: &'a Update,
    /// The zone before.
    pub before: &'a Contents,
    /// What should have come of it.
    pub expected: &'a Outcome,
    /// What came of it.
    pub found: &'a Outcome,
}

/// A difference that is allowed, and the rule that settles it for ours.
struct Predicate {
    kind: Kind,
    quirk: Quirk,
    name: &'static str,
}

/// What each server does in its own way. A difference is covered when the reference, going some of these ways, comes to the
/// very same RCODE and zone.
const PREDICATES: &[Predicate] = &[
    // RFC 2136 3.2 comes before 3.4.1.
    Predicate { kind: Kind::Bind, quirk: Quirk::ScanFirst, name: "scans the update section before prerequisites" },
    // RFC 4035 2.4 asks signers not to have it; RFC 2136 does not make the server delete what it was not asked to.
    Predicate { kind: Kind::Bind, quirk: Quirk::OrphanDsGoes, name: "deletes DS without NS" },
    // RFC 2136 3.3 lets a server refuse by policy; ours has none about addresses, which may come with the next update.
    Predicate { kind: Kind::Bind, quirk: Quirk::ApexNsNeedsAddress, name: "refuses an apex NS without address" },
    // RFC 2136 2.4.2 names an RRset, and a set has nothing twice (RFC 2181 5).
    Predicate { kind: Kind::Bind, quirk: Quirk::ValuesAreCounted, name: "counts a prerequisite that is named twice" },
    // RFC 2136 1.1.2: names are compared without case, so nothing changes.
    Predicate {
        kind: Kind::Bind,
        quirk: Quirk::CaseOfRdataCounts,
        name: "steps the serial for the case of a name in rdata",
    },
    // RFC 2136 3.4.2.2: "the Zone RR is replaced by Update RR", its TTL with it.
    Predicate {
        kind: Kind::Knot,
        quirk: Quirk::TtlOfExistingStays,
        name: "keeps the TTL of a record that is added again",
    },
    // RFC 2136 has no such case; RFC 6672 2.4 forbids records below a DNAME in a zone, which the next update may mend.
    Predicate { kind: Kind::Knot, quirk: Quirk::BelowDnameRefused, name: "refuses records below a DNAME" },
    // RFC 3007 3.1.1: such records are the server's.
    Predicate { kind: Kind::Knot, quirk: Quirk::SignerTypesTaken, name: "takes NSEC and RRSIG" },
    // RFC 1982 has no rule against 0; some software takes it for "none".
    Predicate { kind: Kind::Knot, quirk: Quirk::WrapToZero, name: "steps from 4294967295 to 0" },
];

/// How many ways at once are tried.
const QUIRKS_AT_ONCE_MAX: u32 = 3;

/// The names of the fewest predicates that together cover the difference.
#[must_use]
pub fn explain(case: &Case<'_>) -> Option<Vec<&'static str>> {
    if case.found.rcode.is_none() {
        return ends(case).map(|name| vec![name]);
    }
    let own: Vec<&Predicate> = PREDICATES.iter().filter(|predicate| predicate.kind == case.kind).collect();
    let mut choices: Vec<u32> =
        (1..1 << own.len()).filter(|set: &u32| set.count_ones() <= QUIRKS_AT_ONCE_MAX).collect();
    choices.sort_by_key(|set| set.count_ones());
    choices.into_iter().find_map(|set| {
        let chosen: Vec<&Predicate> =
            own.iter().enumerate().filter(|(at, _)| set >> at & 1 != 0).map(|(_, p)| *p).collect();
        let quirks: Vec<Quirk> = chosen.iter().map(|predicate| predicate.quirk).collect();
        let (rcode, zone) = reference::update_with(case.before, case.update, &quirks);
        let is_covered = Some(rcode) == case.found.rcode && zone == case.found.zone;
        is_covered.then(|| chosen.iter().map(|predicate| predicate.name).collect())
    })
}

/// Knot 3.2.6 of Debian ends on an SOA below the apex and on replacing a DNAME.
fn ends(case: &Case<'_>) -> Option<&'static str> {
    let adds = |rtype: Rtype| case.update.steps.iter().filter(move |raw| raw.class == Class::IN && raw.rtype == rtype);
    if case.kind != Kind::Knot {
        return None;
    }
    if adds(Rtype::SOA).any(|raw| raw.owner != case.update.apex) {
        return Some("ends on an SOA below the apex");
    }
    adds(Rtype::DNAME).next().map(|_| "ends on replacing a DNAME")
}
