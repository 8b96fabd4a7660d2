//! Index of the log: terms by entry index, and disk positions by entry index.

use super::limits::EXTENT_BYTES_MAX;
use super::position::Position;
use super::record::Header;
use std::collections::VecDeque;

/// Terms of all entries of the log and of the one before the first. Terms never decrease, so runs suffice.
#[derive(Debug)]
pub(crate) struct Terms {
    base: Position,
    last: u64,
    /// First index and term of each run.
    runs: VecDeque<(u64, u64)>,
}

impl Terms {
    pub(crate) fn new(base: Position) -> Self {
        Self { base, last: base.index, runs: VecDeque::new() }
    }

    pub(crate) fn base(&self) -> Position {
        self.base
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The term at an index from the base to the last entry.
    pub(crate) fn term(&self, index: u64) -> Option<u64> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        if index < self.base.index || index > self.last {
            return None;
        }
        let run = self.runs.partition_point(|(first, _)| *first <= index);
        run.checked_sub(1).map(|run| self.runs[run].1)
    }

    /// Adds the entry after the last.
    pub(crate) fn push(&mut self, term: u64) {
        self.last += 1;
        if self.runs.back().is_none_or(|(_, latest)| *latest != term) {
            self.runs.push_back((self.last, term));
        }
    }

    /// Drops the entry at `first` and all after it.
    pub(crate) fn truncate(&mut self, first: u64) {
        self.last = self.last.min(first.saturating_sub(1));
        while self.runs.back().is_some_and(|(start, _)| *start >= first) {
            self.runs.pop_back();
        }
    }

    /// Drops all entries up to `base`.
    pub(crate) fn compact(&mut self, base: Position) {
        while self.runs.len() > 1 && self.runs[1].0 <= base.index + 1 {
            self.runs.pop_front();
        }
        if base.index >= self.last {
            self.runs.clear();
        }
        self.base = base;
        self.last = self.last.max(base.index);
    }
}

/// Adjacent records of one segment that hold the entries `first..=last`, and perhaps others that later records
/// replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl Extent {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Disk positions of entries, ordered by index, segment and offset alike.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    extents: VecDeque<Extent>,
}

impl Extents {
    /// Adds the entries of a record and drops those that it replaces.
    pub(crate) fn add(&mut self, header: &Header) {
        if header.cleared {
            self.extents.clear();
        }
        if header.entry_count == 0 {
            return;
        }
        self.truncate(header.first);
        let end = header.offset + header.disk_bytes();
        if let Some(back) = self.extents.back_mut() {
            let is_next = back.segment == header.segment && back.last + 1 == header.first;
            if is_next && end - back.offset <= EXTENT_BYTES_MAX {
                (back.last, back.len) = (header.last, end - back.offset);
                return;
            }
        }
        let Header { first, last, segment, offset, .. } = *header;
        self.extents.push_back(Extent { first, last, segment, offset, len: end - offset });
    }

    pub(crate) fn clear(&mut self) {
        self.extents.clear();
    }

    pub(crate) fn truncate(&mut self, first: u64) {
        while self.extents.back().is_some_and(|extent| extent.first >= first) {
            self.extents.pop_back();
        }
        if let Some(back) = self.extents.back_mut() {
            back.last = back.last.min(first.saturating_sub(1));
        }
    }

    /// Drops extents without an entry after `base`.
    pub(crate) fn compact(&mut self, base: u64) {
        while self.extents.front().is_some_and(|extent| extent.last <= base) {
            self.extents.pop_front();
        }
    }

    /// The oldest segment that holds an entry.
    pub(crate) fn oldest_segment(&self) -> Option<u64> {
        self.extents.front().map(|extent| extent.segment)
    }

    /// The extents from the one that holds `index` on.
    pub(crate) fn from(&self, index: u64) -> impl Iterator<Item = &Extent> {
        let start = self.extents.partition_point(|extent| extent.last < index);
        self.extents.range(start..)
    }

    /// Whether exactly the entries `first..=last` are held, without a gap. Entries before `first` do not count.
    pub(crate) fn cover(&self, first: u64, last: u64) -> bool {
        let mut next = first;
        for extent in self.from(first) {
            if extent.first > next {
                return false;
            }
            next = extent.last + 1;
        }
        next == last + 1
    }

    /// Bytes of the records that hold entries after `index`.
    pub(crate) fn bytes_after(&self, index: u64) -> u64 {
        self.from(index.saturating_add(1)).map(|extent| extent.len).sum()
    }

    /// The lowest index from which all entries fit into `bytes` bytes; the index after the last if even the newest
    /// extent is larger.
    pub(crate) fn first_within(&self, bytes: u64) -> Option<u64> {
        let mut sum = 0;
        let mut first = None;
        for extent in self.extents.iter().rev() {
            sum += extent.len;
            if sum > bytes {
                return first.or(Some(extent.last + 1));
            }
            first = Some(extent.first);
        }
        first
    }
}
