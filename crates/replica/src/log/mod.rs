//! Raft's log on disk: our own, small, checksummed, and without I/O.
//!
//! One record an fsync (`record.rs`), in segments of fixed size that are zeroed before use and recycled
//! (`segment.rs`). A one-sector record is followed by a seal, an empty record that shows a later loss of that sector.
//! On a disk with larger physical blocks, more empty records fill the last block of each write, so that no write shares
//! a block with an earlier one: a loss of power during a write can spoil the whole block. Entries that raft appends
//! while a record is being written go into the next record, so group commit needs no timer. A conflict is not cut out:
//! a record that begins at a lower index replaces the entries that it overlaps. Term and vote are in each record and in
//! a separate file (`vote.rs`).
//!
//! **Contract of the caller**, once a round:
//! 1. [`Log::append`] (or [`Log::install`]) what a `Ready` holds, with the `Ready`'s number as mark; the entries can be
//!    read from then on.
//! 2. [`Log::poll_job`] until `None`, and carry the jobs out. At most one job a queue is under way.
//! 3. [`Log::persisted`] with each ticket that comes back; the mark that it returns is what raft's
//!    `on_persist_ready` wants: everything up to it is durable.
//! 4. [`Log::set_applied`] as entries are applied, so that memory is freed.
//!
//! After [`Log::open`], send nothing to any peer before [`Log::is_durable`]. The process that wrote the log may have
//! died before its fsync, or because the fsync failed. The first job writes the log's end again (`open.rs`).
//!
//! Damage is reported ([`LogDamage`]) and never repaired by cutting. The only exception is a last record that holds a
//! sector of zeros and is followed by no valid record. A crash during the write leaves such a record, and so does a
//! disk that later loses the sector. So the replica assumes that it may have acknowledged the entries of that record.

// Sizes and bounds.
pub mod limits;
// What can be wrong on disk.
mod damage;
// One record.
mod record;
// Files of records.
mod segment;
// The second home of term and vote.
mod vote;
// Where entries lie.
mod index;
// The newest entries, in memory.
mod tail;
// What goes to disk next.
mod writer;
// Zeroed segments in reserve.
mod preallocate;
// Reading older entries back.
mod fetch;
// From disk to memory at start.
mod open;
// Searches for damage while the log is in use.
mod check;
// The intact part of a damaged log, and the entries that members can replace.
mod salvage;

pub(crate) use check::check_file;
pub use damage::{Damage, LogDamage, OpenError, Repair};
pub use fetch::{Fetch, Fetched};
pub use salvage::{EntriesRequest, EntriesResponse, Refused, Rewrite, Salvage};
pub use segment::{TornRecord, is_spare};

use crate::disk::{DiskJob, Tickets};
use fetch::Fetches;
use index::{Extents, Terms};
use limits::*;
use preallocate::SegmentPreallocator;
use raft::eraftpb::{Entry, EntryType, HardState};
use record::entry_bytes;
use tail::Tail;
use writer::Writer;

/// Whose log it is; each record carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId {
    /// The cluster.
    pub cluster: [u8; 16],
    /// The member's raft id: node and incarnation.
    pub member: u64,
    /// The raft group.
    pub group: u32,
}

/// An entry's place in the log of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Its index.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

/// A durable checkpoint that the log refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointRef {
    /// Index of the last entry that it contains; 0 when there is no checkpoint.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// The checkpoint's own digest.
    pub id: [u8; 32],
}

impl CheckpointRef {
    fn position(&self) -> Position {
        Position { index: self.index, term: self.term }
    }
}

