//! The newest entries, in memory: all that are not applied or not durable, and some before them.

use super::limits::{BULK_ENTRY_BYTES, BULK_WEIGHT};
use raft::eraftpb::Entry;
use std::collections::VecDeque;

/// Consecutive entries, up to the last of the log.
#[derive(Debug)]
pub(crate) struct Tail {
    entries: VecDeque<Entry>,
    /// Index of the first entry, or of the next one if there is none.
    first: u64,
    /// Entries up to this index may be dropped.
    released: u64,
    /// Counted bytes of the entries that may be dropped.
    released_bytes: usize,
    bytes_max: usize,
}

impl Tail {
    /// An empty tail; `first` is the next index.
    pub(crate) fn new(first: u64, bytes_max: usize) -> Self {
        Self { entries: VecDeque::new(), first, released: first - 1, released_bytes: 0, bytes_max }
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Index after the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        debug_assert_eq!(entry.index, self.end());
        self.entries.push_back(entry);
    }

    /// Drops the entry at `first` and all after it.
    pub(crate) fn truncate(&mut self, first: u64) {
        if first < self.first {
            *self = Self::new(first, self.bytes_max);
            return;
        }
        self.entries.truncate((first - self.first) as usize);
        if self.released >= first {
            self.released = first - 1;
            self.released_bytes = self.entries.iter().map(counted_bytes).sum();
        }
    }

    /// Permits to drop entries up to `index`. They are dropped oldest first, while the tail is larger than its limit.
    pub(crate) fn release(&mut self, index: u64) {
        let end = index.min(self.end() - 1);
        while self.released < end {
            self.released += 1;
            if let Some(slot) = self.released.checked_sub(self.first) {
                self.released_bytes += counted_bytes(&self.entries[slot as usize]);
            }
        }
        while self.released_bytes > self.bytes_max && self.first <= self.released {
            self.drop_first();
        }
    }

    /// Drops entries up to `index` that may be dropped.
    pub(crate) fn compact(&mut self, index: u64) {
        while self.first <= index.min(self.released) {
            self.drop_first();
        }
    }

    /// The entries from `low` to before `high` that are in memory.
    pub(crate) fn range(&self, low: u64, high: u64) -> impl Iterator<Item = &Entry> + Clone {
        let slot = |index: u64| (index.clamp(self.first, self.end()) - self.first) as usize;
        self.entries.range(slot(low)..slot(high.max(low)))
    }

    fn drop_first(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.released_bytes = self.released_bytes.saturating_sub(counted_bytes(&entry));
            self.first += 1;
        }
    }
}

/// The size of an entry for the limit of memory. A small entry counts more than its bytes, for overhead. A large one
/// counts several times: it can be read from disk as fast as it is sent, and an import would otherwise fill the tail.
fn counted_bytes(entry: &Entry) -> usize {
    let bytes = entry.context.len() + entry.data.len();
    let weight = if bytes >= BULK_ENTRY_BYTES { BULK_WEIGHT } else { 1 };
    size_of::<Entry>() + weight * bytes
}
