//! The newest entries, in memory: all that are not yet applied or not yet durable, and some before them.

use super::limits::{BULK_ENTRY_BYTES, BULK_WEIGHT};
use raft::eraftpb::Entry;
use std::collections::VecDeque;

/// Entries without a hole, up to the last of the log.
#[derive(Debug)]
pub(crate) struct Tail {
    entries: VecDeque<Entry>,
    /// Index of the first, or of the next one to come when there is none.
    first: u64,
    /// Entries up to here may leave.
    released: u64,
    /// What the entries that may leave count.
    released_bytes: usize,
    bytes_max: usize,
}

impl Tail {
    /// Nothing yet; `first` is the index that comes next.
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

    /// Lets entries up to `index` go, oldest first, as far as they are more than the tail is to hold.
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

    /// Drops entries up to `index`, which may leave.
    pub(crate) fn compact(&mut self, index: u64) {
        while self.first <= index.min(self.released) {
            self.drop_first();
        }
    }

    /// The entries from `low` to before `high`, as far as they are here.
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

/// What an entry takes in memory: of small ones more than what it says. A large one counts several times: it is read
/// from the disk as fast as it is sent, and an import would otherwise fill the tail with what nobody asks for again.
fn counted_bytes(entry: &Entry) -> usize {
    let bytes = entry.context.len() + entry.data.len();
    let weight = if bytes >= BULK_ENTRY_BYTES { BULK_WEIGHT } else { 1 };
    size_of::<Entry>() + weight * bytes
}