/// Sizes; the default is what production uses, tests and simulations shrink it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Bytes of a segment, a multiple of the sector.
    pub segment_bytes: u64,
    /// Bytes of a physical block of the disk, a power of two from the sector to [`BLOCK_BYTES_MAX`]. No write shares a
    /// block with an earlier one.
    pub block_bytes: u64,
    /// Bytes of entries after which a record is closed.
    pub record_bytes: usize,
    /// Bytes of memory for applied and durable entries that are not in a checkpoint.
    pub tail_bytes: usize,
    /// Bytes of one read of older entries.
    pub fetch_bytes: u64,
    /// Entries that stay behind a checkpoint.
    pub entries_behind_checkpoint: u64,
    /// Bytes of records that stay behind a checkpoint at most.
    pub bytes_behind_checkpoint: u64,
    /// Bytes of records after which a checkpoint is due at the earliest.
    pub checkpoint_due_bytes: u64,
    /// Bytes of records that stay behind a checkpoint at most for the sake of a transfer.
    pub bytes_pinned: u64,
    /// Bytes of records after which a checkpoint that is being written is given up.
    pub bytes_while_checkpoint: u64,
    /// Bytes of former versions of zones that a checkpoint which is being written may keep in memory before it is
    /// given up.
    pub retired_while_checkpoint: u64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES,
            block_bytes: SECTOR_BYTES as u64,
            record_bytes: RECORD_BYTES_MAX,
            tail_bytes: TAIL_BYTES_MAX,
            fetch_bytes: FETCH_BYTES_MAX,
            entries_behind_checkpoint: ENTRIES_BEHIND_CHECKPOINT_MAX,
            bytes_behind_checkpoint: BYTES_BEHIND_CHECKPOINT_MAX,
            checkpoint_due_bytes: CHECKPOINT_DUE_BYTES,
            bytes_pinned: BYTES_PINNED_MAX,
            bytes_while_checkpoint: BYTES_WHILE_CHECKPOINT_MAX,
            retired_while_checkpoint: RETIRED_WHILE_CHECKPOINT_MAX,
        }
    }
}

/// Why entries cannot be given at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The log begins after them: a checkpoint has them.
    Compacted,
    /// The log ends before them.
    Unavailable,
    /// They are on disk only: [`Log::fetch`] them (raft: `LogTemporarilyUnavailable`).
    NotInMemory,
}

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

/// What [`Log::persisted`] made of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persisted {
    /// A record; everything up to this mark is durable, if a mark was reached.
    Record(Option<u64>),
    /// Housekeeping of the log on the bulk queue.
    Housekeeping,
    /// Not the log's.
    NotOurs,
}

impl Log {
    /// A new log after a checkpoint, for a member that has none. The first job makes its files; it is there once
    /// that job is done. Whatever log files are there are left alone, so the directory should hold none.
    pub fn create(id: LogId, checkpoint: CheckpointRef, config: LogConfig) -> Self {
        let base = checkpoint.position();
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

    /// Whose log it is.
    pub fn id(&self) -> LogId {
        self.writer.id()
    }

    /// Term, vote and commit index as last set; as durable right after [`Log::open`].
    pub fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    /// The newest checkpoint that the log knows.
    pub fn checkpoint(&self) -> CheckpointRef {
        self.checkpoint
    }

    /// Wall time of the last contact with a leader that a record noted, in milliseconds since 1970.
    pub fn contact_wall_ms(&self) -> u64 {
        self.contact_wall_ms
    }

    /// Notes the wall time of a contact with a leader; the next record carries it.
    pub fn set_contact_wall_ms(&mut self, wall_ms: u64) {
        self.contact_wall_ms = wall_ms;
    }

    /// Index of the first entry that the log still holds.
    pub fn first_index(&self) -> u64 {
        self.terms.base().index + 1
    }

    /// Index of the last entry; that of the entry before the first when the log is empty.
    pub fn last_index(&self) -> u64 {
        self.terms.last()
    }

    /// Index of the last entry that is committed or says something: the empty ones after it, with which leaders begin
    /// their terms, change nothing, whether they are committed or not.
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

    /// Whether everything that was read at [`Log::open`] is known to be on stable storage: its first job is done.
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

    /// Entries from `low` to before `high`, at least one and no more than fit into `bytes_max` bytes; fewer too where
    /// only some are in memory.
    ///
    /// # Errors
    /// [`ReadError`], also when not even the first is in memory.
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

    /// Adds the entries of a `Ready`, which begin at or before the end of the log and void what they overlap, and
    /// its `HardState` if that changed. `mark` comes back from [`Log::persisted`] once all of it is durable; marks
    /// grow.
    ///
    /// # Panics
    /// When the entries leave a hole or void an entry that a checkpoint contains: raft does neither.
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
        self.writer.mark(mark, self.last_index());
    }

    /// Notes the commit index; the next record carries it. Raft does not ask to make it durable by itself.
    pub fn set_commit(&mut self, commit: u64) {
        self.hard_state.commit = self.hard_state.commit.max(commit);
    }

    /// Has a record written even though nothing was appended: before a stop, so that the commit index is not lost.
    pub fn touch(&mut self) {
        self.writer.touch();
    }

