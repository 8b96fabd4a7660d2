//! Blocks in the arena: reads by handle, and writes to blocks that no reader can reach.
//!
//! # Why reading is sound
//! A reader takes handles only from a root that it has pinned and from vertices below it. Such blocks are written
//! before the root is published (release, acquire), and not again before every reader that could have seen them has
//! moved on (`qsbr.rs`). The writer's own reads happen on the thread that holds `&Store`, so nothing is written then.
//! Every handle and every leaf length is checked against the committed range, so even a stale [`crate::Tree`] cannot
//! make a read leave the arena.
//!
//! # Why writing is sound
//! Writing needs an [`OwnedBlock`], which no published tree contains. Only four places create one, each with a SAFETY
//! comment.

use std::ptr::NonNull;

use crate::limits::CHILDREN_MAX;
use crate::mapping::Mapping;
use crate::vertex::{BlockHeader, GRANULE_BYTES, OPEN};

/// Committed granules after the last block, so that reading a whole branch needs one check.
pub(crate) const SLACK_GRANULES: usize = 32;

/// Most vertices are shorter than a cache line, but about half of them span two. Prefetching the line of this byte in
/// addition to the first saves a second wait, a third of the time of a batched lookup.
pub(crate) const HALF_LINE_BYTES: usize = 40;

const _: () = assert!(SLACK_GRANULES > 1 + CHILDREN_MAX.div_ceil(2));

/// The committed part of a mapping, addressed by handles.
#[derive(Clone, Copy)]
pub(crate) struct Arena {
    base: NonNull<u8>,
    /// Handles from here on are out of range; [`SLACK_GRANULES`] more are committed.
    limit: usize,
}

// SAFETY: an arena is an address and a length. Each read and write through it has its own argument, which does not
// depend on the thread.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// A block that no reader can reach, so it may be written.
#[derive(Debug)]
pub(crate) struct OwnedBlock {
    handle: u32,
    /// [`OPEN`] or 0. Every write to the block's first word keeps it.
    mark: u64,
}

impl OwnedBlock {
    /// # Safety
    /// No reader can reach the block at `handle` now, nor while the result lives: it is fresh from the allocator, or
    /// was allocated by a version that is not published, or its grace period has passed.
    pub(crate) unsafe fn assume(handle: u32, mark: u64) -> Self {
        debug_assert!(mark == 0 || mark == OPEN);
        Self { handle, mark }
    }

    pub(crate) fn handle(&self) -> u32 {
        self.handle
    }
}

impl Arena {
    /// The first `committed` granules of `mapping`. The caller keeps the mapping alive as long as the arena is used.
    pub(crate) fn new(mapping: &Mapping, committed: usize) -> Self {
        debug_assert!(committed * GRANULE_BYTES <= mapping.bytes());
        Self { base: mapping.base(), limit: committed.saturating_sub(SLACK_GRANULES) }
    }

    /// The address of a block. Panics for a handle out of range, which only a stale tree has.
    #[inline]
    fn at(self, handle: u32) -> NonNull<u8> {
        assert!((handle as usize) < self.limit, "a handle out of the arena: the tree is stale");
        // SAFETY: the handle is less than the limit, so the address lies in the committed part of the mapping.
        unsafe { self.base.add(handle as usize * GRANULE_BYTES) }
    }

    /// The first word of a block.
    #[inline]
    pub(crate) fn header(self, handle: u32) -> BlockHeader {
        // SAFETY: committed and aligned to 8; nobody writes it meanwhile (the module's first argument).
        BlockHeader(u64::from_le(unsafe { self.at(handle).cast::<u64>().read() }))
    }

    /// The child at `index` of a branch.
    #[inline]
    pub(crate) fn child(self, handle: u32, index: usize) -> u32 {
        debug_assert!(index < self.header(handle).count());
        assert!(index < CHILDREN_MAX);
        // SAFETY: a branch vertex with all children ends before the slack does, so the read stays in the committed
        // part; aligned to 4; nobody writes it meanwhile (the module's first argument).
        u32::from_le(unsafe { self.at(handle).add(GRANULE_BYTES + 4 * index).cast::<u32>().read() })
    }

    /// All children of a branch.
    pub(crate) fn children(self, handle: u32, out: &mut [u32; CHILDREN_MAX]) -> usize {
        let count = self.header(handle).count();
        for (index, child) in out.iter_mut().enumerate().take(count) {
            *child = self.child(handle, index);
        }
        count
    }

