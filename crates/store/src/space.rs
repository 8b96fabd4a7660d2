//! The allocator of the arena: size classes, free lists, and a growing tail.
//!
//! A free block is in the list of the greatest class that it can serve. If much of the arena is free when it would
//! grow, one walk over the arena merges adjacent free blocks, and returns the memory of big runs to the operating
//! system.

use std::sync::Arc;

use crate::arena::{Arena, OwnedBlock, SLACK_GRANULES};
use crate::limits::{
    COMMIT_STEP_BYTES, MERGE_GRANULES_MIN, MERGE_SHARE, RELEASE_AGAIN_SHARE, RELEASE_ALL_BYTES_MIN, RELEASE_BYTES_MIN,
    RELEASE_FREE_BYTES_MIN, RELEASE_PAGE_BYTES, RELEASE_WALK_BYTES_MAX, RUN_GRANULES_MIN,
};
use crate::mapping::{HUGE_PAGE_BYTES, Mapping};
use crate::size_class::{CLASS_COUNT, class_of, round_up};
use crate::vertex::{BlockHeader, GRANULE_BYTES};

const PAGE_GRANULES: usize = HUGE_PAGE_BYTES / GRANULE_BYTES;

/// A stack of free blocks for each class, and a bitmap of the stacks that are not empty.
struct FreeLists {
    stacks: Vec<Vec<u32>>,
    occupied: [u64; CLASS_COUNT / 64],
}

impl FreeLists {
    fn new() -> Self {
        Self { stacks: vec![Vec::new(); CLASS_COUNT], occupied: [0; CLASS_COUNT / 64] }
    }

    fn push(&mut self, handle: u32, granules: usize) {
        let class = class_of(granules);
        self.stacks[class].push(handle);
        self.occupied[class / 64] |= 1 << (class % 64);
    }

    fn pop(&mut self, class: usize) -> Option<u32> {
        let handle = self.stacks[class].pop()?;
        if self.stacks[class].is_empty() {
            self.occupied[class / 64] &= !(1 << (class % 64));
        }
        Some(handle)
    }

    /// A block of `class`, or of the next greater class that has one.
    fn pop_from(&mut self, class: usize) -> Option<u32> {
        let mut skip = class % 64;
        for index in class / 64..self.occupied.len() {
            let rest = self.occupied[index] >> skip << skip;
            if rest != 0 {
                return self.pop(index * 64 + rest.trailing_zeros() as usize);
            }
            skip = 0;
        }
        None
    }

    fn clear(&mut self) {
        self.stacks.iter_mut().for_each(Vec::clear);
        self.occupied = [0; CLASS_COUNT / 64];
    }
}

/// The memory that a merge returns to the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// Whole huge pages of large runs. Small runs are soon reused.
    HugePages,
    /// As much as possible, even if that splits huge pages.
    AllOf,
}

/// The allocator of one arena. All sizes are in granules.
pub(crate) struct Space {
    mapping: Arc<Mapping>,
    arena: Arena,
    lists: FreeLists,
    tail: usize,
    committed: usize,
    reserved: usize,
    used: usize,
    freed_since_merge: usize,
    freed_since_release: usize,
}

impl Space {
    pub(crate) fn new(mapping: Arc<Mapping>) -> Self {
        let reserved = mapping.bytes() / GRANULE_BYTES;
        let arena = Arena::new(&mapping, 0);
        // Granule 0 is never allocated: handle 0 is the empty tree.
        Self {
            mapping,
            arena,
            lists: FreeLists::new(),
            tail: 1,
            committed: 0,
            reserved,
            used: 0,
            freed_since_merge: 0,
            freed_since_release: 0,
        }
    }

    /// The committed part of the arena.
    pub(crate) fn arena(&self) -> Arena {
        self.arena
    }

    /// The first granule that was never allocated.
    pub(crate) fn tail(&self) -> usize {
        self.tail
    }

    pub(crate) fn committed(&self) -> usize {
        self.committed
    }

