//! Contents of a zone that an administrator brings: are they a zone, what differs from what is there, and which
//! serial may they have.
//!
//! All that costs time with the size of a zone happens here, on the thread of the caller: a replica that thought for
//! a second would lose its leadership.

use super::difference::{difference, sort};
use crate::io::AdminError;
use crate::limits::{IMPORT_CHUNK_OCTETS_MAX, IMPORT_CHUNKS_MAX};
use crate::update::serial;
use std::collections::VecDeque;
use wire::number::{Rtype, Serial};
use zone::{Changeset, Record, Zone, ZoneId};

/// All records of a zone, checked and cut into chunks.
#[derive(Clone, Debug)]
pub struct Contents {
    chunks: VecDeque<Vec<Record>>,
    serial: Serial,
}

impl Contents {
    /// Checks that these records are the contents of the zone: one SOA, at the apex, and no owner outside.
    ///
    /// # Errors
    /// [`AdminError::ZoneInvalid`], [`AdminError::TooLarge`].
    pub fn new(zone: &ZoneId, mut records: Vec<Record>) -> Result<Self, AdminError> {
        let serial = check(zone, &records)?;
        sort(&mut records);
        Self::sorted(records, serial)
    }

    /// Cuts contents that are checked and sorted into chunks.
    fn sorted(records: Vec<Record>, serial: Serial) -> Result<Self, AdminError> {
        let chunks = into_chunks(records);
        if chunks.len() > IMPORT_CHUNKS_MAX as usize {
            return Err(AdminError::TooLarge);
        }
        Ok(Self { chunks, serial })
    }

    /// The serial of the SOA.
    #[must_use]
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// Number of chunks.
    pub(super) fn chunk_count(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// Takes the next chunk.
    pub(super) fn pop_chunk(&mut self) -> Option<Vec<Record>> {
        self.chunks.pop_front()
    }

    /// Gives the SOA another serial.
    pub(super) fn set_serial(&mut self, to: Serial) {
        self.serial = to;
        let has_soa = |chunk: &&mut Vec<Record>| chunk.iter().any(|record| record.rtype == Rtype::SOA);
        // Sorted by owner, the apex comes first.
        if let Some(chunk) = self.chunks.iter_mut().find(has_soa) {
            set_serial(chunk, to);
        }
    }
}

/// New contents for a zone, compared with the version that they replace.
#[derive(Clone, Debug)]
pub struct Replacement {
    base_hash: u128,
    kind: ReplacementKind,
}

#[derive(Clone, Debug)]
pub(super) enum ReplacementKind {
    /// They are what is there.
    Unchanged,
    /// A difference of one entry.
    Change(Changeset),
    /// Too much for one entry.
    Whole(Contents),
}

impl Replacement {
    /// Compares the records of one zone with what it holds. A serial that is not newer than that of the zone goes one
    /// step on from there, so that no server sees one go back; where nothing else differs, nothing changes.
    ///
    /// # Errors
    /// [`AdminError::ZoneInvalid`], [`AdminError::TooLarge`].
    pub fn new(old: &Zone<'_>, mut records: Vec<Record>) -> Result<Self, AdminError> {
        let (id, base_hash) = (old.id(), old.hash());
        let serial = check(&id, &records)?;
        let old_serial = old.serial().unwrap_or(Serial(0));
        let serial_to = if serial.is_newer_than(old_serial) { serial } else { old_serial.next() };
        set_serial(&mut records, serial_to);
        sort(&mut records);
        let kind = match difference(old.records(), &records, (old_serial, serial_to), IMPORT_CHUNK_OCTETS_MAX) {
            Some(changeset) if is_serial_alone(&changeset) && serial != serial_to => ReplacementKind::Unchanged,
            Some(changeset) => ReplacementKind::Change(changeset),
            None => ReplacementKind::Whole(Contents::sorted(records, serial_to)?),
        };
        Ok(Self { base_hash, kind })
    }

    /// Whether nothing differs.
    #[must_use]
    pub const fn is_unchanged(&self) -> bool {
        matches!(self.kind, ReplacementKind::Unchanged)
    }

    /// Hash of the contents that it was compared with; other contents by then refuse it.
    #[must_use]
    pub const fn base_hash(&self) -> u128 {
        self.base_hash
    }

    pub(super) fn into_kind(self) -> ReplacementKind {
        self.kind
    }
}

/// Octets that a record takes in a chunk.
pub(super) fn record_octets(record: &Record) -> usize {
    record.owner.octets().len() + 8 + record.rdata.len()
}

/// Cuts records into chunks; sorted by owner, each of them is written once.
fn into_chunks(records: Vec<Record>) -> VecDeque<Vec<Record>> {
    let mut chunks = VecDeque::new();
    let (mut chunk, mut octets) = (Vec::new(), 0);
    for record in records {
        let more = record_octets(&record);
        if octets + more > IMPORT_CHUNK_OCTETS_MAX && !chunk.is_empty() {
            chunks.push_back(core::mem::take(&mut chunk));
            octets = 0;
        }
        octets += more;
        chunk.push(record);
    }
    if !chunk.is_empty() {
        chunks.push_back(chunk);
    }
    chunks
}

/// The serial of contents that are a zone.
fn check(zone: &ZoneId, records: &[Record]) -> Result<Serial, AdminError> {
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
fn set_serial(records: &mut [Record], to: Serial) {
    for record in records.iter_mut().filter(|record| record.rtype == Rtype::SOA) {
        if let Some(rdata) = serial::with_serial(&record.rdata, to) {
            record.rdata = rdata;
        }
    }
}

/// Whether a difference is in the serial alone, or in nothing.
fn is_serial_alone(changeset: &Changeset) -> bool {
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
        let old = old.iter().map(|Record { owner, rtype, ttl, rdata }| {
            let (owner, rtype, ttl) = (owner.as_ref(), *rtype, *ttl);
            zone::set::RecordRef { owner, rtype, ttl, rdata }
        });
        difference(old, new, (Serial(1), Serial(2)), usize::MAX).unwrap()
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
