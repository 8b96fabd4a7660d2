//! A log on a disk in memory, executed one operation at a time, and a model of its contents.

use crate::disk::{DiskJob, DiskOp, DiskQueue, Tickets};
use crate::log::segment::{segment_number, spare_number};
use crate::log::{CheckpointRef, Log, LogConfig, LogId, OpenError, Persisted, Repair};
use crate::testing::MemoryDisk;
use raft::eraftpb::{Entry, HardState};

pub(in crate::log) fn small_id() -> LogId {
    LogId { cluster: *b"cluster-of-tests", member: 0x0000_0001_0000_0002, group: 6 }
}

/// So small that a few records fill a segment.
pub(in crate::log) fn small_config() -> LogConfig {
    LogConfig {
        segment_bytes: 4096,
        block_bytes: 512,
        record_bytes: 1500,
        tail_bytes: 600,
        fetch_bytes: 2048,
        entries_behind_checkpoint: 3,
        bytes_behind_checkpoint: 8192,
        checkpoint_due_bytes: 4096,
        bytes_pinned: 16_384,
        bytes_while_checkpoint: u64::MAX,
        retired_while_checkpoint: u64::MAX,
    }
}

/// The configuration for a disk with physical blocks of this size.
pub(in crate::log) fn config_of_blocks(block_bytes: u64) -> LogConfig {
    let small = small_config();
    let segment_bytes = small.segment_bytes.max(4 * block_bytes);
    LogConfig { segment_bytes, block_bytes, ..small }
}

/// An entry whose bytes identify it; every third is all zeros.
pub(in crate::log) fn entry(index: u64, term: u64, size: usize) -> Entry {
    let mut entry = Entry { index, term, ..Entry::default() };
    let fill = if index.is_multiple_of(3) { 0 } else { (index * 31 + term) as u8 };
    entry.data = vec![fill; size].into();
    entry
}

pub(in crate::log) fn entries(indices: std::ops::RangeInclusive<u64>, term: u64, size: usize) -> Vec<Entry> {
    indices.map(|index| entry(index, term, size)).collect()
}

pub(in crate::log) fn hard_state(term: u64, vote: u64, commit: u64) -> HardState {
    HardState { term, vote, commit, ..HardState::default() }
}

/// A small random generator; the tests provide the seed.
#[derive(Clone)]
pub(in crate::log) struct Draws(pub(in crate::log) u64);

impl Draws {
    pub(in crate::log) fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// A log, its disk, and the jobs that the disk has not finished.
pub(in crate::log) struct Machine {
    pub(in crate::log) disk: MemoryDisk,
    pub(in crate::log) log: Log,
    pub(in crate::log) tickets: Tickets,
    /// Jobs in progress with the number of completed operations, one per queue.
    under_way: Vec<(DiskJob, usize)>,
    /// The newest reported mark.
    pub(in crate::log) mark: Option<u64>,
    /// How many segments became spares.
    pub(in crate::log) recycled_count: usize,
}

impl Machine {
    pub(in crate::log) fn create(config: LogConfig) -> Self {
        Self::create_on(MemoryDisk::default(), config)
    }

    pub(in crate::log) fn create_on(disk: MemoryDisk, config: LogConfig) -> Self {
        let log = Log::create(small_id(), CheckpointRef::default(), config);
        Self::new(disk, log)
    }

    pub(in crate::log) fn open(disk: MemoryDisk, config: LogConfig) -> Result<(Self, Vec<Repair>), OpenError> {
        let (log, repairs) = Log::open(&disk, config)?;
        Ok((Self::new(disk, log), repairs))
    }

    fn new(disk: MemoryDisk, log: Log) -> Self {
        Self { disk, log, tickets: Tickets::default(), under_way: Vec::new(), mark: None, recycled_count: 0 }
    }

    /// Executes one operation of one queue, the log's first unless `bulk`; `false` if there is none.
    pub(in crate::log) fn step(&mut self, bulk: bool) -> bool {
        while let Some(job) = self.log.poll_job(&mut self.tickets) {
            assert!(self.under_way.iter().all(|(other, _)| other.queue != job.queue), "one job a queue");
            self.under_way.push((job, 0));
        }
        let wanted = if bulk { DiskQueue::Bulk } else { DiskQueue::Log };
        let nth = self.under_way.iter().position(|(job, _)| job.queue == wanted);
        let Some(nth) = nth.or((!self.under_way.is_empty()).then_some(0)) else { return false };
        let (job, done) = &mut self.under_way[nth];
        let op = &job.ops[*done];
        let is_recycled = |from: &str, to: &str| segment_number(from).is_some() && spare_number(to).is_some();
        self.recycled_count += usize::from(matches!(op, DiskOp::Rename { from, to } if is_recycled(from, to)));
        self.disk.execute(op);
        *done += 1;
        if *done == job.ops.len() {
            let (job, _) = self.under_way.remove(nth);
            match self.log.persisted(job.ticket) {
                Persisted::Record(mark) => self.mark = self.mark.max(mark),
                Persisted::Housekeeping => assert_eq!(job.queue, DiskQueue::Bulk),
                Persisted::NotOurs => panic!("the ticket was ours"),
            }
        }
        true
    }

    /// Executes all operations.
    pub(in crate::log) fn settle(&mut self) {
        while self.step(false) {}
    }

    /// All entries of the log.
    pub(in crate::log) fn contents(&self) -> Contents {
        let mut replayed = Vec::new();
        let (first, last) = (self.log.first_index(), self.log.last_index());
        self.log.replay(&self.disk, first, last, |entry| replayed.push(entry)).unwrap();
        Contents { base: first - 1, entries: replayed }
    }
}

/// Entries after a base.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::log) struct Contents {
    pub(in crate::log) base: u64,
    pub(in crate::log) entries: Vec<Entry>,
}

impl Contents {
    pub(in crate::log) fn last(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// The entries from `first` on.
    pub(in crate::log) fn from(&self, first: u64) -> &[Entry] {
        let skip = (first.saturating_sub(self.base + 1) as usize).min(self.entries.len());
        &self.entries[skip..]
    }
}