    pub(crate) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Granules in blocks that are not free.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Granules in free blocks below the tail.
    pub(crate) fn free(&self) -> usize {
        self.tail - 1 - self.used
    }

    /// Allocates a block of `granules` (already rounded up) without growing the arena. The block's first word is not
    /// that of a live block yet.
    pub(crate) fn take(&mut self, granules: usize) -> Option<u32> {
        debug_assert_eq!(granules, round_up(granules));
        let class = class_of(granules);
        if let Some(handle) = self.lists.pop(class) {
            return Some(self.carve(handle, granules));
        }
        if let Some(handle) = self.lists.pop_from(class_of(RUN_GRANULES_MIN).max(class + 1)) {
            return Some(self.carve(handle, granules));
        }
        if self.tail + granules + SLACK_GRANULES > self.committed {
            return None;
        }
        // The reserve is bounded by what a u32 reaches.
        let handle = self.tail as u32;
        self.tail += granules;
        self.used += granules;
        Some(handle)
    }

    /// Allocates a block from any free block that is big enough.
    pub(crate) fn take_any(&mut self, granules: usize) -> Option<u32> {
        let handle = self.lists.pop_from(class_of(granules))?;
        Some(self.carve(handle, granules))
    }

    /// Allocates the first `granules` of the free block at `handle`. The rest stays free.
    fn carve(&mut self, handle: u32, granules: usize) -> u32 {
        let header = self.arena.header(handle);
        let size = header.granules();
        assert!(header.is_free() && size >= granules, "a block in a free list is not free");
        if size > granules {
            let rest = handle + granules as u32;
            // SAFETY: the rest of a free block is free: no tree holds it.
            self.arena.set_free(unsafe { OwnedBlock::assume(rest, 0) }, size - granules);
            self.lists.push(rest, size - granules);
        }
        self.used += granules;
        handle
    }

    /// Frees a block.
    ///
    /// # Panics
    /// When the block is free already.
    pub(crate) fn free_block(&mut self, block: OwnedBlock) {
        let handle = block.handle();
        let header = self.arena.header(handle);
        assert!(!header.is_free(), "a block is freed twice");
        let granules = header.granules();
        self.arena.set_free(block, granules);
        self.lists.push(handle, granules);
        self.used -= granules;
        self.freed_since_merge += granules;
        self.freed_since_release += granules;
    }

    /// Commits room for `granules` at the tail. Returns false if the reserve is used up or the operating system
    /// refuses.
    pub(crate) fn grow(&mut self, granules: usize) -> bool {
        let need = self.tail + granules + SLACK_GRANULES;
        need <= self.reserved && self.commit(need)
    }

    /// Commits the huge page after the one with the tail, so that [`crate::Prefaulter`] can touch it before its first
    /// use. Ignores failures, which the allocation of that memory will report. Does nothing while a merge is due.
    pub(crate) fn commit_ahead(&mut self) {
        let next_page = ((self.tail / PAGE_GRANULES + 2) * PAGE_GRANULES).min(self.reserved);
        if next_page > self.committed && !self.is_merge_due() {
            self.commit(next_page);
        }
    }

    /// Commits at least this many granules, or the whole reserve. Returns false if the operating system refuses.
    fn commit(&mut self, need: usize) -> bool {
        let step = COMMIT_STEP_BYTES / GRANULE_BYTES;
        let committed = need.next_multiple_of(step).min(self.reserved);
        if !self.mapping.commit(self.committed * GRANULE_BYTES, committed * GRANULE_BYTES) {
            return false;
        }
        self.committed = committed;
        self.arena = Arena::new(&self.mapping, committed);
        true
    }

    /// Whether to merge free blocks instead of growing: much is free, and much was freed since the last merge.
    pub(crate) fn is_merge_due(&self) -> bool {
        self.tail > MERGE_GRANULES_MIN && self.free() > self.tail / 4 && self.freed_since_merge > self.tail / 4
    }

    /// Whether a merge may find `granules` in a full arena. A merge walks over the arena, so enough must have been
    /// freed since the last one.
    pub(crate) fn is_merge_promising(&self, granules: usize) -> bool {
        self.free() >= granules && self.freed_since_merge >= self.reserved / MERGE_SHARE
    }

