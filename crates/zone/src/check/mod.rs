//! Checks a zone before it is served.
//!
//! A zone with *errors* is refused: it is meaningless, or serving it would do harm. A zone with *warnings* is served,
//! without the records that cannot be served. Where RFCs leave a case open, this module decides as most of BIND, Knot
//! and NSD do.

// The findings.
mod finding;
pub use finding::{Finding, FindingKind, Findings};

// Records by owner and type.
mod groups;

// Checks of single RRsets, of owners, and of the targets of records.
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
pub struct CheckedZone {
    /// The owner of the SOA, case kept.
    pub apex: Name,
    /// The records to serve, by owner and type: without duplicates and records outside the zone, and with one TTL per
    /// RRset. Owners are in canonical order. If the file is far from sorted, they are in the order of their first
    /// record.
    pub records: RecordList,
    /// The warnings.
    pub findings: Findings,
}

/// Checks a zone, and returns the records to serve.
///
/// # Errors
/// The findings, if at least one of them is an error.
pub fn check(loaded: Loaded) -> Result<CheckedZone, Findings> {
    let groups = Groups::new(&loaded.apex, &loaded.records);
    check_groups(loaded, groups)
}

fn check_groups(loaded: Loaded, groups: Groups) -> Result<CheckedZone, Findings> {
    let Loaded { apex, mut records, locations, .. } = loaded;
    let mut findings = Findings::default();
    for &index in groups.outside() {
        findings.add(FindingKind::OutsideZone, records.get(index as usize), locations.get(index as usize));
    }
    let dropped = rrsets::check(&mut records, &groups, &locations, &mut findings);
    owners::check(&apex, &records, &groups, &locations, &mut findings);
    targets::check(&records, &groups, &locations, &mut findings);
    if findings.has_error() {
        return Err(findings);
    }
    let records = groups.into_served(records, &dropped);
    debug_assert!(records.iter().any(|record| record.rtype == Rtype::SOA));
    Ok(CheckedZone { apex, records, findings })
}

#[cfg(test)]
mod tests;
