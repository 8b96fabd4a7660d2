//! Contents of a zone from an administrator: checks that they form a zone, compares them with the present version,
//! and chooses the serial.
//!
//! All work that grows with the size of a zone happens here, on the caller's thread. In the replica it would take so
//! long that the leader could lose its leadership.

use super::difference::{difference, sort};
use super::{AdminError, ZoneLimits};
use crate::limits::{IMPORT_CHUNK_BYTES, IMPORT_CHUNK_BYTES_MAX, IMPORT_CHUNKS_MAX};
use crate::update::{LimitReached, serial};
use std::collections::{BTreeMap, VecDeque};
use wire::Name;
use wire::number::{Rtype, Serial};
use zone::{Changeset, RecordList, RecordRef, Zone, ZoneId};

/// All records of a zone, checked. They are sent in chunks.
#[derive(Clone, Debug)]
pub struct Contents {
    records: RecordList,
    /// The end of each chunk that is still to be sent, and the start of the first of them.
    ends: VecDeque<usize>,
    next: usize,
    serial: Serial,
}

impl Contents {
    /// Checks that these records form the contents of the zone: one SOA, at the apex, and no owner outside the zone.
    ///
    /// # Errors
    /// [`AdminError::ZoneInvalid`], [`AdminError::TooLarge`].
    pub fn new(zone: &ZoneId, records: impl Into<RecordList>) -> Result<Self, AdminError> {
        let records = records.into();
        let serial = check(zone, &records)?;
        Self::sorted(sort(records), serial)
    }

    /// Cuts checked and sorted contents into chunks.
    fn sorted(records: RecordList, serial: Serial) -> Result<Self, AdminError> {
        let ends = chunk_ends(&records);
        if ends.len() > IMPORT_CHUNKS_MAX as usize {
            return Err(AdminError::TooLarge);
        }
        Ok(Self { records, ends, next: 0, serial })
    }

    /// The serial of the SOA.
    #[must_use]
    pub const fn serial(&self) -> Serial {
        self.serial
    }

    /// Number of chunks still to be sent.
    #[must_use]
    pub fn chunk_count(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Takes the next chunk.
    pub(crate) fn pop_chunk(&mut self) -> Option<RecordList> {
        let end = self.ends.pop_front()?;
        let chunk = self.records.slice(self.next..end);
        self.next = end;
        Some(chunk)
    }

    /// Gives the SOA another serial.
    pub(crate) fn set_serial(&mut self, to: Serial) {
        self.serial = to;
        set_serial(&mut self.records, to);
    }
}

/// New contents for a zone, compared with the version that they replace.
#[derive(Clone, Debug)]
pub struct Replacement {
    base_hash: u128,
    kind: ReplacementKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ReplacementKind {
    /// The contents are equal.
    Unchanged,
    /// The difference fits into one entry.
    Change(Changeset),
    /// The difference is too large for one entry.
    Whole(Contents),
}

impl Replacement {
    /// Compares new records with the zone. If their serial is not newer than the zone's, it becomes the zone's plus
    /// one, so no server sees a serial go back. If only the serial differs, nothing changes.
    ///
    /// # Errors
    /// [`AdminError::ZoneInvalid`], [`AdminError::TooLarge`].
    pub fn new(old: &Zone<'_>, records: impl Into<RecordList>) -> Result<Self, AdminError> {
        let mut records = records.into();
        let (id, base_hash) = (old.id(), old.hash());
        let serial = check(&id, &records)?;
        let old_serial = old.serial().unwrap_or(Serial(0));
        let serial_to = if serial.is_newer_than(old_serial) { serial } else { old_serial.next() };
        set_serial(&mut records, serial_to);
        let records = sort(records);
        let kind = match difference(old.records(), &records, (old_serial, serial_to), IMPORT_CHUNK_BYTES_MAX) {
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

    /// Hash of the contents that were compared. If the zone has other contents at commit, the change is refused.
    #[must_use]
    pub const fn base_hash(&self) -> u128 {
        self.base_hash
    }

    pub(crate) fn into_kind(self) -> ReplacementKind {
        self.kind
    }
}

/// A zone limit that new zone contents exceed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLimit {
    /// The limit.
    pub limit: LimitReached,
    /// The largest value that the zone allows.
    pub most: u32,
    /// The RRset that exceeds the limit; `None` for a limit of the whole zone.
    pub rrset: Option<(Name, Rtype)>,
}

/// Returns the first limit that the records of a whole zone exceed. It does not consider the zone's earlier contents.
#[must_use]
pub fn broken_limit(records: &RecordList, limits: ZoneLimits) -> Option<BrokenLimit> {
    let ZoneLimits { ttl_max_s, rrset_records_max, records_max } = limits;
    if records_max > 0 && records.len() > records_max as usize {
        return Some(BrokenLimit { limit: LimitReached::ZoneRecords, most: records_max, rrset: None });
    }
    let of_rrset = |limit, most, record: RecordRef<'_>| {
        Some(BrokenLimit { limit, most, rrset: Some((record.owner.to_name(), record.rtype)) })
    };
    if ttl_max_s > 0
        && let Some(record) = records.iter().find(|record| record.ttl > ttl_max_s)
    {
        return of_rrset(LimitReached::ZoneTtl, ttl_max_s, record);
    }
    if rrset_records_max > 0 {
        let mut counts: BTreeMap<(Box<[u8]>, Rtype), u32> = BTreeMap::new();
        // RRSIG records form one RRset for each type that they cover (RFC 4034 3), so they are not counted.
        for record in records.iter().filter(|record| record.rtype != Rtype::RRSIG) {
            let count = counts.entry((record.owner.as_bytes().to_ascii_lowercase().into(), record.rtype)).or_default();
            *count += 1;
            if *count > rrset_records_max {
                return of_rrset(LimitReached::ZoneRrsetRecords, rrset_records_max, record);
            }
        }
    }
    None
}

/// The end of each chunk. Records are sorted by owner, and each owner is written once.
fn chunk_ends(records: &RecordList) -> VecDeque<usize> {
    let (mut ends, mut bytes) = (VecDeque::new(), 0);
    for index in 0..records.len() {
        let more = records.bytes_of(index);
        if bytes + more > IMPORT_CHUNK_BYTES && bytes > 0 {
            ends.push_back(index);
            bytes = 0;
        }
        bytes += more;
    }
    if bytes > 0 {
        ends.push_back(records.len());
    }
    ends
}

/// Checks that the records form a zone, and returns its serial.
fn check(zone: &ZoneId, records: &RecordList) -> Result<Serial, AdminError> {
    let apex = zone.apex.as_ref();
    if records.iter().any(|record| !record.owner.is_at_or_below(apex)) {
        return Err(AdminError::ZoneInvalid);
    }
    let mut soas = records.iter().filter(|record| record.rtype == Rtype::SOA);
    match (soas.next(), soas.next()) {
        (Some(soa), None) if soa.owner == apex => serial::of_soa(soa.rdata).ok_or(AdminError::ZoneInvalid),
        _ => Err(AdminError::ZoneInvalid),
    }
}

/// Gives the SOA another serial.
fn set_serial(records: &mut RecordList, to: Serial) {
    let Some(index) = records.iter().position(|record| record.rtype == Rtype::SOA) else { return };
    if let Some(rdata) = serial::with_serial(records.get(index).rdata, to) {
        records.set_rdata(index, &rdata);
    }
}

/// Whether the difference is empty or only in the serial.
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
    use zone::Record;

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
        difference(old.iter().map(Into::into), &new.iter().collect(), (Serial(1), Serial(2)), usize::MAX).unwrap()
    }