    /// Whether an idle store should return memory: much is free, some of it was freed since the last time, and the
    /// arena is small enough for a short walk.
    pub(crate) fn is_release_due(&self) -> bool {
        let worth = (RELEASE_FREE_BYTES_MIN / GRANULE_BYTES).max(self.tail / 4);
        self.tail <= RELEASE_WALK_BYTES_MAX / GRANULE_BYTES
            && self.free() >= worth
            && self.freed_since_release >= worth / RELEASE_AGAIN_SHARE
    }

    /// Merges adjacent free blocks, never across a granule in `barriers` (ascending), and returns the memory of big
    /// runs.
    pub(crate) fn merge(&mut self, barriers: &[usize], release: Release) {
        self.lists.clear();
        self.freed_since_merge = 0;
        if release == Release::AllOf {
            self.freed_since_release = 0;
        }
        let mut barriers = barriers.iter().copied().peekable();
        let mut at = 1;
        while at < self.tail {
            let header = self.arena.header(at as u32);
            if !header.is_free() {
                at += header.granules();
                continue;
            }
            while barriers.next_if(|barrier| *barrier <= at).is_some() {}
            let end = barriers.peek().copied().unwrap_or(self.tail).min(self.tail);
            let start = at;
            at += header.granules();
            while at < end {
                let next: BlockHeader = self.arena.header(at as u32);
                if !next.is_free() {
                    break;
                }
                at += next.granules();
            }
            self.put_run(start, at - start, release);
        }
    }

    fn put_run(&mut self, start: usize, granules: usize, release: Release) {
        // SAFETY: the run consists of free blocks, which no tree contains.
        self.arena.set_free(unsafe { OwnedBlock::assume(start as u32, 0) }, granules);
        self.lists.push(start as u32, granules);
        let (bytes_min, page_bytes) = match release {
            Release::HugePages => (RELEASE_BYTES_MIN, HUGE_PAGE_BYTES),
            Release::AllOf => (RELEASE_ALL_BYTES_MIN, RELEASE_PAGE_BYTES),
        };
        if granules * GRANULE_BYTES >= bytes_min {
            // SAFETY: as above; the run's first word, which is read again, is left out.
            unsafe {
                self.mapping.release((start + 1) * GRANULE_BYTES, (start + granules) * GRANULE_BYTES, page_bytes)
            };
        }
    }

