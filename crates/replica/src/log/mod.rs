//! Raft's log on disk: small, checksummed and without I/O.
//!
//! Each fsync writes one record (`record.rs`) into segments of fixed size, which are zeroed before use and recycled
//! (`segment.rs`). A one-sector record is followed by a seal, an empty record that reveals a later loss of that
//! sector. On a disk with larger physical blocks, more empty records fill the last block of each write. So no write
//! shares a block with an earlier one: a power loss during a write can destroy the whole block. Entries that raft
//! appends while a record is being written go into the next record, so group commit needs no timer. Conflicting
//! entries are not cut out: a record that begins at a lower index replaces the entries that it overlaps. Term and
//! vote are in each record and in a separate file (`vote.rs`).
//!
//! **Contract of the caller**, in each round:
//! 1. [`Log::append`] (or [`Log::install`]) the contents of a `Ready`, with its number as mark. The entries can be
//!    read from then on.
//! 2. [`Log::poll_job`] until `None`, and execute the jobs. At most one job per queue is in progress.
//! 3. [`Log::persisted`] with each ticket that comes back. Pass the returned mark to raft's `on_persist_ready`:
//!    everything up to it is durable.
//! 4. [`Log::set_applied`] as entries are applied, so that memory is freed.
//!
//! After [`Log::open`], send nothing to any peer before [`Log::is_durable`]. The process that wrote the log may have
//! died before its fsync, or because the fsync failed. The first job writes the log's end again (`open.rs`).
//!
//! Damage is reported ([`LogDamage`]) and never repaired by cutting. The only exception is a last record that holds a
//! sector of zeros and is followed by no valid record. A crash during the write leaves such a record, and so does a
//! disk that later loses the sector. So the replica assumes that it may have acknowledged the entries of that record.

// Sizes and limits.
mod config;
pub mod limits;
// The log's owner, and positions in the log.
mod position;
// Kinds of damage.
mod damage;
// One record.
mod record;
// Files of records.
mod segment;
// A separate file for term and vote.
mod vote;
// Disk positions of entries.
mod index;
// The newest entries, in memory.
mod tail;
// The write position.
mod writer;
// The next write.
mod next_record;
// Zeroed spare segments.
mod preallocate;
// Reads older entries.
mod fetch;
// Reads the log at start.
mod open;
// Searches for damage while the log is in use.
mod check;
// The intact part of a damaged log, and the entries that members can replace.
mod salvage;

pub(crate) use check::check_file;
pub use config::LogConfig;
pub use damage::{Damage, LogDamage, OpenError, Repair, TornRecord};
pub use fetch::{Fetch, Fetched, ReadError};
pub use position::{LogId, Position};
pub use salvage::{EntriesRequest, EntriesResponse, Refused, Rewrite, Salvage};
pub use segment::is_spare;

pub use crate::checkpoint::CheckpointRef;
use crate::disk::{DiskJob, Tickets};
use fetch::Fetches;
use index::{Extents, Terms};
use limits::{CHECKPOINT_DOUBLINGS_MAX, ENTRY_BYTES_MAX, SEGMENT_KEPT_SHARE};
use preallocate::SegmentPreallocator;
use raft::eraftpb::{Entry, EntryType, HardState};
use record::entry_bytes;
use tail::Tail;
use writer::Writer;

/// The log of one member.
#[derive(Debug)]
pub struct Log {
    config: LogConfig,
    hard_state: HardState,
    checkpoint: CheckpointRef,
    contact_wall_ms: u64,
    applied: u64,
    terms: Terms,
    extents: Extents,
    tail: Tail,
    writer: Writer,
    preallocator: SegmentPreallocator,
    fetches: Fetches,
}

/// The result of [`Log::persisted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persisted {
    /// A record. Everything up to this mark is durable, if a mark was reached.
    Record(Option<u64>),
    /// Housekeeping of the log on the bulk queue.
    Housekeeping,
    /// The ticket is not the log's.
    NotOurs,
}

impl Log {
    /// A new log after a checkpoint, for a member without one. The first job creates its files, and the log exists
    /// once that job is done. Existing log files are left alone, so the directory should hold none.
    pub fn create(id: LogId, checkpoint: CheckpointRef, config: LogConfig) -> Self {
        let base = Position::of_checkpoint(&checkpoint);
        let hard_state = HardState { term: base.term, commit: base.index, ..HardState::default() };
        Self {
            hard_state,
            checkpoint,
            contact_wall_ms: 0,
            applied: base.index,
            terms: Terms::new(base),
            extents: Extents::default(),
            tail: Tail::new(base.index + 1, config.tail_bytes),
            writer: Writer::create(id, base.index),
            preallocator: SegmentPreallocator::new(config.segment_bytes),
            fetches: Fetches::default(),
            config,
        }
    }

