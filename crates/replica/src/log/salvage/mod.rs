//! The intact part of a damaged log: which entries are intact, which are missing, and which entries of another member
//! may replace them.
//!
//! ```text
//!   examine -> wants -> (ask members) -> take, until nothing is missing -> rewrite -> Log::open
//! ```
//!
//! **Which entries of another member are accepted.** One of these conditions must hold:
//!
//! - The other log has the first entry after the gap, with the same index and term. Two logs that share an entry are
//!   identical up to it (log matching, raft paper 5.3).
//! - The entry is committed, and this log knows that too. All members have the same committed entries (state machine
//!   safety, raft paper 5.4.3).
//! - The entry is committed, and this log has nothing after the gap. The part before the gap is committed or is in the
//!   other log too. Then the log continues as if a leader had sent the entry.
//! - The header of the damaged record is intact, and the entries match its checksum of the body.
//!
//! Entries after the last committed one may be on no other member. If no member can help, the log ends before the
//! gap, and the member starts with a [`SuspectedLoss`]: it does not vote for a log that lacks entries which it may have
//! acknowledged.
//!
//! Term and vote are never guessed. The vote file gets them before the record does. If both the last record and one
//! copy of the vote file are damaged, the log is not repaired.

// Reads the intact part of the log.
mod survey;
// Messages between members.
mod message;
// Writes the new log.
mod rewrite;

pub use message::{EntriesRequest, EntriesResponse};
pub use rewrite::Rewrite;

use super::damage::{Damage, LogDamage, OpenError};
use super::fetch::decode_span;
use super::limits::REPAIR_BYTES_MAX;
use super::record::{self, Header, entry_bytes};
use super::segment::segment_file;
use super::vote::{OpenedVote, VOTE_FILE, VoteFile};
use super::{CheckpointRef, LogId, Position};
use crate::checkpoint::{is_checkpoint, verified};
use crate::disk::DiskRead;
use crate::io::SuspectedLoss;
use core::fmt;
use raft::eraftpb::{Entry, HardState};
use std::collections::BTreeMap;
use survey::{Found, Survey, Tail};

/// Entries of one intact record that no later record voids.
#[derive(Clone, Copy, Debug)]
struct IntactRecord {
    last: u64,
    segment: u64,
    offset: u64,
    bytes: u64,
    /// The bit of this record that is wrong on the disk.
    wrong_bit: Option<usize>,
}

/// A record with a damaged body and an intact header.
#[derive(Clone, Debug)]
struct ChecksumRecord {
    header: Header,
    /// The last of its entries that no later record replaced.
    last: u64,
}

/// The intact part of a damaged log.
#[derive(Debug)]
pub struct Salvage {
    id: LogId,
    findings: Vec<LogDamage>,
    /// The intact records, by their first entry.
    records: BTreeMap<u64, IntactRecord>,
    checksum_records: Vec<ChecksumRecord>,
    /// Entries from other members that replace missing ones.
    taken: BTreeMap<u64, Entry>,
    taken_bytes: usize,
    last_header: Header,
    /// The number after that of the last record.
    next_number: u64,
    hard_state: HardState,
    /// The last entry of the log.
    last: u64,
    newest_file: u64,
    suspected_loss: Option<SuspectedLoss>,
}

/// Why a member's answer was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The answer has no entries.
    Empty,
    /// Nothing proves that the entries are the missing ones.
    Unproven,
    /// The entries do not match the checksum of the damaged record.
    Checksum,
    /// The terms decrease, or are newer than the log.
    Terms,
    /// The missing entries exceed the memory limit.
    TooLarge,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it does not have the entries",
            Self::Unproven => "nothing proves that its entries are the missing ones",
            Self::Checksum => "its entries differ from the checksum of the damaged record",
            Self::Terms => "its entries have terms that do not fit this log",
            Self::TooLarge => "too many entries are missing",
        })
    }
}

impl Salvage {
    /// Reads the intact part of a log.
    ///
    /// # Errors
    /// [`OpenError`]: the intact part is not enough to repair the log.
    pub fn examine(disk: &dyn DiskRead) -> Result<Self, OpenError> {
        let OpenedVote { file, vote, is_copy_lost, .. } = VoteFile::open(disk, true)?;
        let id = file.id();
        let survey = Survey::of(disk, id, vote.newest_segment)?;
        let last = survey.found.last().expect("a survey has a record");
        let (last_header, next_number) = (last.header.clone(), last.next.number);
        if is_copy_lost && survey.tail != Tail::Intact {
            return Err(LogDamage { file: VOTE_FILE.into(), offset: 0, what: Damage::Vote }.into());
        }
        let hard_state = super::open::newest_vote(&last_header, vote, is_copy_lost)?;
        let suspected_loss = (survey.tail == Tail::Unknown).then_some(SuspectedLoss::of_end(hard_state.term, u64::MAX));
        let mut salvage = Self {
            id,
            findings: survey.findings,
            records: BTreeMap::new(),
            checksum_records: Vec::new(),
            taken: BTreeMap::new(),
            taken_bytes: 0,
            last: last_header.last,
            last_header,
            next_number,
            hard_state,
            newest_file: survey.newest_file,
            suspected_loss,
        };
        salvage.follow(&survey.found);
        Ok(salvage)
    }

