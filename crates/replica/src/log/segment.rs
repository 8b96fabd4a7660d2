//! Segments: names, and reading a segment from its start to its last record.

use super::damage::{Damage, LogDamage, OpenError, TornRecord};
use super::limits::SECTOR_BYTES;
use super::position::{LogId, Position};
use super::record::{self, Header, Padding};
use crate::disk::DiskRead;

const SEGMENT_PREFIX: &str = "log-";
const SPARE_PREFIX: &str = "spare-";

/// Name of a segment.
pub(crate) fn segment_file(number: u64) -> String {
    format!("{SEGMENT_PREFIX}{number:016x}")
}

/// Number of the segment with this name.
pub(crate) fn segment_number(file: &str) -> Option<u64> {
    number_after(SEGMENT_PREFIX, file)
}

/// Name of a zeroed spare segment.
pub(crate) fn spare_file(number: u64) -> String {
    format!("{SPARE_PREFIX}{number:016x}")
}

/// Number of the spare with this name.
pub(crate) fn spare_number(file: &str) -> Option<u64> {
    number_after(SPARE_PREFIX, file)
}

/// Whether this is the name of a spare segment file. Such a file holds nothing that is needed.
#[must_use]
pub fn is_spare(file: &str) -> bool {
    spare_number(file).is_some()
}

fn number_after(prefix: &str, file: &str) -> Option<u64> {
    let digits = file.strip_prefix(prefix)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The records of one segment.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) records: Vec<Header>,
    /// Offset of the next record.
    pub(crate) end: u64,
    /// What is known about an incomplete record at `end`, if there is one.
    pub(crate) torn: Option<TornRecord>,
    /// The whole segment, as it was read.
    pub(crate) bytes: Vec<u8>,
}

/// Reads a whole segment, calls `each` with every record, and distinguishes a torn last record from damage.
///
/// # Errors
/// [`OpenError::Damage`] or [`OpenError::Disk`].
pub(crate) fn scan(
    disk: &dyn DiskRead,
    id: LogId,
    number: u64,
    bytes: u64,
    mut each: impl FnMut(&Header, &[u8]) -> Result<(), Damage>,
) -> Result<Scan, OpenError> {
    let file = segment_file(number);
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    let data = disk.read(&file, 0, len)?;
    let damage = |offset: usize, what: Damage| LogDamage { file: file.clone(), offset: offset as u64, what };
    if data.len() != len {
        return Err(damage(data.len(), Damage::Short).into());
    }
    let mut records: Vec<Header> = Vec::new();
    let mut at = 0;
    let torn = loop {
        let Some(sector) = data.get(at..at + SECTOR_BYTES) else { break None };
        if record::is_unwritten(sector) {
            if let Some(record) = sealed_at(&data, id, number, at, records.last()) {
                break Some(record);
            }
            break torn_at(&data, id, number, at, None).map_err(|what| damage(at, what))?;
        }
        let header = record::decode_header(sector).map_err(|what| damage(at, what))?;
        check_position(&header, id, number, at).map_err(|what| damage(at, what))?;
        let end = at.saturating_add(usize::try_from(header.disk_bytes()).unwrap_or(usize::MAX));
        let whole = data.get(at..end).ok_or_else(|| damage(at, Damage::Short))?;
        if !record::body_is_intact(&header, whole) {
            if !record::has_unwritten_sector(whole) {
                return Err(damage(at, Damage::Body).into());
            }
            break torn_at(&data, id, number, at, Some(&header)).map_err(|what| damage(at, what))?;
        }
        if let Some(previous) = records.last() {
            check_chain(previous, &header).map_err(|what| damage(at, what))?;
        }
        each(&header, whole).map_err(|what| damage(at, what))?;
        records.push(header);
        at = end;
    };
    Ok(Scan { records, end: at as u64, torn, bytes: data })
}

/// Whether the record belongs to this log and is at its own position.
pub(crate) fn check_position(header: &Header, id: LogId, number: u64, at: usize) -> Result<(), Damage> {
    if header.id != id {
        return Err(Damage::Foreign);
    }
    if (header.segment, header.offset) != (number, at as u64) {
        return Err(Damage::Chain);
    }
    Ok(())
}

/// Whether one record was written directly after the other.
pub(crate) fn check_chain(previous: &Header, header: &Header) -> Result<(), Damage> {
    let follows = header.number == previous.number + 1 && header.previous_crc == previous.header_crc;
    let (old, new) = (&previous.hard_state, &header.hard_state);
    let is_vote_kept = old.term < new.term || old.term == new.term && (old.vote == 0 || old.vote == new.vote);
    if !follows {
        Err(Damage::Chain)
    } else if !is_vote_kept || new.commit < old.commit || header.oldest_segment < previous.oldest_segment {
        Err(Damage::Contradiction)
    } else {
        Ok(())
    }
}

/// Returns the one-sector record that is missing at `at`, if its seal comes next and nothing follows the seal. Only
/// older software writes seals that do not say which write they belong to.
fn sealed_at(bytes: &[u8], id: LogId, number: u64, at: usize, previous: Option<&Header>) -> Option<TornRecord> {
    let (seal_at, end) = (at + SECTOR_BYTES, at + 2 * SECTOR_BYTES);
    let sector = bytes.get(seal_at..end)?;
    let seal = record::decode_header(sector).ok()?;
    let is_seal = check_position(&seal, id, number, seal_at).is_ok()
        && (seal.entry_count, seal.cleared) == (0, false)
        && Padding::of(&seal, sector).is_none()
        && seal.number == previous?.number + 2;
    let is_last = bytes[end..].chunks(SECTOR_BYTES).all(record::is_unwritten);
    let last = Position { index: seal.last, term: seal.hard_state.term };
    (is_seal && is_last).then_some(TornRecord::Entries { last })
}

/// Describes the torn record at `at`. Its header may be readable. `None` when nothing was written there.
///
/// Only one write is in progress at a time. So a valid record after an apparently torn one means that the torn one was
/// synced and later lost. The exception is a valid record that is padding of the same write.
fn torn_at(
    bytes: &[u8],
    id: LogId,
    number: u64,
    at: usize,
    header: Option<&Header>,
) -> Result<Option<TornRecord>, Damage> {
    let mut is_written = false;
    let mut padding = None;
    for (count, sector) in bytes[at..].chunks(SECTOR_BYTES).enumerate() {
        let offset = at + count * SECTOR_BYTES;
        if record::is_unwritten(sector) {
            continue;
        }
        is_written = true;
        let Ok(found) = record::decode_header(sector) else { continue };
        if offset == at || check_position(&found, id, number, offset).is_err() || planted!(TailCutBeforeValidRecords) {
            continue;
        }
        let of_this_write = Padding::of(&found, sector).filter(|padding| padding.start <= at as u64);
        padding = Some((of_this_write.ok_or(Damage::Header)?, found));
    }
    let torn = match (header, padding) {
        (Some(header), _) if header.entry_count == 0 && !header.cleared => TornRecord::Empty,
        (Some(header), _) => TornRecord::Entries { last: last_of(header) },
        (None, None) => TornRecord::Unknown,
        // The missing record is the first one of the write, or padding after it.
        (None, Some((padding, found))) if padding.start == at as u64 && padding.is_essential => {
            TornRecord::Entries { last: last_of(&found) }
        }
        (None, Some(_)) => TornRecord::Empty,
    };
    Ok(is_written.then_some(torn))
}

const fn last_of(header: &Header) -> Position {
    Position { index: header.last, term: header.hard_state.term }
}