    /// Identity of the log's owner.
    pub fn id(&self) -> LogId {
        self.writer.id()
    }

    /// Term, vote and commit index as last set. Directly after [`Log::open`] they are durable.
    pub fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    /// The newest checkpoint that the log refers to.
    pub fn checkpoint(&self) -> CheckpointRef {
        self.checkpoint
    }

    /// Wall time of the last recorded contact with a leader, in milliseconds since 1970.
    pub fn contact_wall_ms(&self) -> u64 {
        self.contact_wall_ms
    }

    /// Sets the wall time of a contact with a leader. The next record carries it.
    pub fn set_contact_wall_ms(&mut self, wall_ms: u64) {
        self.contact_wall_ms = wall_ms;
    }

    /// Index of the first entry that the log still holds.
    pub fn first_index(&self) -> u64 {
        self.terms.base().index + 1
    }

    /// Index of the last entry; if the log is empty, the index before its first entry.
    pub fn last_index(&self) -> u64 {
        self.terms.last()
    }

    /// Index of the last entry that is committed or not empty. A leader begins its term with an empty entry, which
    /// changes nothing whether committed or not.
    pub fn last_known_index(&self) -> u64 {
        let is_empty = |index| {
            let found = self.entries(index, index + 1, u64::MAX);
            found.is_ok_and(|found| {
                found.iter().all(|entry| entry.data.is_empty() && entry.entry_type == EntryType::EntryNormal)
            })
        };
        let mut last = self.last_index();
        while last > self.hard_state.commit && is_empty(last) {
            last -= 1;
        }
        last
    }

    /// Index of the last durable entry.
    pub fn durable_index(&self) -> u64 {
        self.writer.durable()
    }

    /// Whether everything read by [`Log::open`] is known to be on stable storage: the first job is done.
    pub fn is_durable(&self) -> bool {
        self.writer.is_started()
    }

    /// Term of the entry at `index`, which is at least [`Log::first_index`] - 1.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] or [`ReadError::Unavailable`].
    pub fn term(&self, index: u64) -> Result<u64, ReadError> {
        if index < self.terms.base().index {
            return Err(ReadError::Compacted);
        }
        self.terms.term(index).ok_or(ReadError::Unavailable)
    }

    /// Entries from `low` to before `high`: at least one, at most `bytes_max` bytes, and fewer if not all are in
    /// memory.
    ///
    /// # Errors
    /// [`ReadError`], also if the first entry is not in memory.
    pub fn entries(&self, low: u64, high: u64, bytes_max: u64) -> Result<Vec<Entry>, ReadError> {
        if low < self.first_index() {
            return Err(ReadError::Compacted);
        }
        if high > self.last_index() + 1 {
            return Err(ReadError::Unavailable);
        }
        if low >= high {
            return Ok(Vec::new());
        }
        if low >= self.tail.first() {
            return Ok(take_bytes(self.tail.range(low, high), bytes_max));
        }
        let fetched = self.fetches.run_from(low).ok_or(ReadError::NotInMemory)?;
        Ok(take_bytes(fetched.take_while(|entry| entry.index < high), bytes_max))
    }

    /// Requests entries from `low` on, towards `high`, from disk.
    ///
    /// # Errors
    /// [`ReadError::Compacted`] or [`ReadError::Unavailable`] when the log does not hold them.
    pub fn fetch(&mut self, low: u64, high: u64, tickets: &mut Tickets) -> Result<Fetch, ReadError> {
        match self.entries(low, high, 0) {
            Ok(_) => return Ok(Fetch::InMemory),
            Err(ReadError::NotInMemory) => {}
            Err(error) => return Err(error),
        }
        let (bytes_max, durable_end) = (self.config.fetch_bytes, self.writer.durable_end());
        self.fetches.begin((low, high), &self.extents, bytes_max, durable_end, tickets)
    }

    /// Takes the bytes of a read; `None` when the ticket is not the log's.
    ///
    /// # Errors
    /// [`LogDamage`] if the bytes differ from what was written. The member goes into quarantine.
    pub fn fetched(&mut self, ticket: u64, bytes: &[u8]) -> Result<Option<Fetched>, LogDamage> {
        let id = self.id();
        self.fetches.take(ticket, bytes, id, &self.terms)
    }

