//! Checks of single RRsets: duplicates, TTLs, size, and the cost of NSEC3.

use super::finding::{FindingKind, Findings};
use super::groups::Groups;
use crate::file::FileLine;
use crate::limits::{NSEC3_ITERATIONS_LOADED_MAX, NSEC3_SALT_LOADED_BYTES_MAX, PAIRS_MAX, RRSET_RECORDS_MAX};
use crate::record::RecordList;
use wire::number::Rtype;
use wire::rdata::{digest_bytes, rdata_eq, rdata_lowercase};

/// Gives each RRset one TTL. Returns which records to leave out.
pub(super) fn check(
    records: &mut RecordList,
    groups: &Groups,
    locations: &[FileLine],
    findings: &mut Findings,
) -> Vec<bool> {
    let mut dropped = Vec::new();
    if let Some(apex) = groups.apex() {
        drop_ds(records, groups, apex, locations, findings, &mut dropped);
        warn_of_zonemd(records, groups, apex, locations, findings);
    }
    for owner in groups.to_check() {
        for rrset in groups.rrsets(owner) {
            let first = records.get(rrset[0] as usize);
            if matches!(first.rtype, Rtype::NSEC3 | Rtype::NSEC3PARAM) {
                check_hashing(records, rrset, locations, findings);
            }
            if rrset.len() > 1 {
                drop_duplicates(records, rrset, locations, findings, &mut dropped);
                equalize_ttls(records, rrset, locations, findings);
                let first = records.get(rrset[0] as usize);
                if rrset.len() > RRSET_RECORDS_MAX {
                    findings.add(FindingKind::RrsetLarge, first, locations.get(rrset[0] as usize));
                }
            }
        }
    }
    dropped
}

/// RFC 4035 2.4: DS "MUST NOT appear at a zone's apex". DS and its signatures are left out. The rest is served.
fn drop_ds(
    records: &RecordList,
    groups: &Groups,
    apex: u32,
    locations: &[FileLine],
    findings: &mut Findings,
    dropped: &mut Vec<bool>,
) {
    for &index in groups.rrsets(apex).flatten() {
        let record = records.get(index as usize);
        let is_ds = record.rtype == Rtype::DS;
        // RFC 4034 3.1.1: an RRSIG begins with the type that it covers.
        if is_ds || record.rtype == Rtype::RRSIG && record.rdata.starts_with(&Rtype::DS.0.to_be_bytes()) {
            dropped.resize(records.len(), false);
            dropped[index as usize] = true;
        }
        if is_ds {
            findings.add(FindingKind::DsAtApex, record, locations.get(index as usize));
        }
    }
}

/// RFC 8976 2.2.2: the scheme defines the digest. BIND 9.18 requires the length of scheme 1 for every scheme.
fn warn_of_zonemd(records: &RecordList, groups: &Groups, apex: u32, locations: &[FileLine], findings: &mut Findings) {
    for &index in groups.rrsets(apex).flatten() {
        let record = records.get(index as usize);
        // RFC 8976 2.2: serial, scheme, hash algorithm, digest.
        let (Rtype::ZONEMD, &[_, _, _, _, scheme, hash, ref digest @ ..]) = (record.rtype, record.rdata) else {
            continue;
        };
        if scheme != 1 && digest_bytes(Rtype::ZONEMD, hash).is_some_and(|expected| digest.len() != expected) {
            findings.add(FindingKind::ZonemdPrivate, record, locations.get(index as usize));
        }
    }
}

/// RFC 9276 3.2 allows a server to refuse zones with expensive hashing. Each negative answer takes three hashes.
fn check_hashing(records: &RecordList, rrset: &[u32], locations: &[FileLine], findings: &mut Findings) {
    for &index in rrset {
        let record = records.get(index as usize);
        // RFC 5155 3.2, 4.2: algorithm, flags, iterations, length of the salt, salt.
        let &[_, _, high, low, salt_bytes, ..] = record.rdata else { continue };
        if u16::from_be_bytes([high, low]) > NSEC3_ITERATIONS_LOADED_MAX {
            findings.add(FindingKind::Nsec3Iterations, record, locations.get(index as usize));
        }
        if usize::from(salt_bytes) > NSEC3_SALT_LOADED_BYTES_MAX {
            findings.add(FindingKind::Nsec3Salt, record, locations.get(index as usize));
        }
    }
}

fn drop_duplicates(
    records: &RecordList,
    rrset: &[u32],
    locations: &[FileLine],
    findings: &mut Findings,
    dropped: &mut Vec<bool>,
) {
    let mut drop = |index: u32| {
        dropped.resize(records.len(), false);
        if !core::mem::replace(&mut dropped[index as usize], true) {
            findings.add(FindingKind::Duplicate, records.get(index as usize), locations.get(index as usize));
        }
    };
    let record = |index: u32| records.get(index as usize);
    if rrset.len() <= PAIRS_MAX {
        for (at, &later) in rrset.iter().enumerate() {
            let is_equal = |&before: &u32| rdata_eq(record(later).rtype, record(before).rdata, record(later).rdata);
            if rrset[..at].iter().any(is_equal) {
                drop(later);
            }
        }
        return;
    }
    let canonical = |index: u32| {
        let mut rdata: Box<[u8]> = record(index).rdata.into();
        rdata_lowercase(record(index).rtype, &mut rdata);
        (rdata, index)
    };
    let mut sorted: Vec<(Box<[u8]>, u32)> = rrset.iter().map(|&index| canonical(index)).collect();
    sorted.sort_unstable();
    let mut later: Vec<u32> = sorted.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).collect();
    later.sort_unstable();
    later.into_iter().for_each(drop);
}

/// RFC 2181 5.2: all TTLs of an RRset must be equal. A client that gets different ones uses the lowest, so the lowest
/// is served. BIND uses the first one, and NSD serves them unchanged.
fn equalize_ttls(records: &mut RecordList, rrset: &[u32], locations: &[FileLine], findings: &mut Findings) {
    let ttl = rrset.iter().map(|&index| records.get(index as usize).ttl).min().unwrap_or_default();
    let mut others = rrset.iter().filter(|&&index| records.get(index as usize).ttl != ttl);
    let Some(&first) = others.next() else { return };
    findings.add(FindingKind::TtlDiffers, records.get(first as usize), locations.get(first as usize));
    for &index in rrset {
        records.set_ttl(index as usize, ttl);
    }
}
