//! Reading entries back that are no longer in memory: for members that lag. Apply never comes here.

use super::damage::{Damage, LogDamage};
use super::limits::{FETCHED_RUNS_MAX, FETCHES_MAX, SECTOR_BYTES};
use super::segment::{check_position, segment_file};
use super::{Log, LogId, ReadError, record};
use crate::disk::{ReadFile, Tickets};
use raft::eraftpb::Entry;
use std::collections::VecDeque;

/// What [`Log::fetch`] has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetch {
    /// Have this read and call [`Log::fetched`].
    Read(ReadFile),
    /// A read that is under way brings the entries; its ticket.
    UnderWay(u64),
    /// They are in memory: ask [`Log::entries`] again.
    InMemory,
    /// Too many reads are under way: ask again when one of them is done.
    Busy,
}

/// Entries that a read loaded into memory. They stay for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Index of the first.
    pub first: u64,
    /// How many; 0 when the log moved on meanwhile.
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

    /// Entries from `low` on that were read.
    pub(crate) fn run_from(&self, low: u64) -> Option<impl Iterator<Item = &Entry>> {
        let holds = |run: &&Vec<Entry>| run[0].index <= low && low - run[0].index < run.len() as u64;
        let run = self.runs.iter().rev().find(holds)?;
        Some(run[(low - run[0].index) as usize..].iter())
    }

    /// Forgets what was read.
    pub(crate) fn forget(&mut self) {
        self.runs.clear();
    }
}

impl Log {
    /// Has entries from `low` on, towards `high`, read from disk.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] or [`ReadError::Unavailable`] when the log does not hold them.
    pub fn fetch(&mut self, low: u64, high: u64, tickets: &mut Tickets) -> Result<Fetch, ReadError> {
        match self.entries(low, high, 0) {
            Ok(_) => return Ok(Fetch::InMemory),
            Err(ReadError::NotInMemory) => {}
            Err(error) => return Err(error),
        }
        if let Some(read) = self.fetches.under_way.iter().find(|read| (read.first..=read.last).contains(&low)) {
            return Ok(Fetch::UnderWay(read.ticket));
        }
        if self.fetches.under_way.len() >= FETCHES_MAX {
            return Ok(Fetch::Busy);
        }
        let mut extents = self.extents.from(low);
        let start = *extents.next().ok_or(ReadError::Unavailable)?;
        let (mut end, mut last) = (start.end(), start.last);
        for extent in extents.take_while(|extent| extent.segment == start.segment && extent.first < high) {
            if extent.end() - start.offset > self.config.fetch_bytes {
                break;
            }
            (end, last) = (extent.end(), extent.last);
        }
        let (durable_segment, durable_offset) = self.writer.durable_end();
        if start.segment == durable_segment {
            end = end.min(durable_offset);
        }
        let (ticket, len) = (tickets.draw(), end.saturating_sub(start.offset));
        let read = UnderWay { ticket, first: low, last, segment: start.segment, offset: start.offset, len };
        self.fetches.under_way.push(read);
        let file = segment_file(start.segment);
        Ok(Fetch::Read(ReadFile { ticket, file, offset: start.offset, len: len as usize }))
    }

    /// Takes the bytes of a read; `None` when the ticket is not the log's.
    ///
    /// # Errors
    /// [`LogDamage`]: what was read is not what was written. Quarantine.
    pub fn fetched(&mut self, ticket: u64, bytes: &[u8]) -> Result<Option<Fetched>, LogDamage> {
        let Some(position) = self.fetches.under_way.iter().position(|read| read.ticket == ticket) else {
            return Ok(None);
        };
        let read = self.fetches.under_way.swap_remove(position);
        if bytes.len() as u64 != read.len {
            let file = segment_file(read.segment);
            return Err(LogDamage { file, offset: read.offset, what: Damage::Short });
        }
        let entries = decode_span(bytes, self.id(), read.segment, read.offset)?;
        // A log that was installed or compacted meanwhile no longer has them; index and term say which entry it is.
        let run: Vec<Entry> = entries
            .into_iter()
            .skip_while(|entry| entry.index < read.first.max(self.first_index()))
            .take_while(|entry| self.terms.term(entry.index) == Some(entry.term))
            .collect();
        let fetched = Fetched { first: run.first().map_or(read.first, |entry| entry.index), count: run.len() };
        if !run.is_empty() {
            if self.fetches.runs.len() >= FETCHED_RUNS_MAX {
                self.fetches.runs.pop_front();
            }
            self.fetches.runs.push_back(run);
        }
        Ok(Some(fetched))
    }
}

/// The entries of adjacent records: a later record voids what it overlaps.
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
