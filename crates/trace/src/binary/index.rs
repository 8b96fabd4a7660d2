//! Where which time is: of each stretch of chunks where it begins, its earliest and its latest time.
//!
//! A stretch is one chunk. When there are as many as the index holds, every two become one, and stretches are twice as
//! long from there on: the index of a file of any length is small.

use super::{is_sealed, put, sealed, u32_at, u64_at};
use crate::limits::STRETCHES_MAX;

/// How the index begins.
pub(super) const KIND: [u8; 4] = *b"INDX";
/// Bytes of its head.
pub(super) const HEAD_BYTES: usize = 24;
const SEAL_AT: usize = HEAD_BYTES - 4;
const STRETCH_BYTES: usize = 24;

/// A time that is wanted: from the first to the last of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Span {
    pub(super) const fn meets(self, earliest_ns: u64, latest_ns: u64) -> bool {
        latest_ns >= self.from_ns && earliest_ns <= self.to_ns
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stretch {
    at: u64,
    earliest_ns: u64,
    latest_ns: u64,
}

/// The index of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Index {
    stretches: Vec<Stretch>,
    most: usize,
    /// Chunks of a stretch, and of the last one.
    chunks: u64,
    chunks_of_last: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self::of_most(STRETCHES_MAX)
    }
}

impl Index {
    fn of_most(most: usize) -> Self {
        Self { stretches: Vec::new(), most, chunks: 1, chunks_of_last: 0 }
    }

    /// Notes the chunk that begins at `at`, behind all others.
    pub(super) fn note(&mut self, at: u64, (earliest_ns, latest_ns): (u64, u64)) {
        if let Some(last) = self.stretches.last_mut().filter(|_| self.chunks_of_last < self.chunks) {
            last.earliest_ns = last.earliest_ns.min(earliest_ns);
            last.latest_ns = last.latest_ns.max(latest_ns);
            self.chunks_of_last += 1;
            return;
        }
        if self.stretches.len() >= self.most {
            let joined = self.stretches.chunks(2).map(|pair| Stretch {
                at: pair[0].at,
                earliest_ns: pair.iter().map(|stretch| stretch.earliest_ns).fold(u64::MAX, u64::min),
                latest_ns: pair.iter().map(|stretch| stretch.latest_ns).fold(0, u64::max),
            });
            self.stretches = joined.collect();
            self.chunks *= 2;
        }
        self.stretches.push(Stretch { at, earliest_ns, latest_ns });
        self.chunks_of_last = 1;
    }

    /// Where to read on from `at`, which is where a chunk begins, for messages of this time; `None` when there are no
    /// more.
    pub(super) fn next_at(&self, at: u64, span: Span) -> Option<u64> {
        let own = self.stretches.partition_point(|stretch| stretch.at <= at).saturating_sub(1);
        let rest = self.stretches.get(own..)?;
        let next = rest.iter().find(|stretch| span.meets(stretch.earliest_ns, stretch.latest_ns))?;
        Some(next.at.max(at))
    }

    /// The index as it stands in a file of so many messages.
    pub(super) fn bytes(&self, messages: u64) -> Vec<u8> {
        let mut stretches = Vec::with_capacity(self.stretches.len() * STRETCH_BYTES);
        for stretch in &self.stretches {
            for number in [stretch.at, stretch.earliest_ns, stretch.latest_ns] {
                stretches.extend_from_slice(&number.to_le_bytes());
            }
        }
        let count = (self.stretches.len() as u32).to_le_bytes();
        let checksum = crc32c::crc32c(&stretches).to_le_bytes();
        let head: [u8; HEAD_BYTES] = sealed(put(&[&KIND, &count, &messages.to_le_bytes(), &checksum]), SEAL_AT);
        [&head[..], &stretches].concat()
    }
}

/// The head of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    /// Bytes behind it.
    pub(super) bytes: usize,
    /// Messages of the whole file.
    pub(super) messages: u64,
    checksum: u32,
}

impl Head {
    pub(super) fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Self, &'static str> {
        if bytes[..4] != KIND || !is_sealed(bytes, SEAL_AT) {
            return Err("the head of the index is damaged: wrong checksum");
        }
        let stretches = u32_at(bytes, 4) as usize;
        if stretches > STRETCHES_MAX {
            return Err("the index is too large");
        }
        let (messages, checksum) = (u64_at(bytes, 8), u32_at(bytes, 16));
        Ok(Self { bytes: stretches * STRETCH_BYTES, messages, checksum })
    }

    /// The index of what follows its head.
    pub(super) fn index(&self, bytes: &[u8]) -> Result<Index, &'static str> {
        if bytes.len() != self.bytes || crc32c::crc32c(bytes) != self.checksum {
            return Err("the index is damaged: wrong checksum");
        }
        let stretches = bytes.chunks_exact(STRETCH_BYTES).map(|bytes| Stretch {
            at: u64_at(bytes, 0),
            earliest_ns: u64_at(bytes, 8),
            latest_ns: u64_at(bytes, 16),
        });
        let stretches: Vec<_> = stretches.collect();
        if !stretches.is_sorted_by_key(|stretch| stretch.at) {
            return Err("the index is inconsistent");
        }
        Ok(Index { stretches, ..Index::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_index_merges_stretches_and_loses_none() {
        let mut index = Index::of_most(8);
        // Chunk n at 100 n, of the time from 10 n to 10 n + 9.
        for number in 0..1_000_u64 {
            index.note(100 * number, (10 * number, 10 * number + 9));
            assert!(index.stretches.len() <= 8);
        }
        assert!(index.chunks >= 125 && index.chunks.is_power_of_two(), "{}", index.chunks);
        let mut known = 0;
        for (number, stretch) in index.stretches.iter().enumerate() {
            assert_eq!(stretch.at, 100 * index.chunks * number as u64);
            assert_eq!(stretch.earliest_ns, 10 * index.chunks * number as u64);
            known = stretch.latest_ns;
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
        (0..10_u64).for_each(|number| index.note(100 * number, (10 * number, 10 * number + 9)));
        let early = Span { from_ns: 0, to_ns: 35 };
        assert_eq!(index.next_at(200, early), Some(200));
        assert_eq!(index.next_at(350, early), Some(350));
        assert_eq!(index.next_at(400, early), None);
        assert_eq!(Index::default().next_at(16, early), None);
    }

    #[test]
    fn an_index_comes_back() {
        let mut index = Index::default();
        (0..10_u64).for_each(|number| index.note(100 * number, (10 * number, 10 * number + 9)));
        let bytes = index.bytes(77);
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>().unwrap();
        let head = Head::read(head).unwrap();
        assert_eq!((head.messages, head.bytes), (77, rest.len()));
        assert_eq!(head.index(rest).unwrap().stretches, index.stretches);
        assert!(head.index(&rest[1..]).is_err());
    }
}
