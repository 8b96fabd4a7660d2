//! The index: position, earliest and latest time of groups of consecutive chunks.
//!
//! An entry begins with one chunk. When the index is full, entries are merged in pairs, and each new entry has twice as
//! many chunks. So the index is small for files of any length.

use super::{concat_parts, is_sealed, sealed, u32_at, u64_at};
use crate::limits::INDEX_ENTRIES_MAX;

/// First bytes of the index.
pub(super) const KIND: [u8; 4] = *b"INDX";
/// Bytes of its head.
pub(super) const HEAD_BYTES: usize = 24;
const SEAL_AT: usize = HEAD_BYTES - 4;
const ENTRY_BYTES: usize = 24;

/// A range of times, inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Span {
    pub(super) const fn overlaps(self, earliest_ns: u64, latest_ns: u64) -> bool {
        latest_ns >= self.from_ns && earliest_ns <= self.to_ns
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct IndexEntry {
    at: u64,
    earliest_ns: u64,
    latest_ns: u64,
}

/// The index of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Index {
    entries: Vec<IndexEntry>,
    most: usize,
    /// Number of chunks of a full entry, and of the last one.
    chunks: u64,
    chunks_of_last: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self::of_most(INDEX_ENTRIES_MAX)
    }
}

impl Index {
    fn of_most(most: usize) -> Self {
        Self { entries: Vec::new(), most, chunks: 1, chunks_of_last: 0 }
    }

    /// Adds the chunk at `at`, which is after all others.
    pub(super) fn add_chunk(&mut self, at: u64, (earliest_ns, latest_ns): (u64, u64)) {
        if let Some(last) = self.entries.last_mut().filter(|_| self.chunks_of_last < self.chunks) {
            last.earliest_ns = last.earliest_ns.min(earliest_ns);
            last.latest_ns = last.latest_ns.max(latest_ns);
            self.chunks_of_last += 1;
            return;
        }
        if self.entries.len() >= self.most {
            let joined = self.entries.chunks(2).map(|pair| IndexEntry {
                at: pair[0].at,
                earliest_ns: pair.iter().map(|entry| entry.earliest_ns).fold(u64::MAX, u64::min),
                latest_ns: pair.iter().map(|entry| entry.latest_ns).fold(0, u64::max),
            });
            self.entries = joined.collect();
            self.chunks *= 2;
        }
        self.entries.push(IndexEntry { at, earliest_ns, latest_ns });
        self.chunks_of_last = 1;
    }

    /// The position from which to read for this range of times, at or after the chunk at `at`. `None` if there is no
    /// such chunk.
    pub(super) fn next_at(&self, at: u64, span: Span) -> Option<u64> {
        let current = self.entries.partition_point(|entry| entry.at <= at).saturating_sub(1);
        let rest = self.entries.get(current..)?;
        let next = rest.iter().find(|entry| span.overlaps(entry.earliest_ns, entry.latest_ns))?;
        Some(next.at.max(at))
    }

    /// The index as written in a file with this number of messages.
    pub(super) fn bytes(&self, messages: u64) -> Vec<u8> {
        let mut entries = Vec::with_capacity(self.entries.len() * ENTRY_BYTES);
        for entry in &self.entries {
            for number in [entry.at, entry.earliest_ns, entry.latest_ns] {
                entries.extend_from_slice(&number.to_le_bytes());
            }
        }
        let count = (self.entries.len() as u32).to_le_bytes();
        let checksum = crc32c::crc32c(&entries).to_le_bytes();
        let head: [u8; HEAD_BYTES] =
            sealed(concat_parts(&[&KIND, &count, &messages.to_le_bytes(), &checksum]), SEAL_AT);
        [&head[..], &entries].concat()
    }
}

/// The head of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// Size of the entries.
    pub(super) bytes: usize,
    /// Number of messages in the file.
    pub(super) messages: u64,
    checksum: u32,
}

impl Head {
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Self, &'static str> {
        if bytes[..4] != KIND || !is_sealed(bytes, SEAL_AT) {
            return Err("the head of the index is damaged: wrong checksum");
        }
        let entries = u32_at(bytes, 4) as usize;
        if entries > INDEX_ENTRIES_MAX {
            return Err("the index is too large");
        }
        let (messages, checksum) = (u64_at(bytes, 8), u32_at(bytes, 16));
        Ok(Self { bytes: entries * ENTRY_BYTES, messages, checksum })
    }

    /// Parses the entries.
    pub(super) fn index(&self, bytes: &[u8]) -> Result<Index, &'static str> {
        if bytes.len() != self.bytes || crc32c::crc32c(bytes) != self.checksum {
            return Err("the index is damaged: wrong checksum");
        }
        let entries = bytes.chunks_exact(ENTRY_BYTES).map(|bytes| IndexEntry {
            at: u64_at(bytes, 0),
            earliest_ns: u64_at(bytes, 8),
            latest_ns: u64_at(bytes, 16),
        });
        let entries: Vec<_> = entries.collect();
        if !entries.is_sorted_by_key(|entry| entry.at) {
            return Err("the index is inconsistent");
        }
        Ok(Index { entries, ..Index::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_index_merges_entries_without_loss() {
        let mut index = Index::of_most(8);
        // Chunk n is at 100 n and has the times 10 n to 10 n + 9.
        for number in 0..1_000_u64 {
            index.add_chunk(100 * number, (10 * number, 10 * number + 9));
            assert!(index.entries.len() <= 8);
        }
        assert!(index.chunks >= 125 && index.chunks.is_power_of_two(), "{}", index.chunks);
        let mut known = 0;
        for (number, entry) in index.entries.iter().enumerate() {
            assert_eq!(entry.at, 100 * index.chunks * number as u64);
            assert_eq!(entry.earliest_ns, 10 * index.chunks * number as u64);
            known = entry.latest_ns;
        }
        assert_eq!(known, 9_999);
        for number in 0..1_000_u64 {
            let at = index.next_at(0, Span { from_ns: 10 * number, to_ns: 10 * number }).unwrap();
            assert!(at <= 100 * number && at + 100 * index.chunks > 100 * number, "{number}: {at}");
        }
        assert_eq!(index.next_at(0, Span { from_ns: 10_000, to_ns: 20_000 }), None);
    }

    #[test]
    fn seeking_never_goes_backwards() {
        let mut index = Index::default();
        (0..10_u64).for_each(|number| index.add_chunk(100 * number, (10 * number, 10 * number + 9)));
        let early = Span { from_ns: 0, to_ns: 35 };
        assert_eq!(index.next_at(200, early), Some(200));
        assert_eq!(index.next_at(350, early), Some(350));
        assert_eq!(index.next_at(400, early), None);
        assert_eq!(Index::default().next_at(16, early), None);
    }

    #[test]
    fn an_index_is_read_back() {
        let mut index = Index::default();
        (0..10_u64).for_each(|number| index.add_chunk(100 * number, (10 * number, 10 * number + 9)));
        let bytes = index.bytes(77);
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().unwrap();
        let head = Head::read(head).unwrap();
        assert_eq!((head.messages, head.bytes), (77, rest.len()));
        assert_eq!(head.index(rest).unwrap().entries, index.entries);
        assert!(head.index(&rest[1..]).is_err());
    }
}