    /// Begins the log anew after a checkpoint that came from a leader and is durable: one record voids everything
    /// before and moves the commit index. `mark` as with [`Log::append`].
    pub fn install(&mut self, checkpoint: CheckpointRef, hard_state: Option<&HardState>, mark: u64) {
        self.set_hard_state(hard_state);
        let base = checkpoint.position();
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

    /// Notes a checkpoint of our own that is durable; the next record carries it. Checkpoint files before it may go
    /// once a record is durable that was polled after this call.
    ///
    /// Entries that are in it leave memory: who still needs them was away since before it was begun, and they are read
    /// from the disk.
    pub fn checkpointed(&mut self, checkpoint: CheckpointRef) {
        if checkpoint.index >= self.checkpoint.index {
            self.checkpoint = checkpoint;
            self.tail.compact(checkpoint.index);
            self.writer.touch();
        }
    }

    /// Lets go of the entries up to `index`; their segments are recycled once a record that says so is durable.
    /// No entry goes that is not in the newest checkpoint, not applied or not durable.
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

    /// Notes that entries up to `index` are applied, so that they may leave memory.
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

    /// Whether a checkpoint is due, when the last one had `checkpoint_bytes`.
    pub fn is_checkpoint_due(&self, checkpoint_bytes: u64) -> bool {
        self.bytes_after_checkpoint() >= checkpoint_bytes.max(self.config.checkpoint_due_bytes)
    }

    /// Whether a checkpoint takes too long that was begun when there were `bytes_at_start` after the newest, and for
    /// which `retired_bytes` of former versions are kept; `abandoned` checkpoints in a row were abandoned before it.
    pub fn is_checkpoint_late(&self, bytes_at_start: u64, retired_bytes: u64, abandoned: u32) -> bool {
        self.is_checkpoint_beyond(1, bytes_at_start, retired_bytes, abandoned)
    }

    /// Whether it will be, unless it is written without regard to anything else from now on: a quarter of that is
    /// there.
    pub fn is_checkpoint_urgent(&self, bytes_at_start: u64, retired_bytes: u64, abandoned: u32) -> bool {
        self.is_checkpoint_beyond(4, bytes_at_start, retired_bytes, abandoned)
    }

    /// Whether that many times as much would be too much.
    fn is_checkpoint_beyond(&self, times: u64, bytes_at_start: u64, retired_bytes: u64, abandoned: u32) -> bool {
        let longer = 1 << abandoned.min(CHECKPOINT_DOUBLINGS_MAX);
        let written = self.bytes_after_checkpoint().saturating_sub(bytes_at_start);
        written.saturating_mul(times) > self.config.bytes_while_checkpoint.saturating_mul(longer)
            || retired_bytes.saturating_mul(times) > self.config.retired_while_checkpoint.saturating_mul(longer)
    }

    /// Up to where [`Log::compact`] may go after the newest checkpoint, so that enough entries stay behind it; those
    /// after `pinned` stay too, as long as they are not too much.
    pub fn compact_target(&self, pinned: Option<u64>) -> u64 {
        let by_count = self.checkpoint.index.saturating_sub(self.config.entries_behind_checkpoint);
        let target = by_count.max(self.keeping(self.config.bytes_behind_checkpoint)).min(self.checkpoint.index);
        match pinned {
            Some(pinned) => target.min(pinned.max(self.keeping(self.config.bytes_pinned))),
            None => target,
        }
    }

    /// The index behind which so many bytes of records lie, up to the newest checkpoint.
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

    /// The next job, of either queue; `None` when there is nothing to do or one is under way.
    pub fn poll_job(&mut self, tickets: &mut Tickets) -> Option<DiskJob> {
        self.poll_record(tickets).or_else(|| {
            let fetches = &self.fetches;
            self.preallocator.poll(tickets, |segment| fetches.is_reading(segment))
        })
    }

    /// Takes the answer to a job.
    pub fn persisted(&mut self, ticket: u64) -> Persisted {
        if self.preallocator.persisted(ticket) {
            return Persisted::Housekeeping;
        }
        let Some(mark) = self.writer.persisted(ticket, &mut self.preallocator) else { return Persisted::NotOurs };
        self.tail.release(self.applied.min(self.writer.durable()));
        Persisted::Record(mark)
    }
}

/// As many entries as fit, but at least one.
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