    /// Follows the intact headers, from the oldest to the newest.
    fn follow(&mut self, found: &[Found]) {
        let mut previous: Option<&Found> = None;
        for record in found {
            let Found { header, is_whole, wrong_bit, .. } = record;
            if let Some(previous) = previous
                && header.number != previous.next.number
                && !previous.lacks_only_padding_before(header)
            {
                // The missing records may have replaced all uncommitted entries.
                self.void_from(previous.header.hard_state.commit + 1);
            }
            if header.cleared {
                self.void_from(0);
            }
            if header.entry_count > 0 {
                self.void_from(header.first);
                if *is_whole {
                    let Header { last, segment, offset, .. } = *header;
                    let (bytes, wrong_bit) = (header.disk_bytes(), *wrong_bit);
                    self.records.insert(header.first, IntactRecord { last, segment, offset, bytes, wrong_bit });
                } else {
                    self.checksum_records.push(ChecksumRecord { header: header.clone(), last: header.last });
                }
            }
            previous = Some(record);
        }
    }

    /// Voids the entry at `first` and all entries after it.
    fn void_from(&mut self, first: u64) {
        self.records.split_off(&first);
        if let Some(mut record) = self.records.last_entry() {
            let last = &mut record.get_mut().last;
            *last = (*last).min(first.saturating_sub(1));
        }
        self.checksum_records.retain(|checksum| checksum.header.first < first);
        self.checksum_records
            .iter_mut()
            .for_each(|checksum| checksum.last = checksum.last.min(first.saturating_sub(1)));
    }

    /// The damaged places.
    #[must_use]
    pub fn findings(&self) -> &[LogDamage] {
        &self.findings
    }

    /// The member and cluster that the log belongs to.
    #[must_use]
    pub const fn id(&self) -> LogId {
        self.id
    }

    /// The checkpoint that the log builds on.
    #[must_use]
    pub const fn checkpoint(&self) -> CheckpointRef {
        self.last_header.checkpoint
    }

    /// The newest intact checkpoint on the disk. It is the log's own checkpoint, if that one is intact.
    #[must_use]
    pub fn newest_checkpoint(&self, disk: &dyn DiskRead) -> Option<CheckpointRef> {
        let named = self.checkpoint();
        // A new member has no checkpoint until a leader sends one.
        if named.index == 0 {
            return Some(named);
        }
        let files = disk.list().ok()?;
        let intact = |(file, _): &(String, u64)| verified(disk, file);
        let all: Vec<CheckpointRef> = files.iter().filter(|(file, _)| is_checkpoint(file)).filter_map(intact).collect();
        all.iter().find(|found| **found == named).or_else(|| all.iter().max_by_key(|found| found.index)).copied()
    }

    /// The last entry that is known to be committed.
    #[must_use]
    pub const fn commit(&self) -> u64 {
        self.hard_state.commit
    }

    /// The last entry of the log.
    #[must_use]
    pub const fn last_index(&self) -> u64 {
        self.last
    }

    /// The entries that the repaired log may lack. The shell stores this before it writes the new log.
    #[must_use]
    pub const fn suspected_loss(&self) -> Option<SuspectedLoss> {
        self.suspected_loss
    }