    /// The bytes of a leaf.
    ///
    /// # Safety
    /// The block is not written, and the mapping is not dropped, for `'a`.
    #[inline]
    pub(crate) unsafe fn leaf<'a>(self, handle: u32) -> &'a [u8] {
        let header = self.header(handle);
        assert!(header.is_leaf(), "not a leaf: the tree is stale");
        let end = handle as usize * GRANULE_BYTES + 4 + header.len();
        assert!(end <= (self.limit + SLACK_GRANULES) * GRANULE_BYTES, "a leaf out of the arena: the tree is stale");
        // SAFETY: the range was just found to lie in the committed part; the caller vouches that it stays unwritten.
        unsafe { std::slice::from_raw_parts(self.at(handle).add(4).as_ptr(), header.len()) }
    }

    /// Prefetches the cache line with the block's byte at `ahead`.
    #[inline]
    pub(crate) fn prefetch(self, handle: u32, ahead: usize) {
        let address = self.base.as_ptr().wrapping_add(handle as usize * GRANULE_BYTES + ahead);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch is a hint; it reads nothing and faults at no address.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = address;
    }

    /// Writes the first word of a block; the block's open mark stays.
    pub(crate) fn set_header(self, block: &OwnedBlock, header: BlockHeader) {
        let value = header.0 & !OPEN | block.mark;
        // SAFETY: in range (checked), aligned to 8, and an owned block has no reader.
        unsafe { self.at(block.handle).cast::<u64>().write(value.to_le()) };
    }

    /// Makes a block free, `granules` long.
    pub(crate) fn set_free(self, block: OwnedBlock, granules: usize) {
        let at = self.at(block.handle);
        #[cfg(asan)]
        crate::mapping::asan::unpoison(at.as_ptr(), GRANULE_BYTES);
        // SAFETY: in range (checked), aligned to 8, and an owned block has no reader.
        unsafe { at.cast::<u64>().write(BlockHeader::free(granules).0.to_le()) };
        let body_bytes = (granules - 1) * GRANULE_BYTES;
        if cfg!(debug_assertions) && !cfg!(asan) {
            // Makes reads of freed bytes visible in tests. Big blocks are filled only in part, to keep tests fast.
            // SAFETY: the block is `granules` long, lies in the committed part and has no reader.
            unsafe { at.add(GRANULE_BYTES).write_bytes(0xa5, body_bytes.min(256)) };
        }
        #[cfg(asan)]
        crate::mapping::asan::poison(at.as_ptr().wrapping_add(GRANULE_BYTES), body_bytes);
    }

    /// Makes a free block an empty leaf of `granules`, so that the arena can be walked before the block has contents.
    pub(crate) fn set_fresh(self, block: &OwnedBlock, granules: usize) {
        #[cfg(asan)]
        crate::mapping::asan::unpoison(self.at(block.handle).as_ptr(), granules * GRANULE_BYTES);
        self.set_header(block, BlockHeader::leaf(granules * GRANULE_BYTES - 4));
    }

    /// Writes a leaf of `bytes` into a block of at least that size.
    pub(crate) fn set_leaf(self, block: &OwnedBlock, bytes: &[u8]) {
        let header = BlockHeader::leaf(bytes.len()).0 as u32 & !(OPEN as u32) | block.mark as u32;
        let end = block.handle as usize * GRANULE_BYTES + 4 + bytes.len();
        assert!(end <= (self.limit + SLACK_GRANULES) * GRANULE_BYTES);
        // SAFETY: in range (checked) and aligned to 4; an owned block has no reader. The bytes come from a reference,
        // and no reference points into an owned block, so the two do not overlap.
        unsafe {
            let at = self.at(block.handle);
            at.cast::<u32>().write(header.to_le());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(4).as_ptr(), bytes.len());
        }
    }

    /// Writes one child of a branch.
    pub(crate) fn set_child(self, block: &OwnedBlock, index: usize, child: u32) {
        assert!(index < CHILDREN_MAX);
        // SAFETY: within the slack of a checked handle, aligned to 4; an owned block has no reader. The block is big
        // enough: its size was computed from the number of its children.
        unsafe { self.at(block.handle).add(GRANULE_BYTES + 4 * index).cast::<u32>().write(child.to_le()) };
    }

    /// Writes a whole branch.
    pub(crate) fn set_branch(self, block: &OwnedBlock, header: BlockHeader, children: &[u32]) {
        debug_assert_eq!(header.count(), children.len());
        self.set_header(block, header);
        for (index, child) in children.iter().enumerate() {
            self.set_child(block, index, *child);
        }
    }
}