    /// Adds the entries of a `Ready` and its `HardState`, if that changed. The entries begin at or before the end of
    /// the log and replace those that they overlap. [`Log::persisted`] returns `mark` once all of it is durable;
    /// marks increase.
    ///
    /// # Panics
    /// If the entries leave a gap or replace an entry that a checkpoint contains. Raft does neither.
    pub fn append(&mut self, entries: Vec<Entry>, hard_state: Option<&HardState>, mark: u64) {
        self.set_hard_state(hard_state);
        if let Some(first) = entries.first().map(|entry| entry.index) {
            assert!(first > self.terms.base().index, "entry {first} is in a checkpoint");
            assert!(first <= self.last_index() + 1, "a hole before entry {first}");
            if first <= self.last_index() {
                self.terms.truncate(first);
                self.extents.truncate(first);
                self.tail.truncate(first);
                self.writer.truncate(first);
            }
        }
        for entry in entries {
            assert_eq!(entry.index, self.last_index() + 1, "entries follow each other");
            assert!(entry.data.len() + entry.context.len() <= ENTRY_BYTES_MAX, "the proposer bounds entries");
            self.terms.push(entry.term);
            self.tail.push(entry);
        }
        if planted!(EntriesLeaveMemoryEarly) {
            self.tail.release(u64::MAX);
        }
        self.writer.mark(mark, self.last_index());
    }

    /// Sets the commit index. The next record carries it; raft does not require it to be durable.
    pub fn set_commit(&mut self, commit: u64) {
        self.hard_state.commit = self.hard_state.commit.max(commit);
    }

    /// Requests a record although nothing was appended: before a stop, so that the commit index is not lost.
    pub fn touch(&mut self) {
        self.writer.touch();
    }

    /// Restarts the log after a durable checkpoint from a leader: one record voids everything before and sets the
    /// commit index. `mark` is as in [`Log::append`].
    pub fn install(&mut self, checkpoint: CheckpointRef, hard_state: Option<&HardState>, mark: u64) {
        self.set_hard_state(hard_state);
        let base = Position::of_checkpoint(&checkpoint);
        self.checkpoint = checkpoint;
        self.set_commit(base.index);
        if self.hard_state.term < base.term {
            (self.hard_state.term, self.hard_state.vote) = (base.term, 0);
        }
        self.applied = base.index;
        self.terms = Terms::new(base);
        self.extents.clear();
        self.tail = Tail::new(base.index + 1, self.config.tail_bytes);
        self.fetches.forget();
        self.writer.clear(base.index);
        self.writer.mark(mark, base.index);
    }

    /// Refers to a durable checkpoint of this member. The next record carries the reference. Older checkpoint files
    /// may be removed once a record polled after this call is durable.
    ///
    /// Entries in the checkpoint leave memory. A member that still needs them was away since before it began, and
    /// gets them from disk.
    pub fn checkpointed(&mut self, checkpoint: CheckpointRef) {
        if checkpoint.index >= self.checkpoint.index {
            self.checkpoint = checkpoint;
            self.tail.compact(checkpoint.index);
            self.writer.touch();
        }
    }

    /// Drops the entries up to `index`. Their segments are recycled once a record that says so is durable. Only
    /// entries that are applied, durable and in the newest checkpoint are dropped.
    pub fn compact(&mut self, index: u64) {
        let index = if planted!(LogCutTooFar) {
            index.saturating_add(40).min(self.applied)
        } else {
            index.min(self.checkpoint.index).min(self.applied)
        }
        .min(self.writer.durable());
        let Some(term) = self.terms.term(index).filter(|_| index > self.terms.base().index) else { return };
        self.terms.compact(Position { index, term });
        self.extents.compact(index);
        self.tail.release(index);
        self.tail.compact(index);
        self.writer.touch();
    }

    /// Marks entries up to `index` as applied, so that they may leave memory.
    pub fn set_applied(&mut self, index: u64) {
        self.applied = self.applied.max(index);
        self.tail.release(self.applied.min(self.writer.durable()));
    }

    /// Whether the log soon needs another segment and none is ready. Then the rest of this segment is reserved for
    /// votes and for the entries that a new leader needs.
    pub fn is_near_its_end(&self) -> bool {
        !self.preallocator.has_ready() && self.writer.room() < self.config.segment_bytes / SEGMENT_KEPT_SHARE
    }

