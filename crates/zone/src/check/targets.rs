//! Names that records point to: name servers, mail exchangers, services.

use super::finding::{FindingKind, Findings};
use super::groups::Groups;
use crate::file::FileLine;
use crate::record::{RecordList, RecordRef};
use wire::name::NameRef;
use wire::number::Rtype;
use wire::rdata::rdata_names;

pub(super) fn check(records: &RecordList, groups: &Groups, locations: &[FileLine], findings: &mut Findings) {
    for owner in groups.to_check() {
        for rrset in groups.rrsets(owner) {
            let rtype = records.get(rrset[0] as usize).rtype;
            if !matches!(rtype, Rtype::NS | Rtype::MX | Rtype::SRV) {
                continue;
            }
            for &index in rrset {
                let record = records.get(index as usize);
                let Some(target) = rdata_names(rtype, record.rdata).next() else { continue };
                if let Some(kind) = check_target(record, target, records, groups) {
                    findings.add(kind, record, locations.get(index as usize));
                }
            }
        }
    }
}

/// Returns the problem of a record's target, as far as this zone shows.
fn check_target(
    record: RecordRef<'_>,
    target: NameRef<'_>,
    records: &RecordList,
    groups: &Groups,
) -> Option<FindingKind> {
    // A root target means that the service does not exist (RFC 2782, RFC 7505 3).
    if target.is_root() {
        return None;
    }
    let missing = if record.rtype == Rtype::NS && target.is_at_or_below(record.owner) {
        FindingKind::GlueMissing
    } else {
        FindingKind::AddressMissing
    };
    match groups.find(records, target) {
        Some(owner) => {
            let has = |rtype| groups.find_type(records, owner, rtype).is_some();
            if has(Rtype::CNAME) {
                // RFC 2181 10.3: "The domain name used as the value of a NS resource record, or part of the value of
                // a MX resource record, must not be an alias."
                Some(FindingKind::TargetIsCname)
            } else {
                (!has(Rtype::A) && !has(Rtype::AAAA)).then_some(missing)
            }
        }
        None => {
            // Missing, unless the target is in another zone, or a wildcard, a zone cut or a DNAME above it applies.
            let apex = groups.owner_name(records, groups.apex()?);
            (target.is_at_or_below(apex) && !is_covered(record, target, apex, records, groups)).then_some(missing)
        }
    }
}

/// Whether a wildcard, a zone cut or a DNAME above the target applies to it.
fn is_covered(
    record: RecordRef<'_>,
    target: NameRef<'_>,
    apex: NameRef<'_>,
    records: &RecordList,
    groups: &Groups,
) -> bool {
    let mut name = target;
    while let Some(parent) = name.parent().filter(|parent| parent.is_at_or_below(apex)) {
        name = parent;
        let mut wildcard = b"\x01*".to_vec();
        wildcard.extend_from_slice(name.as_bytes());
        if NameRef::from_bytes(&wildcard).is_ok_and(|wildcard| groups.find(records, wildcard).is_some()) {
            return true;
        }
        let Some(owner) = groups.find(records, name).filter(|_| name != apex) else { continue };
        let is_own_cut = record.rtype == Rtype::NS && record.owner == name;
        let has = |rtype| groups.find_type(records, owner, rtype).is_some();
        if has(Rtype::DNAME) || (has(Rtype::NS) && !is_own_cut) {
            return true;
        }
    }
    false
}
