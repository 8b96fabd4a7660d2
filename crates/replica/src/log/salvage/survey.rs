//! Reads all segments of a damaged log and keeps the intact part.

use super::super::damage::{Damage, LogDamage};
use super::super::limits::{BLOCK_BYTES_MAX, SECTOR_BYTES};
use super::super::record::{self, HEADER_BYTES, Header, Padding};
use super::super::segment::{check_position, segment_file, segment_number};
use super::super::{LogId, OpenError};
use crate::disk::DiskRead;
use std::collections::BTreeMap;

/// A record whose header is intact.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) header: Header,
    /// Whether its body is intact too.
    pub(super) is_whole: bool,
    /// The one bit of the header that is wrong on the disk.
    pub(super) wrong_bit: Option<usize>,
    /// The padding of the same write is left out, as far as it is intact. This is what follows it.
    pub(super) next: Next,
}

/// What the next record says if it follows directly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) number: u64,
    previous_crc: u32,
    offset: u64,
}

impl Next {
    fn after(header: &Header) -> Self {
        let offset = header.offset.saturating_add(header.disk_bytes());
        Self { number: header.number + 1, previous_crc: header.header_crc, offset }
    }

    fn is(&self, header: &Header) -> bool {
        (header.number, header.previous_crc) == (self.number, self.previous_crc)
    }
}

/// The state of the last written record, if it is not intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// The log ends with an intact header.
    Intact,
    /// One sector cannot be read, and nothing follows. An acknowledged one-sector record with entries has a seal after
    /// it. So this record held no entries or was never acknowledged.
    NoEntries,
    /// The record may have held entries. Nothing is known about them.
    Unknown,
}

/// All readable records.
#[derive(Debug)]
pub(super) struct Survey {
    /// The records, in the order in which they were written.
    pub(super) found: Vec<Found>,
    pub(super) tail: Tail,
    pub(super) findings: Vec<LogDamage>,
    /// The highest number of a segment file.
    pub(super) newest_file: u64,
}

impl Survey {
    /// Reads the segments. `newest` is a segment that certainly held a record.
    ///
    /// # Errors
    /// [`OpenError`]: the disk cannot be read, or has records of another member, cluster or format.
    pub(super) fn of(disk: &dyn DiskRead, id: LogId, newest: u64) -> Result<Self, OpenError> {
        let files = disk.list()?;
        let segments: BTreeMap<u64, u64> =
            files.iter().filter_map(|(file, bytes)| Some((segment_number(file)?, *bytes))).collect();
        let newest_file = segments.keys().next_back().copied().unwrap_or(0).max(newest);
        let mut survey = Self { found: Vec::new(), tail: Tail::Intact, findings: Vec::new(), newest_file };
        for (number, bytes) in &segments {
            survey.segment(disk, id, *number, *bytes)?;
        }
        if survey.found.last().is_none_or(|last| last.header.segment < newest) {
            survey.tail = Tail::Unknown;
        }
        survey.forget_old();
        survey.check_order(newest)?;
        Ok(survey)
    }

