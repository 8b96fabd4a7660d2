//! Contents of a zone that an administrator brings: are they a zone, what differs from what is there, and which
//! serial may they have.

use crate::io::AdminError;
use crate::update::serial;
use std::collections::BTreeMap;
use wire::name::Name;
use wire::number::{Rtype, Serial};
use wire::rdata::rdata_lowercase;
use zone::{Changeset, Record, ZoneId};

/// The serial of contents that are a zone: one SOA, at the apex, and no owner outside.
pub(super) fn check(zone: &ZoneId, records: &[Record]) -> Result<Serial, AdminError> {
    let apex = zone.apex.as_ref();
    if records.iter().any(|record| !record.owner.as_ref().is_at_or_below(apex)) {
        return Err(AdminError::ZoneInvalid);
    }
    let mut soas = records.iter().filter(|record| record.rtype == Rtype::SOA);
    match (soas.next(), soas.next()) {
        (Some(soa), None) if soa.owner.as_ref() == apex => serial::of_soa(&soa.rdata).ok_or(AdminError::ZoneInvalid),
        _ => Err(AdminError::ZoneInvalid),
    }
}

/// Gives the SOA another serial.
pub(super) fn set_serial(records: &mut [Record], to: Serial) {
    for record in records.iter_mut().filter(|record| record.rtype == Rtype::SOA) {
        if let Some(rdata) = serial::with_serial(&record.rdata, to) {
            record.rdata = rdata;
        }
    }
}

/// An RRset's place: owner in lower case, type, and for RRSIG the type that it covers.
type Place = (Name, Rtype, u16);

/// An RRset: TTL, and records by rdata in lower case (RFC 4034 6.2).
#[derive(Default)]
struct Rrset {
    ttl: u32,
    records: BTreeMap<Vec<u8>, Record>,
}

fn by_place(records: impl Iterator<Item = Record>) -> BTreeMap<Place, Rrset> {
    let mut rrsets: BTreeMap<Place, Rrset> = BTreeMap::new();
    for record in records {
        let covered = match (record.rtype, record.rdata.first_chunk()) {
            (Rtype::RRSIG, Some(&covered)) => u16::from_be_bytes(covered),
            _ => 0,
        };
        let rrset = rrsets.entry((record.owner.as_ref().to_canonical(), record.rtype, covered)).or_default();
        // RFC 2181 5.2: where the TTLs of an RRset differ, the lowest holds.
        rrset.ttl = if rrset.records.is_empty() { record.ttl } else { rrset.ttl.min(record.ttl) };
        let mut rdata = record.rdata.to_vec();
        rdata_lowercase(record.rtype, &mut rdata);
        rrset.records.entry(rdata).or_insert(record);
    }
    for rrset in rrsets.values_mut() {
        for record in rrset.records.values_mut() {
            record.ttl = rrset.ttl;
        }
    }
    rrsets
}

/// What leads from `old` to `new`, SOA first in each half (RFC 1995 4). An RRset whose TTL changes is deleted and
/// added whole.
pub(super) fn difference(
    old: impl Iterator<Item = Record>,
    new: impl Iterator<Item = Record>,
    serial_from: Serial,
    serial_to: Serial,
) -> Changeset {
    let (mut old, mut new) = (by_place(old), by_place(new));
    let (mut deleted, mut added) = (Vec::new(), Vec::new());
    for (place, before) in &mut old {
        let Some(after) = new.get_mut(place) else {
            deleted.extend(core::mem::take(&mut before.records).into_values());
            continue;
        };
        if before.ttl == after.ttl {
            let common: Vec<_> =
                before.records.keys().filter(|rdata| after.records.contains_key(*rdata)).cloned().collect();
            for rdata in common {
                before.records.remove(&rdata);
                after.records.remove(&rdata);
            }
        }
        deleted.extend(core::mem::take(&mut before.records).into_values());
    }
    for rrset in new.into_values() {
        added.extend(rrset.records.into_values());
    }
    for half in [&mut deleted, &mut added] {
        half.sort_by_key(|record| record.rtype != Rtype::SOA);
    }
    Changeset { serial_from: Some(serial_from), serial_to, deleted, added }
}

/// Whether a difference is in the serial alone, or in nothing.
pub(super) fn is_serial_alone(changeset: &Changeset) -> bool {
    match (changeset.deleted.as_slice(), changeset.added.as_slice()) {
        ([], []) => true,
        ([old], [new]) if old.rtype == Rtype::SOA && new.rtype == Rtype::SOA && old.ttl == new.ttl => {
            let zeroed = |rdata: &[u8]| serial::with_serial(rdata, Serial(0));
            zeroed(&old.rdata) == zeroed(&new.rdata)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(owner: &str, rtype: Rtype, ttl: u32, rdata: &[u8]) -> Record {
        Record { owner: owner.parse().unwrap(), rtype, ttl, rdata: rdata.into() }
    }

    fn soa(serial: u32) -> Record {
        let mut rdata = b"\x02ns\x01a\0\x04root\x01a\0".to_vec();
        for number in [serial, 1, 2, 3, 4] {
            rdata.extend_from_slice(&number.to_be_bytes());
        }
        record("a.", Rtype::SOA, 60, &rdata)
    }

    fn zone() -> ZoneId {
        ZoneId { view: 0, apex: "a.".parse().unwrap() }
    }

    fn diff(old: &[Record], new: &[Record]) -> Changeset {
        difference(old.iter().cloned(), new.iter().cloned(), Serial(1), Serial(2))
    }

    #[test]
    fn only_zones_are_taken() {
        assert_eq!(check(&zone(), &[soa(7)]), Ok(Serial(7)));
        assert_eq!(check(&zone(), &[]), Err(AdminError::ZoneInvalid));
        assert_eq!(check(&zone(), &[soa(1), soa(2)]), Err(AdminError::ZoneInvalid));
        let outside = record("b.", Rtype::A, 1, &[0; 4]);
        assert_eq!(check(&zone(), &[soa(7), outside]), Err(AdminError::ZoneInvalid));
    }

    #[test]
    fn a_change_of_ttl_takes_the_whole_rrset() {
        let old = [soa(1), record("x.a.", Rtype::A, 5, &[1; 4]), record("x.a.", Rtype::A, 5, &[2; 4])];
        let new = [soa(2), record("X.a.", Rtype::A, 6, &[1; 4]), record("x.a.", Rtype::A, 7, &[3; 4])];
        let changeset = diff(&old, &new);
        assert_eq!(changeset.deleted, old);
        assert_eq!(changeset.added.len(), 3);
        assert!(changeset.added[1..].iter().all(|record| record.ttl == 6));
        assert_eq!(changeset.added[0], new[0]);
    }

    #[test]
    fn case_of_names_is_no_difference() {
        let old = [soa(1), record("x.a.", Rtype::NS, 5, b"\x01n\x01a\0")];
        let new = [soa(2), record("X.A.", Rtype::NS, 5, b"\x01N\x01A\0")];
        let changeset = diff(&old, &new);
        assert!(is_serial_alone(&changeset));
        assert!(is_serial_alone(&diff(&old, &old)));
        let more = [soa(2), record("x.a.", Rtype::NS, 5, b"\x01m\x01a\0")];
        assert!(!is_serial_alone(&diff(&old, &more)));
    }

    #[test]
    fn serial_is_replaced_in_place() {
        let mut records = vec![soa(1), record("x.a.", Rtype::A, 5, &[1; 4])];
        set_serial(&mut records, Serial(9));
        assert_eq!(records[0], soa(9));
    }
}
