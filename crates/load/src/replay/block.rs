//! Blocks of queries from the reader of a trace to a worker.

use super::picker::Query;
use crate::limits::REPLAY_BLOCK_BYTES;
use std::ops::Range;

/// A block of queries. Its memory is reused.
#[derive(Default, Debug)]
pub(super) struct Block {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// One query of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) planned_ns: u64,
    /// Its client, numbered by worker.
    pub(super) client: u32,
    start: u32,
    bytes: u32,
}

impl Block {
    pub(super) fn push(&mut self, client: u32, query: &Query<'_>) {
        let (start, bytes) = (self.bytes.len() as u32, query.bytes.len() as u32);
        self.bytes.extend_from_slice(query.bytes);
        self.entries.push(Entry { planned_ns: query.planned_ns, client, start, bytes });
    }

    /// Whether the block is full.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() + self.entries.len() * size_of::<Entry>() >= REPLAY_BLOCK_BYTES
    }

    pub(super) fn entry(&self, index: usize) -> Option<Entry> {
        self.entries.get(index).copied()
    }

    /// The message of an entry.
    pub(super) fn message(&self, entry: Entry) -> &[u8] {
        let range: Range<usize> = entry.start as usize..(entry.start + entry.bytes) as usize;
        &self.bytes[range]
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}
