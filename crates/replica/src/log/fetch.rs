//! Reads entries that are no longer in memory, for members that lag. Applying never needs this.

use super::damage::{Damage, LogDamage};
use super::index::{Extents, Terms};
use super::limits::{FETCHED_RUNS_MAX, FETCHES_MAX, SECTOR_BYTES};
use super::position::LogId;
use super::record;
use super::segment::{check_position, segment_file};
use crate::disk::{ReadFile, Tickets};
use raft::eraftpb::Entry;
use std::collections::VecDeque;

/// Why entries cannot be returned immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The log begins after them; a checkpoint includes them.
    Compacted,
    /// The log ends before them.
    Unavailable,
    /// They are only on disk; [`Log::fetch`](super::Log::fetch) reads them (raft: `LogTemporarilyUnavailable`).
    NotInMemory,
}

/// The result of [`Log::fetch`](super::Log::fetch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// Execute this read and call [`Log::fetched`](super::Log::fetched).
    Read(ReadFile),
    /// A read in progress will bring the entries; its ticket.
    UnderWay(u64),
    /// They are in memory: ask [`Log::entries`](super::Log::entries) again.
    InMemory,
    /// Too many reads are in progress: ask again when one of them is done.
    Busy,
}

/// Entries that a read loaded into memory. They stay for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Index of the first.
    pub first: u64,
    /// Number of entries; 0 if the log moved on meanwhile.
    pub count: usize,
}

/// Reads in progress, and entries loaded by earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    under_way: Vec<UnderWay>,
    runs: VecDeque<Vec<Entry>>,
}

#[derive(Debug)]
struct UnderWay {
    ticket: u64,
    first: u64,
    last: u64,
    segment: u64,
    offset: u64,
    len: u64,
}

impl Fetches {
    /// Whether a segment is being read.
    pub(crate) fn is_reading(&self, segment: u64) -> bool {
        self.under_way.iter().any(|read| read.segment == segment)
    }

    /// The entries from `low` on that were read.
    pub(crate) fn run_from(&self, low: u64) -> Option<impl Iterator<Item = &Entry>> {
        let holds = |run: &&Vec<Entry>| run[0].index <= low && low - run[0].index < run.len() as u64;
        let run = self.runs.iter().rev().find(holds)?;
        Some(run[(low - run[0].index) as usize..].iter())
    }

    /// Drops the entries that were read.
    pub(crate) fn forget(&mut self) {
        self.runs.clear();
    }

    /// Begins a read of entries from `low` on, towards `high`: one span of a segment. It has at most `bytes_max` bytes,
    /// or a single extent that is larger. The log is durable up to `durable_end`, a segment and an offset.
    pub(crate) fn begin(
        &mut self,
        (low, high): (u64, u64),
        extents: &Extents,
        bytes_max: u64,
        durable_end: (u64, u64),
        tickets: &mut Tickets,
    ) -> Result<Fetch, ReadError> {
        if let Some(read) = self.under_way.iter().find(|read| (read.first..=read.last).contains(&low)) {
            return Ok(Fetch::UnderWay(read.ticket));
        }
        if self.under_way.len() >= FETCHES_MAX {
            return Ok(Fetch::Busy);
        }
        let mut extents = extents.from(low);
        let start = *extents.next().ok_or(ReadError::Unavailable)?;
        let (mut end, mut last) = (start.end(), start.last);
        for extent in extents.take_while(|extent| extent.segment == start.segment && extent.first < high) {
            if extent.end() - start.offset > bytes_max {
                break;
            }
            (end, last) = (extent.end(), extent.last);
        }
        let (durable_segment, durable_offset) = durable_end;
        if start.segment == durable_segment {
            end = end.min(durable_offset);
        }
        let (ticket, len) = (tickets.draw(), end.saturating_sub(start.offset));
        self.under_way.push(UnderWay { ticket, first: low, last, segment: start.segment, offset: start.offset, len });
        let file = segment_file(start.segment);
        Ok(Fetch::Read(ReadFile { ticket, file, offset: start.offset, len: len as usize }))
    }

    /// Takes the bytes of a read and keeps the entries that the log still holds, by its terms. `None` when the ticket
    /// is not the log's.
    pub(crate) fn take(
        &mut self,
        ticket: u64,
        bytes: &[u8],
        id: LogId,
        terms: &Terms,
    ) -> Result<Option<Fetched>, LogDamage> {
        let Some(position) = self.under_way.iter().position(|read| read.ticket == ticket) else {
            return Ok(None);
        };
        let read = self.under_way.swap_remove(position);
        if bytes.len() as u64 != read.len {
            let file = segment_file(read.segment);
            return Err(LogDamage { file, offset: read.offset, what: Damage::Short });
        }
        let entries = decode_span(bytes, id, read.segment, read.offset)?;
        // A log that was installed or compacted meanwhile no longer has them. Index and term identify an entry.
        let run: Vec<Entry> = entries
            .into_iter()
            .skip_while(|entry| entry.index < read.first.max(terms.base().index + 1))
            .take_while(|entry| terms.term(entry.index) == Some(entry.term))
            .collect();
        let fetched = Fetched { first: run.first().map_or(read.first, |entry| entry.index), count: run.len() };
        if !run.is_empty() {
            if self.runs.len() >= FETCHED_RUNS_MAX {
                self.runs.pop_front();
            }
            self.runs.push_back(run);
        }
        Ok(Some(fetched))
    }
}

/// The entries of adjacent records. A later record replaces entries that it overlaps.
pub(crate) fn decode_span(bytes: &[u8], id: LogId, segment: u64, offset: u64) -> Result<Vec<Entry>, LogDamage> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let here = offset + at as u64;
        let damage = |what: Damage| LogDamage { file: segment_file(segment), offset: here, what };
        let sector = bytes.get(at..at + SECTOR_BYTES).ok_or_else(|| damage(Damage::Short))?;
        let header = record::decode_header(sector).map_err(damage)?;
        check_position(&header, id, segment, here as usize).map_err(damage)?;
        let whole = bytes[at..].get(..header.disk_bytes() as usize).ok_or_else(|| damage(Damage::Short))?;
        if !record::body_is_intact(&header, whole) {
            return Err(damage(Damage::Body));
        }
        if header.cleared {
            entries.clear();
        }
        if header.entry_count > 0 {
            let kept = entries.first().map_or(0, |entry| header.first.saturating_sub(entry.index)) as usize;
            entries.truncate(kept);
        }
        record::for_each_entry(&header, whole, |parts| entries.push(parts.to_entry())).map_err(damage)?;
        at += whole.len();
    }
    Ok(entries)
}