    /// The questions to other members about the missing entries after a checkpoint.
    ///
    /// # Errors
    /// [`OpenError`]: the disk now returns other bytes than before.
    pub fn missing_ranges(
        &self,
        disk: &dyn DiskRead,
        checkpoint: &CheckpointRef,
    ) -> Result<Vec<EntriesRequest>, OpenError> {
        let mut missing_ranges = Vec::new();
        // The term of an uncommitted entry shows whether the log continues from a checkpoint that ends with this entry.
        let mut next = checkpoint.index + u64::from(checkpoint.index <= self.hard_state.commit);
        while next <= self.last {
            if let Some(last) = self.last_present(next) {
                next = last + 1;
                continue;
            }
            let of_record = self.records.range(next..).next().map(|(first, _)| *first);
            let of_taken = self.taken.range(next..).next().map(|(first, _)| *first);
            let next_known = of_record.into_iter().chain(of_taken).min();
            let end = next_known.map_or(self.last, |next_known| next_known - 1);
            let after = match of_record {
                Some(index) => self.position(disk, index)?,
                None => None,
            };
            // The entries of a record with its own checksum go into a separate question.
            let cut = |checksum: &ChecksumRecord| {
                [checksum.header.first - 1, checksum.last].into_iter().find(|cut| (next..end).contains(cut))
            };
            let last = self.checksum_records.iter().filter_map(cut).min().unwrap_or(end);
            let before = self.position(disk, next - 1)?;
            missing_ranges.push(EntriesRequest { first: next, last, before, after });
            next = last + 1;
        }
        Ok(missing_ranges)
    }

    /// The end of the run of known entries that starts at `index`, as far as one lookup shows.
    fn last_present(&self, index: u64) -> Option<u64> {
        if self.taken.contains_key(&index) {
            return Some(index);
        }
        let (_, record) = self.records.range(..=index).next_back()?;
        (record.last >= index).then_some(record.last)
    }

    fn position(&self, disk: &dyn DiskRead, index: u64) -> Result<Option<Position>, OpenError> {
        Ok(self.term(disk, index)?.map(|term| Position { index, term }))
    }

    /// The term of an entry that this log has.
    fn term(&self, disk: &dyn DiskRead, index: u64) -> Result<Option<u64>, OpenError> {
        if let Some(entry) = self.taken.get(&index) {
            return Ok(Some(entry.term));
        }
        let checkpoint = self.last_header.checkpoint;
        if index == checkpoint.index {
            return Ok(Some(checkpoint.term));
        }
        let entries = self.read_record(disk, index)?;
        Ok(entries.iter().find(|entry| entry.index == index).map(|entry| entry.term))
    }

    /// Returns the entries of the intact record that contains this index.
    fn read_record(&self, disk: &dyn DiskRead, index: u64) -> Result<Vec<Entry>, OpenError> {
        let Some((_, record)) = self.records.range(..=index).next_back() else { return Ok(Vec::new()) };
        if record.last < index {
            return Ok(Vec::new());
        }
        let mut bytes = disk.read(&segment_file(record.segment), record.offset, record.bytes as usize)?;
        if let Some(bit) = record.wrong_bit
            && let Some(byte) = bytes.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
        let mut entries = decode_span(&bytes, self.id, record.segment, record.offset)?;
        entries.retain(|entry| entry.index <= record.last);
        Ok(entries)
    }