    fn check(records: &[Record]) -> Result<Serial, AdminError> {
        super::check(&zone(), &records.iter().collect())
    }

    #[test]
    fn only_valid_zones_are_accepted() {
        assert_eq!(check(&[soa(7)]), Ok(Serial(7)));
        assert_eq!(check(&[]), Err(AdminError::ZoneInvalid));
        assert_eq!(check(&[soa(1), soa(2)]), Err(AdminError::ZoneInvalid));
        let outside = record("b.", Rtype::A, 1, &[0; 4]);
        assert_eq!(check(&[soa(7), outside]), Err(AdminError::ZoneInvalid));
    }

    #[test]
    fn import_respects_zone_limits() {
        let records: RecordList =
            [soa(7), record("x.a.", Rtype::A, 60, &[1; 4]), record("X.a.", Rtype::A, 60, &[2; 4])].iter().collect();
        let broken = |ttl_max_s, rrset_records_max, records_max| {
            broken_limit(&records, ZoneLimits { ttl_max_s, rrset_records_max, records_max })
        };
        let of = |limit, most, rrset: Option<(&str, Rtype)>| {
            let rrset = rrset.map(|(owner, rtype)| (owner.parse().unwrap(), rtype));
            Some(BrokenLimit { limit, most, rrset })
        };
        assert_eq!((broken(0, 0, 0), broken(60, 2, 3)), (None, None));
        assert_eq!(broken(59, 2, 3), of(LimitReached::ZoneTtl, 59, Some(("a.", Rtype::SOA))));
        assert_eq!(broken(60, 1, 3), of(LimitReached::ZoneRrsetRecords, 1, Some(("x.a.", Rtype::A))));
        assert_eq!(broken(60, 2, 2), of(LimitReached::ZoneRecords, 2, None));
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
        let mut records = RecordList::from(vec![soa(1), record("x.a.", Rtype::A, 5, &[1; 4])]);
        set_serial(&mut records, Serial(9));
        assert_eq!(records.get(0).to_record(), soa(9));
    }
}
