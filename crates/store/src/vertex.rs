//! The first word of a block gives its kind and size, so the arena can be walked from its start.
//!
//! ```text
//!   leaf    len:29 (of the first 32 bits) | open:1 | tag:2 = 0     then the bytes
//!   branch  offset:10 | bitmap:51         | open:1 | tag:2 = 1     then one u32 handle for each bit of the bitmap
//!   free    granules:61                            | tag:3 = 2
//! ```
//!
//! The lowest bit of a bitmap means "the key ends here", the others mean the symbols, so children are in key order.
//! `open` is set in blocks that the open version took from a free list.

use crate::limits::CHILDREN_MAX;
use crate::size_class::round_up;

/// Bytes in a granule, the unit of handles.
pub(crate) const GRANULE_BYTES: usize = 8;
/// The mark of blocks that belong to the open version although they lie among older blocks.
pub(crate) const OPEN: u64 = 1 << 2;

const TAG: u64 = 0b11;
const LEAF: u64 = 0;
const BRANCH: u64 = 1;
const FREE: u64 = 2;
const SHIFT: u32 = 3;
const OFFSET_SHIFT: u32 = SHIFT + CHILDREN_MAX as u32;
const BITMAP: u64 = ((1 << OFFSET_SHIFT) - 1) & !((1 << SHIFT) - 1);
const LEN_MASK: u64 = (1 << 29) - 1;

const _: () = assert!(crate::limits::KEY_SYMBOLS_MAX < 1 << (64 - OFFSET_SHIFT));

/// The first word of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader(pub(crate) u64);

impl BlockHeader {
    /// A leaf of `len` bytes.
    pub(crate) fn leaf(len: usize) -> Self {
        debug_assert!(len as u64 <= LEN_MASK);
        Self((len as u64) << SHIFT | LEAF)
    }

    /// A branch without children that tests the mark at `offset`.
    pub(crate) fn branch(offset: usize) -> Self {
        Self((offset as u64) << OFFSET_SHIFT | BRANCH)
    }

    /// A free block of `granules`.
    pub(crate) fn free(granules: usize) -> Self {
        Self((granules as u64) << SHIFT | FREE)
    }

    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.0 & TAG == LEAF
    }

    #[inline]
    pub(crate) fn is_branch(self) -> bool {
        self.0 & TAG == BRANCH
    }

    #[inline]
    pub(crate) fn is_free(self) -> bool {
        self.0 & TAG == FREE
    }

    /// Whether the block carries the mark of the open version.
    pub(crate) fn is_marked(self) -> bool {
        !self.is_free() && self.0 & OPEN != 0
    }

    /// Bytes of a leaf.
    #[inline]
    pub(crate) fn len(self) -> usize {
        (self.0 >> SHIFT & LEN_MASK) as usize
    }

    /// The index of the mark that a branch tests.
    #[inline]
    pub(crate) fn offset(self) -> usize {
        (self.0 >> OFFSET_SHIFT) as usize
    }

    /// Number of children of a branch.
    #[inline]
    pub(crate) fn count(self) -> usize {
        (self.0 & BITMAP).count_ones() as usize
    }

    /// Whether a branch has a child for `mark`.
    #[inline]
    pub(crate) fn has(self, mark: u8) -> bool {
        self.0 & bit(mark) != 0
    }

    /// Number of children with a smaller mark. This is the index of the child for `mark`, if there is one.
    #[inline]
    pub(crate) fn rank(self, mark: u8) -> usize {
        (self.0 & BITMAP & (bit(mark) - 1)).count_ones() as usize
    }

    /// The index of the child for `mark`, or 0, the child with the smallest mark. Every leaf below shares the common
    /// prefix. If a key ends here, child 0 is its leaf, which lookups often need: the zone of a name, or a delegation
    /// above it.
    #[inline]
    pub(crate) fn child_index(self, mark: u8) -> usize {
        if self.has(mark) { self.rank(mark) } else { 0 }
    }

    pub(crate) fn with(self, mark: u8) -> Self {
        Self(self.0 | bit(mark))
    }

    pub(crate) fn without(self, mark: u8) -> Self {
        Self(self.0 & !bit(mark))
    }

    /// Size of the block in granules.
    pub(crate) fn granules(self) -> usize {
        if self.is_branch() {
            branch_granules(self.count())
        } else if self.is_leaf() {
            leaf_granules(self.len())
        } else {
            (self.0 >> SHIFT) as usize
        }
    }
}

/// Granules of a leaf of `len` bytes.
pub(crate) fn leaf_granules(len: usize) -> usize {
    round_up((4 + len).div_ceil(GRANULE_BYTES))
}

/// Granules of a branch with `count` children.
pub(crate) fn branch_granules(count: usize) -> usize {
    1 + count.div_ceil(2)
}

#[inline]
fn bit(mark: u8) -> u64 {
    1 << (SHIFT + u32::from(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_branch_has_room_for_every_mark_and_offset() {
        let mut header = BlockHeader::branch(crate::limits::KEY_SYMBOLS_MAX);
        for mark in (0..CHILDREN_MAX as u8).rev() {
            assert!(!header.has(mark));
            header = header.with(mark);
            assert_eq!(header.rank(mark), 0);
        }
        assert_eq!(header.count(), CHILDREN_MAX);
        assert_eq!(header.offset(), crate::limits::KEY_SYMBOLS_MAX);
        assert_eq!(header.rank(CHILDREN_MAX as u8 - 1), CHILDREN_MAX - 1);
        assert!(header.is_branch() && !header.is_marked());
        assert_eq!(header.granules(), 27);
    }

    #[test]
    fn blocks_know_their_size() {
        assert_eq!(BlockHeader::leaf(0).granules(), 1);
        assert_eq!(BlockHeader::leaf(4).granules(), 1);
        assert_eq!(BlockHeader::leaf(5).granules(), 2);
        assert_eq!(BlockHeader::leaf(crate::limits::LEAF_BYTES_MAX).len(), crate::limits::LEAF_BYTES_MAX);
        assert_eq!(BlockHeader::free(1 << 32).granules(), 1 << 32);
        assert!(BlockHeader::free(3).is_free());
    }
}
