//! Allowed deviations from the reference. Each predicate names one and the rule that supports ours.

use super::contents::Contents;
use super::message::Update;
use super::quirk::{Quirk, Quirks};
use super::reference;
use testbed::Kind;
use wire::number::{Class, Rcode, Rtype};

/// The outcome of one UPDATE at one server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The RCODE. `None` after a timeout or a crash.
    pub rcode: Option<Rcode>,
    /// Its zone after the update.
    pub zone: Contents,
}

/// One judged step.
pub struct Case<'a> {
    /// The server.
    pub kind: Kind,
    /// The update that it received.
    pub update: &'a Update,
    /// The zone before the update.
    pub before: &'a Contents,
    /// The expected outcome.
    pub expected: &'a Outcome,
    /// The actual outcome.
    pub found: &'a Outcome,
}

/// An allowed deviation, and the rule that supports ours.
struct Predicate {
    kind: Kind,
    quirk: Quirk,
    name: &'static str,
}

const fn bind(quirk: Quirk, name: &'static str) -> Predicate {
    Predicate { kind: Kind::Bind, quirk, name }
}

const fn knot(quirk: Quirk, name: &'static str) -> Predicate {
    Predicate { kind: Kind::Knot, quirk, name }
}

/// Deviations of each server. A difference is covered if the reference with some of these quirks gives the same RCODE
/// and zone.
const PREDICATES: &[Predicate] = &[
    // RFC 2136 3.2 comes before 3.4.1.
    bind(Quirk::ScanFirst, "scans the update section before prerequisites"),
    // RFC 4035 2.4 asks signers not to have it. RFC 2136 does not make a server delete unrequested records. Ours
    // refuses a DS at the apex.
    bind(Quirk::OrphanDsGoes, "deletes DS without NS"),
    // RFC 2136 3.3 lets a server refuse by policy. Ours has no policy about addresses, which may come with the next
    // update.
    bind(Quirk::ApexNsNeedsAddress, "refuses an apex NS without address"),
    // RFC 7344 4.1 asks this of a signed zone. This zone is unsigned, so it is a policy.
    bind(Quirk::ApexCdsNeedsKey, "refuses an apex CDS without its DNSKEY"),
    // RFC 2136 2.4.2 names an RRset, and an RRset has no duplicates (RFC 2181 5).
    bind(Quirk::ValuesAreCounted, "counts a prerequisite that is named twice"),
    // RFC 2136 1.1.2: names are compared without case, so nothing changes.
    bind(Quirk::CaseCounts, "steps the serial for the case of a name"),
    // RFC 3007 3.1.1: such records belong to the server. BIND accepts signatures made with an offline key.
    bind(Quirk::ApexRrsigTaken, "takes RRSIG at the apex"),
    // RFC 2181 8: such a TTL counts as zero.
    bind(Quirk::HugeTtlKept, "keeps a TTL of 32 bits"),
    // RFC 1982 3.2 leaves this comparison undefined; a serial that is not newer is ignored (RFC 2136 3.4.2.2).
    bind(Quirk::LongWayFails, "fails on a serial half the circle away"),
    // RFC 2136 3.4.2.4: it equals no record, and deletes none.
    bind(Quirk::RdataHasToFit, "cannot read deletions whose rdata does not fit their class"),
    // RFC 2136 3.4.1.2 makes it FORMERR; RFC 6895 3.1 reserves the number.
    bind(Quirk::TypeZeroDeleted, "takes deletions of type 0"),
    // RFC 4034 5.1.4: the length of a digest is that of its kind.
    bind(Quirk::GostUnchecked, "takes GOST digests of any length"),
    knot(Quirk::HugeTtlKept, "keeps a TTL of 32 bits"),
    // RFC 2136 3.4.2.2: "the Zone RR is replaced by Update RR", its TTL with it.
    knot(Quirk::TtlOfExistingStays, "keeps the TTL of a record that is added again"),
    // RFC 2136 does not cover this. RFC 6672 2.4 forbids it in a zone, but the next update may fix it.
    knot(Quirk::BelowDnameRefused, "refuses records below a DNAME"),
    // RFC 6672 2.4 allows one DNAME per owner. A new one replaces the old one, as with CNAME.
    knot(Quirk::DnameReplacedIsLost, "only deletes a DNAME that is replaced"),
    // RFC 4035 2.4: DS "MUST NOT appear at a zone's apex".
    knot(Quirk::ApexDsTaken, "takes DS at the apex"),
    // RFC 3007 3.1.1: such records belong to the server.
    knot(Quirk::SignerTypesTaken, "takes NSEC and RRSIG"),
    // RFC 2136 3.4.2: the records are processed in order.
    knot(Quirk::SoaAgainstZone, "compares each SOA with that of the zone"),
    // RFC 2181 10.1: KEY is allowed beside a CNAME.
    knot(Quirk::NothingBesideCname, "takes no KEY beside a CNAME"),
    // RFC 2136 1.1.5.
    knot(Quirk::WksAdds, "adds a WKS beside one of the same address and protocol"),
    // RFC 1982 has no rule against 0. Some software treats it as unset.
    knot(Quirk::WrapToZero, "steps from 4294967295 to 0"),
    // RFC 2136 3.2.5 has no such check for prerequisites. The check of the update section comes after them.
    knot(Quirk::MetaTypesUnreadable, "looks for meta types before prerequisites"),
    // RFC 8659 4.1, RFC 4034 5.1, RFC 7344 3.1, RFC 8976 2.2, RFC 9460 2.2, RFC 1035 3.3.2, 3.3.14: rdata that is
    // shorter or longer than its fields is malformed. The digest length depends on the digest type (RFC 4034 5.1.4, RFC
    // 8976 2.2.4).
    knot(Quirk::RdataUnchecked, "takes malformed CAA, CDS, DS, HINFO, HTTPS, TXT and ZONEMD"),
    // RFC 2136 3.4.1.2 makes it FORMERR; RFC 6895 3.1 has the numbers.
    knot(Quirk::MetaTypesTaken, "takes MAILA, MAILB and other meta types as records"),
    // RFC 2136 3.4.1.2 makes it FORMERR.
    knot(Quirk::TtlOfDeletionUnchecked, "takes deletions with a TTL"),
];

/// Maximum number of quirks combined.
const QUIRKS_AT_ONCE_MAX: u32 = 3;

/// The names of the smallest set of predicates that covers the difference.
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
        let (rcode, zone) = reference::update_with(case.before, case.update, Quirks(&quirks));
        let is_covered = Some(rcode) == case.found.rcode && zone == case.found.zone;
        is_covered.then(|| chosen.iter().map(|predicate| predicate.name).collect())
    })
}

/// Knot 3.2.6 of Debian crashes on an SOA below the apex and on replacing a DNAME.
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