    fn segment(&mut self, disk: &dyn DiskRead, id: LogId, number: u64, bytes: u64) -> Result<(), OpenError> {
        let file = segment_file(number);
        let data = disk.read(&file, 0, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let note = |at: usize, what| LogDamage { file: file.clone(), offset: at as u64, what };
        // `unreadable` counts nonzero sectors after the last intact header that begin no record. `end` is the offset of
        // the record after that header. `is_adjacent` is true if the first unreadable sector is at `end`.
        let (mut at, mut unreadable) = (0, 0);
        let (mut end, mut is_adjacent) = (0, true);
        while let Some(sector) = data.get(at..at + SECTOR_BYTES) {
            if record::is_unwritten(sector) {
                at += SECTOR_BYTES;
                continue;
            }
            let header = match record::decode_header(sector) {
                Ok(header) if header.id != id => return Err(note(at, Damage::Foreign).into()),
                Ok(header) => check_position(&header, id, number, at).ok().map(|()| (header, None)),
                Err(what @ Damage::Version(_)) => return Err(note(at, what).into()),
                Err(_) => self.corrected(&data[at..], at).map(|(header, bit)| (header, Some(bit))),
            };
            let Some((header, wrong_bit)) = header else {
                if unreadable == 0 {
                    is_adjacent = at == end;
                    self.findings.push(note(at, Damage::Header));
                }
                (at, unreadable) = (at + SECTOR_BYTES, unreadable + 1);
                continue;
            };
            let len = usize::try_from(header.disk_bytes()).unwrap_or(usize::MAX);
            let whole = data.get(at..at.saturating_add(len));
            let is_whole = whole.is_some_and(|whole| record::body_is_intact(&header, whole));
            match (is_whole, wrong_bit) {
                (false, _) => self.findings.push(note(at, Damage::Body)),
                (true, Some(_)) => self.findings.push(note(at, Damage::Header)),
                (true, None) => {}
            }
            let padding = if is_whole { Padding::of(&header, &data[at..]) } else { None };
            let next = Next::after(&header);
            match (self.found.last_mut(), padding) {
                (Some(last), Some(padding)) if last.has_padding(padding, &header) => last.next = next,
                _ => self.found.push(Found { header, is_whole, wrong_bit, next }),
            }
            end = at.saturating_add(len);
            (at, unreadable) = (end, 0);
        }
        self.tail = match unreadable {
            0 if self.found.last().is_some_and(|last| last.header.segment == number) => Tail::Intact,
            // A segment that was created but not written to yet.
            0 => self.tail,
            1 if is_adjacent => Tail::NoEntries,
            // The first sectors of a longer record may be lost and read as zeros.
            _ => Tail::Unknown,
        };
        Ok(())
    }

    /// Returns the header in the first of these sectors with one bit corrected. The result must match its checksum, the
    /// record before it, and its own body. All three never match by chance.
    fn corrected(&self, data: &[u8], at: usize) -> Option<(Header, usize)> {
        let Found { header: previous, next, .. } = self.found.last()?;
        if at != 0 && next.offset != at as u64 {
            return None;
        }
        let mut sector = data.get(..SECTOR_BYTES)?.to_vec();
        for bit in 0..(HEADER_BYTES + 1) * 8 {
            sector[bit / 8] ^= 1 << (bit % 8);
            let fits = |header: &Header| {
                let len = usize::try_from(header.disk_bytes()).unwrap_or(usize::MAX);
                let is_here = header.id == previous.id && header.offset == at as u64;
                next.is(header) && is_here && data.get(..len).is_some_and(|whole| record::body_is_intact(header, whole))
            };
            if let Some(header) = record::decode_header(&sector).ok().filter(fits) {
                return Some((header, bit));
            }
            sector[bit / 8] ^= 1 << (bit % 8);
        }
        None
    }

    /// Removes the records of segments that the log no longer needs.
    fn forget_old(&mut self) {
        let oldest = self.found.last().map_or(0, |last| last.header.oldest_segment);
        self.found.retain(|found| found.header.segment >= oldest);
        self.findings.retain(|damage| segment_number(&damage.file).is_some_and(|number| number >= oldest));
    }

    /// Checks that the intact headers do not contradict each other.
    fn check_order(&self, newest: u64) -> Result<(), OpenError> {
        let contradicts = |found: &Found| LogDamage {
            file: segment_file(found.header.segment),
            offset: found.header.offset,
            what: Damage::Contradiction,
        };
        if self.found.is_empty() {
            return Err(LogDamage { file: segment_file(newest), offset: 0, what: Damage::Missing }.into());
        }
        for pair in self.found.windows(2) {
            let (old, new) = (&pair[0].header, &pair[1].header);
            let next = pair[0].next;
            let is_in_order = (new.number > next.number || next.is(new))
                && new.hard_state.commit >= old.hard_state.commit
                && new.hard_state.term >= old.hard_state.term;
            if !is_in_order {
                return Err(contradicts(&pair[1]).into());
            }
        }
        Ok(())
    }
}

impl Found {
    /// Whether a record is padding of the same write as this one, and follows directly.
    fn has_padding(&self, padding: Padding, record: &Header) -> bool {
        let is_of_this_write = padding.start == self.header.offset && record.segment == self.header.segment;
        is_of_this_write && self.next.is(record)
    }

    /// Whether the records between this one and the next intact one are only the seal and the padding of its write. All
    /// that these say follows from this record, and the next record has the checksum of the last of them.
    pub(super) fn lacks_only_padding_before(&self, next: &Header) -> bool {
        let missing = next.number.saturating_sub(self.next.number);
        if !(1..=BLOCK_BYTES_MAX / SECTOR_BYTES as u64).contains(&missing) {
            return false;
        }
        let is_essential = self.header.entry_count > 0 || self.header.cleared;
        let padding = Padding { start: self.header.offset, is_essential };
        // Builds without padding wrote seals without a mark.
        [Some(padding), None].into_iter().any(|padding| {
            let mut last = self.next;
            for _ in 0..missing {
                let Next { number, previous_crc, offset } = last;
                let first = self.header.last + 1;
                let mut empty = Header { cleared: false, number, previous_crc, offset, first, ..self.header.clone() };
                match padding {
                    Some(padding) => _ = padding.encode(&mut empty),
                    None => _ = record::encode(&mut empty, std::iter::empty()),
                }
                last = Next::after(&empty);
            }
            last.is(next)
        })
    }
}