    /// Answers a member's question with the intact entries of this log.
    ///
    /// # Errors
    /// [`OpenError`]: the disk now returns other bytes than before. Examine the log again.
    pub fn answer(&self, disk: &dyn DiskRead, request: &EntriesRequest) -> Result<EntriesResponse, OpenError> {
        let has = |neighbour: Option<Position>| -> Result<bool, OpenError> {
            let Some(Position { index, .. }) = neighbour else { return Ok(false) };
            Ok(self.position(disk, index)? == neighbour)
        };
        let (has_before, has_after) = (has(request.before)?, has(request.after)?);
        let mut answer = EntriesResponse { commit: self.hard_state.commit, has_before, has_after, entries: Vec::new() };
        let (mut next, mut bytes) = (request.first, 0);
        'all: while next <= request.last {
            let known = self.read_record(disk, next)?;
            if known.is_empty() {
                break;
            }
            let from = next;
            for entry in known.into_iter().filter(|entry| (from..=request.last).contains(&entry.index)) {
                if !answer.has_room(bytes, &entry) {
                    break 'all;
                }
                bytes += entry_bytes(&entry);
                next = entry.index + 1;
                answer.entries.push(entry);
            }
        }
        Ok(answer)
    }

    /// Takes the entries of an answer that are proven to be the missing ones. Returns their number.
    ///
    /// # Errors
    /// [`Refused`]: no entry was taken.
    pub fn take(&mut self, request: &EntriesRequest, answer: EntriesResponse) -> Result<usize, Refused> {
        let (entries, commit) = (&answer.entries, self.hard_state.commit);
        if entries.is_empty() {
            return Err(Refused::Empty);
        }
        // Entries taken since the question was made count too, because terms never decrease in a log.
        let taken_term = |index: u64| self.taken.get(&index).map(|entry| entry.term);
        let after = [request.after.map(|after| after.term), taken_term(request.last + 1)];
        let term_max = after.into_iter().flatten().min().unwrap_or(self.hard_state.term);
        let is_rising = entries.is_sorted_by_key(|entry| entry.term);
        let term_min = request.before.map(|before| before.term).max(taken_term(request.first - 1)).unwrap_or(0);
        if !is_rising || entries.iter().any(|entry| !(term_min..=term_max).contains(&entry.term)) {
            return Err(Refused::Terms);
        }
        let fits = self.fits_checksum(request, entries)?;
        let goes_on =
            request.after.is_none() && (request.first <= commit + 1 || (request.before.is_some() && answer.has_before));
        let committed = if goes_on { answer.commit } else { answer.commit.min(commit) };
        let is_proven = planted!(UnprovenEntriesTaken) || fits || (request.after.is_some() && answer.has_after);
        let proven: Vec<Entry> = answer
            .entries
            .into_iter()
            .zip(request.first..=request.last)
            .take_while(|(entry, index)| entry.index == *index && (is_proven || *index <= committed))
            .map(|(entry, _)| entry)
            .collect();
        if proven.is_empty() {
            return Err(Refused::Unproven);
        }
        // Members that are asked one after the other return the same entries.
        let is_new = |entry: &&Entry| !self.taken.contains_key(&entry.index);
        let bytes: usize = proven.iter().filter(is_new).map(entry_bytes).sum();
        if self.taken_bytes + bytes > REPAIR_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        self.taken_bytes += bytes;
        let count = proven.len();
        proven.into_iter().for_each(|entry| _ = self.taken.entry(entry.index).or_insert(entry));
        Ok(count)
    }

    /// Whether the question covers exactly one damaged record and the entries match its checksum.
    fn fits_checksum(&self, request: &EntriesRequest, entries: &[Entry]) -> Result<bool, Refused> {
        let is_whole = |checksum: &&ChecksumRecord| {
            (checksum.header.first, checksum.header.last) == (request.first, request.last)
                && checksum.last == checksum.header.last
                && entries.len() as u64 == u64::from(checksum.header.entry_count)
        };
        let Some(checksum) = self.checksum_records.iter().find(is_whole) else { return Ok(false) };
        let mut header = checksum.header.clone();
        record::encode(&mut header, entries.iter());
        if header == checksum.header { Ok(true) } else { Err(Refused::Checksum) }
    }

    /// Ends the log before entries that no member has. Returns whether that is possible: none of these entries is known
    /// to be committed, and the log has nothing after them. Afterwards [`Salvage::suspected_loss`] describes what the
    /// log may lack.
    pub fn give_up(&mut self, request: &EntriesRequest) -> bool {
        let is_end = request.after.is_none() && request.first > self.hard_state.commit && request.last <= self.last;
        if is_end {
            let loss = SuspectedLoss::of_end(self.hard_state.term, self.last);
            self.suspected_loss = Some(self.suspected_loss.map_or(loss, |known| known.and(loss)));
            self.last = request.first - 1;
        }
        is_end
    }

    /// Ends the log before the first missing entry after a checkpoint. Used for the last node of a cluster. Returns the
    /// first and the last lost entry.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn cut(&mut self, disk: &dyn DiskRead, checkpoint: &CheckpointRef) -> Result<Option<(u64, u64)>, OpenError> {
        let Some(request) = self.missing_ranges(disk, checkpoint)?.into_iter().next() else { return Ok(None) };
        let lost = (request.first, self.last);
        self.last = request.first - 1;
        self.hard_state.commit = self.hard_state.commit.min(self.last);
        Ok(Some(lost))
    }

    /// Calls `each` for every entry after a checkpoint, in order.
    ///
    /// # Errors
    /// [`OpenError`] when an entry is missing.
    pub fn for_each_entry(
        &self,
        disk: &dyn DiskRead,
        after: u64,
        mut each: impl FnMut(Entry),
    ) -> Result<(), OpenError> {
        let mut next = after + 1;
        while next <= self.last {
            for entry in self.run(disk, next)? {
                next = entry.index + 1;
                each(entry);
            }
        }
        Ok(())
    }

    /// Returns entries from `first` on, at least one.
    fn run(&self, disk: &dyn DiskRead, first: u64) -> Result<Vec<Entry>, OpenError> {
        if let Some(entry) = self.taken.get(&first) {
            return Ok(vec![entry.clone()]);
        }
        let mut entries = self.read_record(disk, first)?;
        entries.retain(|entry| (first..=self.last).contains(&entry.index));
        if entries.is_empty() {
            let file = segment_file(self.last_header.segment);
            return Err(LogDamage { file, offset: 0, what: Damage::Contradiction }.into());
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
