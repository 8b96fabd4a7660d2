//! Checks which types an owner has, and whether owners are occluded.

use super::finding::{FindingKind, Findings};
use super::groups::Groups;
use crate::file::FileLine;
use crate::record::{RecordList, RecordRef};
use wire::name::{Name, NameRef};
use wire::number::Rtype;
use wire::rdata::rdata_eq;

/// Whether an owner occludes the names below it, and why.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OcclusionKind {
    Nothing,
    ZoneCut,
    Dname,
}

pub(super) fn check(
    apex: &Name,
    records: &RecordList,
    groups: &Groups,
    locations: &[FileLine],
    findings: &mut Findings,
) {
    let Some(apex_number) = groups.apex() else {
        findings.add_at(FindingKind::SoaMissing, apex.as_ref(), Rtype::SOA, None);
        return;
    };
    for (rtype, kind) in [(Rtype::SOA, FindingKind::SoaMissing), (Rtype::NS, FindingKind::NsMissing)] {
        if groups.find_type(records, apex_number, rtype).is_none() {
            findings.add_at(kind, apex.as_ref(), rtype, None);
        }
    }
    let mut above = vec![OcclusionKind::Nothing; groups.owners().len()];
    let mut has_any = false;
    for owner in groups.to_check() {
        above[owner as usize] = check_owner(owner, owner == apex_number, records, groups, locations, findings);
        has_any |= above[owner as usize] != OcclusionKind::Nothing;
    }
    if has_any {
        check_occluded(apex, records, groups, &above, locations, findings);
    }
}

/// Checks one owner. Returns whether it occludes the names below it.
fn check_owner(
    owner: u32,
    is_apex: bool,
    records: &RecordList,
    groups: &Groups,
    locations: &[FileLine],
    findings: &mut Findings,
) -> OcclusionKind {
    let (mut cname, mut dname, mut ns, mut ds, mut other) = (None, None, None, None, None);
    for rrset in groups.rrsets(owner) {
        let record = records.get(rrset[0] as usize);
        let location = locations.get(rrset[0] as usize);
        let is_many = || {
            let equal = |&index: &u32| rdata_eq(record.rtype, record.rdata, records.get(index as usize).rdata);
            !rrset[1..].iter().all(equal)
        };
        let (single, slot) = match record.rtype {
            Rtype::CNAME => (Some(FindingKind::CnameMany), &mut cname),
            Rtype::DNAME => (Some(FindingKind::DnameMany), &mut dname),
            Rtype::SOA => (Some(FindingKind::SoaMany), &mut other),
            Rtype::NS => (None, &mut ns),
            Rtype::DS => (None, &mut ds),
            // Types that are allowed beside a CNAME: RFC 4034 3 and 4, and like BIND the types of RFC 2535 2.3.5.
            Rtype::RRSIG | Rtype::NSEC | Rtype::SIG | Rtype::KEY | Rtype::NXT => continue,
            _ => (None, &mut other),
        };
        *slot = slot.or(Some((record, location)));
        if let Some(kind) = single.filter(|_| is_many()) {
            findings.add(kind, record, location);
        }
        if record.rtype == Rtype::SOA && !is_apex {
            findings.add(FindingKind::SoaBelowApex, record, location);
        }
    }
    let mut found = |kind, what: Option<(RecordRef<'_>, Option<&FileLine>)>| {
        if let Some((record, location)) = what {
            findings.add(kind, record, location);
        }
    };
    if cname.is_some() {
        found(FindingKind::CnameAndOther, other.or(ns).or(dname).or(ds));
    }
    if !is_apex {
        found(FindingKind::DsWithoutNs, ds.filter(|_| ns.is_none()));
        found(FindingKind::NsBesideDname, ns.filter(|_| dname.is_some()));
    }
    found(FindingKind::NsOfWildcard, ns.filter(|(record, _)| record.owner.is_wildcard()));
    match (dname, ns) {
        (Some(_), _) => OcclusionKind::Dname,
        (None, Some(_)) if !is_apex => OcclusionKind::ZoneCut,
        _ => OcclusionKind::Nothing,
    }
}

/// Reports records below a zone cut that are no glue, and records below a DNAME (RFC 6672 2.3).
fn check_occluded(
    apex: &Name,
    records: &RecordList,
    groups: &Groups,
    above: &[OcclusionKind],
    locations: &[FileLine],
    findings: &mut Findings,
) {
    let apex_labels = apex.as_ref().label_count();
    // For sorted owners: the current highest occluder. It applies to all following names below it.
    let mut highest: Option<(NameRef<'_>, OcclusionKind)> = None;
    for owner in groups.owners() {
        let name = groups.owner_name(records, owner);
        let occluder = if groups.is_sorted() {
            highest = highest.filter(|(above, _)| name.is_at_or_below(*above));
            let occluder = highest.map_or(OcclusionKind::Nothing, |(_, kind)| kind);
            highest =
                highest.or(Some((name, above[owner as usize])).filter(|(_, kind)| *kind != OcclusionKind::Nothing));
            occluder
        } else {
            highest_above(name, apex_labels, records, groups, above)
        };
        let is_glue =
            |rtype| occluder == OcclusionKind::ZoneCut && matches!(rtype, Rtype::A | Rtype::AAAA | Rtype::RRSIG);
        if occluder == OcclusionKind::Nothing {
            continue;
        }
        let mut rrsets = groups.rrsets(owner).map(|rrset| (records.get(rrset[0] as usize), rrset[0]));
        if let Some((record, index)) = rrsets.find(|(record, _)| !is_glue(record.rtype)) {
            findings.add(FindingKind::Occluded, record, locations.get(index as usize));
        }
    }
}

/// The kind of the highest ancestor of a name that occludes it.
fn highest_above(
    name: NameRef<'_>,
    apex_labels: usize,
    records: &RecordList,
    groups: &Groups,
    above: &[OcclusionKind],
) -> OcclusionKind {
    let (mut ancestor, mut highest) = (name, OcclusionKind::Nothing);
    for _ in apex_labels..name.label_count() {
        let Some(parent) = ancestor.parent() else { break };
        ancestor = parent;
        if let Some(number) = groups.find(records, ancestor) {
            match above[number as usize] {
                OcclusionKind::Nothing => {}
                kind => highest = kind,
            }
        }
    }
    highest
}