    /// Calls `visit` for each block from granule `from` to the tail that is not free.
    pub(crate) fn live_from(&self, from: usize) -> impl Iterator<Item = u32> + use<> {
        let (arena, tail) = (self.arena, self.tail);
        let mut at = from;
        std::iter::from_fn(move || {
            while at < tail {
                let handle = at as u32;
                let header = arena.header(handle);
                at += header.granules();
                if !header.is_free() {
                    return Some(handle);
                }
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn next_page_is_usable() {
        let mapping = Arc::new(Mapping::reserve(32 << 20, false).expect("address space"));
        let mut space = Space::new(mapping);
        let granules = round_up((1 << 20) / GRANULE_BYTES);
        for count in 0..31 {
            space.commit_ahead();
            let next_page = (space.tail / PAGE_GRANULES + 2) * PAGE_GRANULES;
            assert!(space.committed >= next_page.min(space.reserved), "block {count}");
            assert!(space.take(granules).is_some(), "it was usable in time: block {count}");
        }
    }

    /// Bytes of a mapping that are resident, by all areas that the kernel has of it.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn resident_bytes(mapping: &Mapping) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("a process may read about itself");
        let first = mapping.base().addr().get();
        let (mut is_ours, mut bytes) = (false, 0);
        for line in smaps.lines() {
            let from = line.split_once('-').and_then(|(from, _)| usize::from_str_radix(from, 16).ok());
            if let Some(from) = from {
                is_ours = (first..first + mapping.bytes()).contains(&from);
            } else if let (true, Some(rest)) = (is_ours, line.strip_prefix("Rss:")) {
                bytes += rest.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10;
            }
        }
        bytes
    }

    /// A space with 4,000 blocks of 8,000 bytes that are all in use and resident.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn filled() -> (Arc<Mapping>, Space, Vec<OwnedBlock>) {
        const BLOCK_BYTES: usize = 8_000;
        let mapping = Arc::new(Mapping::reserve(64 << 20, false).expect("address space"));
        let mut space = Space::new(Arc::clone(&mapping));
        let granules = round_up(BLOCK_BYTES / GRANULE_BYTES);
        let mut blocks = Vec::new();
        for _ in 0..4_000 {
            assert!(space.grow(granules));
            let handle = space.take(granules).expect("there is room");
            // SAFETY: fresh from the allocator.
            let block = unsafe { OwnedBlock::assume(handle, 0) };
            space.arena().set_fresh(&block, granules);
            // SAFETY: the block is as long, and nobody else knows of it.
            unsafe { mapping.base().add(handle as usize * GRANULE_BYTES + 8).write_bytes(7, BLOCK_BYTES - 8) };
            blocks.push(block);
        }
        assert!(!space.is_release_due(), "nothing is free");
        (mapping, space, blocks)
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn what_is_freed_after_a_release_is_released_too() {
        let (mapping, mut space, blocks) = filled();
        for (number, block) in blocks.into_iter().enumerate().filter(|(number, _)| number % 100 != 0) {
            space.free_block(block);
            // The store is idle whenever a release is due. Once it merges blocks for another reason.
            if space.is_release_due() {
                space.merge(&[], Release::AllOf);
            } else if number == 3_900 {
                space.merge(&[], Release::HugePages);
            }
        }
        let left = resident_bytes(&mapping);
        assert!(left <= 4 << 20, "{left} bytes are resident");
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn free_memory_between_used_blocks_is_released() {
        let (mapping, mut space, blocks) = filled();
        let resident = resident_bytes(&mapping);
        // One in a hundred stays.
        blocks
            .into_iter()
            .enumerate()
            .filter(|(number, _)| number % 100 != 0)
            .for_each(|(_, block)| space.free_block(block));
        assert!(space.is_release_due());
        space.merge(&[], Release::AllOf);
        let left = resident_bytes(&mapping);
        assert!(resident > 30 << 20 && left < resident / 5, "{resident} bytes before, {left} after");
        assert!(!space.is_release_due(), "once is enough");
        assert_eq!(space.live_from(1).count(), 40);
    }

    proptest! {
        #[test]
        fn allocated_blocks_never_overlap_and_are_all_freed(
            steps in proptest::collection::vec((1_usize..2000, any::<u8>()), 1..400),
        ) {
            let mapping = Arc::new(Mapping::reserve(1 << 20, false).expect("address space"));
            let mut space = Space::new(mapping);
            assert!(space.grow(1));
            let mut live: Vec<(u32, usize)> = Vec::new();
            for (granules, choice) in steps {
                if choice % 3 == 0 && !live.is_empty() {
                    let (handle, _) = live.swap_remove(choice as usize % live.len());
                    // SAFETY: this test is the only one that knows the block.
                    space.free_block(unsafe { OwnedBlock::assume(handle, 0) });
                } else {
                    let granules = round_up(granules);
                    if choice % 16 == 1 {
                        space.merge(&[100, 5000], Release::AllOf);
                    }
                    if let Some(handle) = space.take(granules).or_else(|| space.take_any(granules)) {
                        // SAFETY: fresh from the allocator.
                        space.arena().set_fresh(&unsafe { OwnedBlock::assume(handle, 0) }, granules);
                        live.push((handle, granules));
                    }
                }
                let mut seen: Vec<u32> = live.iter().map(|block| block.0).collect();
                seen.sort_unstable();
                prop_assert_eq!(seen, space.live_from(1).collect::<Vec<_>>());
                prop_assert_eq!(live.iter().map(|block| block.1).sum::<usize>(), space.used());
            }
        }
    }
}
