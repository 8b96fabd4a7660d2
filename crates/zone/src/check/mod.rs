//! What a zone has to be before it is served, and what is odd in it.
//!
//! *Errors* refuse the zone: it has no meaning, or serving it would harm. *Warnings* do not: what cannot be served is
//! left out, the rest is served. Where RFCs leave it open, the line is where most of BIND, Knot and NSD draw it.

// What is found.
mod finding;
pub use finding::{Finding, FindingKind, Findings};

// Records by owner and type.
mod groups;

// One RRset, one owner, owners beside each other.
mod owners;
mod rrsets;
mod targets;

use crate::file::Loaded;
use crate::record::RecordList;
use groups::Groups;
use wire::name::Name;
use wire::number::Rtype;

/// A zone that may be served.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The owner of the SOA, case kept.
    pub apex: Name,
    /// The records that are served, by owner and type: no duplicates, none outside of the zone, one TTL for each RRset.
    /// Owners are in canonical order, or, where the file is far from it, in the order of their first record.
    pub records: RecordList,
    /// What is odd; no errors.
    pub findings: Findings,
}

/// Checks a zone, and brings it into the form that is served.
///
/// # Errors
/// The findings, when at least one of them is an error.
pub fn check(loaded: Loaded) -> Result<Checked, Findings> {
    let groups = Groups::new(&loaded.apex, &loaded.records);
    check_groups(loaded, groups)
}

fn check_groups(loaded: Loaded, groups: Groups) -> Result<Checked, Findings> {
    let Loaded { apex, mut records, places, .. } = loaded;
    let mut findings = Findings::default();
    for &index in groups.outside() {
        findings.add(FindingKind::OutsideZone, records.get(index as usize), places.get(index as usize));
    }
    let dropped = rrsets::check(&mut records, &groups, &places, &mut findings);
    owners::check(&apex, &records, &groups, &places, &mut findings);
    targets::check(&records, &groups, &places, &mut findings);
    if findings.has_error() {
        return Err(findings);
    }
    let records = groups.into_served(records, &dropped);
    debug_assert!(records.iter().any(|record| record.rtype == Rtype::SOA));
    Ok(Checked { apex, records, findings })
}

#[cfg(test)]
mod tests;