    /// Bytes of the records that are not in a checkpoint.
    pub fn bytes_after_checkpoint(&self) -> u64 {
        self.extents.bytes_after(self.checkpoint.index)
    }

    /// Whether a checkpoint is due, if the last one had `checkpoint_bytes`.
    pub fn is_checkpoint_due(&self, checkpoint_bytes: u64) -> bool {
        !planted!(CheckpointNeverDue)
            && self.bytes_after_checkpoint() >= checkpoint_bytes.max(self.config.checkpoint_due_bytes)
    }

    /// Whether a checkpoint takes too long. There were `bytes_at_start` after the newest one when it began, it
    /// retains `retired_bytes` of former versions, and `abandoned` checkpoints in a row were abandoned before it.
    pub fn is_checkpoint_late(&self, bytes_at_start: u64, retired_bytes: u64, abandoned: u32) -> bool {
        !planted!(LateCheckpointGoesOn) && self.is_checkpoint_beyond(1, bytes_at_start, retired_bytes, abandoned)
    }

    /// Whether the checkpoint has used a quarter of its limits. Then it is written with priority, so that it is not
    /// abandoned.
    pub fn is_checkpoint_urgent(&self, bytes_at_start: u64, retired_bytes: u64, abandoned: u32) -> bool {
        self.is_checkpoint_beyond(4, bytes_at_start, retired_bytes, abandoned)
    }

    /// Whether the checkpoint would exceed its limits after `times` as many bytes.
    fn is_checkpoint_beyond(&self, times: u64, bytes_at_start: u64, retired_bytes: u64, abandoned: u32) -> bool {
        let longer = 1 << abandoned.min(CHECKPOINT_DOUBLINGS_MAX);
        let written = self.bytes_after_checkpoint().saturating_sub(bytes_at_start);
        written.saturating_mul(times) > self.config.bytes_while_checkpoint.saturating_mul(longer)
            || retired_bytes.saturating_mul(times) > self.config.retired_while_checkpoint.saturating_mul(longer)
    }

    /// The index to which [`Log::compact`] may go after the newest checkpoint, so that enough entries remain behind
    /// it. Entries after `pinned` remain too, up to a limit.
    pub fn compact_target(&self, pinned: Option<u64>) -> u64 {
        let by_count = self.checkpoint.index.saturating_sub(self.config.entries_behind_checkpoint);
        let target = by_count.max(self.keeping(self.config.bytes_behind_checkpoint)).min(self.checkpoint.index);
        let target = if planted!(NoEntriesBehindCheckpoint) { self.checkpoint.index } else { target };
        match pinned {
            Some(pinned) => target.min(pinned.max(self.keeping(self.config.bytes_pinned))),
            None => target,
        }
    }

    /// The index after which `bytes` of records lie, at most the newest checkpoint's.
    fn keeping(&self, bytes: u64) -> u64 {
        let bytes = self.bytes_after_checkpoint().saturating_add(bytes);
        self.extents.first_within(bytes).map_or(0, |first| first - 1)
    }

    fn set_hard_state(&mut self, hard_state: Option<&HardState>) {
        if let Some(hard_state) = hard_state {
            let commit = self.hard_state.commit.max(hard_state.commit);
            self.hard_state = HardState { commit, ..hard_state.clone() };
        }
    }

    /// The next job of either queue; `None` if there is nothing to do or one is in progress.
    pub fn poll_job(&mut self, tickets: &mut Tickets) -> Option<DiskJob> {
        self.poll_record(tickets).or_else(|| {
            let fetches = &self.fetches;
            self.preallocator.poll(tickets, |segment| fetches.is_reading(segment))
        })
    }

    /// Takes the result of a job.
    pub fn persisted(&mut self, ticket: u64) -> Persisted {
        if self.preallocator.persisted(ticket) {
            return Persisted::Housekeeping;
        }
        let Some(mark) = self.writer.persisted(ticket, &mut self.preallocator) else { return Persisted::NotOurs };
        self.tail.release(self.applied.min(self.writer.durable()));
        Persisted::Record(mark)
    }
}

/// As many entries as fit, at least one.
fn take_bytes<'e>(entries: impl Iterator<Item = &'e Entry>, bytes_max: u64) -> Vec<Entry> {
    let mut bytes = 0;
    let mut taken = Vec::new();
    for entry in entries {
        bytes += entry_bytes(entry) as u64;
        if bytes > bytes_max && !taken.is_empty() {
            break;
        }
        taken.push(entry.clone());
    }
    taken
}

#[cfg(test)]
mod tests;
