//! Records the blocks that each version allocated and replaced, and the retired blocks.
//!
//! - A block of the open version lies behind the tail that the version began with, or carries the open mark and is in
//!   `allocated`. It may be changed in place, and is freed immediately when it is discarded.
//! - A block of an older version is only noted in `replaced` when it is discarded. It is retired when the version that
//!   replaced it is published, and freed when no reader can use it any more.
//! - Dropping versions frees what they allocated (their `allocated`, and all live blocks after their first tail), and
//!   forgets what they replaced.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::arena::{Arena, OwnedBlock};
use crate::limits::{RECLAIM_STEP_MAX, VERSIONS_MAX};
use crate::mapping::Mapping;
use crate::qsbr::Domain;
use crate::space::{Release, Space};
use crate::tree::{Tree, Version};
use crate::vertex::{BlockHeader, OPEN};

/// There is no space. The call has changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The arena's reserve is used up, or the operating system gives no more memory. Readers that hold old versions may
    /// be the cause ([`crate::Stats::retired_bytes`]).
    Arena,
    /// The leaf has more than [`crate::limits::LEAF_BYTES_MAX`] bytes.
    Leaf,
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Full::Arena => "the arena of the store is full",
            Full::Leaf => "a leaf is too long for the store",
        })
    }
}

impl std::error::Error for Full {}

/// The changes of one version.
#[derive(Default)]
struct Changes {
    /// The tail when the version began.
    start: usize,
    /// Blocks below `start` that the version allocated. In the open version some may be free again, or be listed twice.
    allocated: Vec<u32>,
    /// Blocks of older versions that this version replaced.
    replaced: Vec<u32>,
    replaced_granules: usize,
    /// Whole trees that the version dropped, and the size of each in granules as given by the caller.
    dropped: Vec<(Tree, usize)>,
}

struct Sealed {
    version: Version,
    root: Tree,
    changes: Changes,
}

/// Blocks and trees that became unreachable when `epoch` was published.
struct RetiredBatch {
    epoch: u64,
    replaced: Vec<u32>,
    dropped: Vec<(Tree, usize)>,
}

/// The writer's record of all blocks.
pub(crate) struct Ledger {
    space: Space,
    domain: Arc<Domain>,
    open: Changes,
    sealed: VecDeque<Sealed>,
    retired: VecDeque<RetiredBatch>,
    retired_granules: usize,
    retired_trees: usize,
    /// Granules that were ever retired.
    retired_granules_total: u64,
    /// Allocated minus replaced granules, without dropped trees; modulo 2^64.
    live_granules: u64,
    /// Granules that were ever allocated.
    allocated_granules: u64,
    /// A stack of roots in dropped trees that no reader uses any more. Freeing can stop after any of them.
    freeing: Vec<u32>,
    published: (Version, Tree),
    newest: Version,
}

impl Ledger {
    pub(crate) fn new(mapping: Arc<Mapping>, domain: Arc<Domain>) -> Self {
        let space = Space::new(mapping);
        let open = Changes { start: space.tail(), ..Changes::default() };
        Self {
            space,
            domain,
            open,
            sealed: VecDeque::new(),
            retired: VecDeque::new(),
            retired_granules: 0,
            retired_trees: 0,
            retired_granules_total: 0,
            live_granules: 0,
            allocated_granules: 0,
            freeing: Vec::new(),
            published: (Version(0), Tree::EMPTY),
            newest: Version(0),
        }
    }

    pub(crate) fn arena(&self) -> Arena {
        self.space.arena()
    }

    /// See [`Space::commit_ahead`].
    pub(crate) fn commit_ahead(&mut self) {
        self.space.commit_ahead();
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn retired_granules(&self) -> usize {
        self.retired_granules
    }

    /// Dropped trees of published versions that are not completely freed yet.
    pub(crate) fn retired_trees(&self) -> usize {
        self.retired_trees + usize::from(!self.freeing.is_empty())
    }

    /// Granules that changes of trees allocated minus those they replaced, modulo 2^64.
    pub(crate) fn live_granules(&self) -> u64 {
        self.live_granules
    }

    /// Granules that were ever allocated.
    pub(crate) fn allocated_granules(&self) -> u64 {
        self.allocated_granules
    }

    /// Whether [`Ledger::release_free`] would return enough memory to be worth its walk over the arena.
    pub(crate) fn is_release_due(&self) -> bool {
        self.space.is_release_due()
    }

    /// Returns the memory of adjacent free blocks to the operating system.
    pub(crate) fn release_free(&mut self) {
        if self.space.is_release_due() {
            self.merge(Release::AllOf);
        }
    }

    /// Granules that published versions ever retired.
    pub(crate) fn retired_granules_total(&self) -> u64 {
        self.retired_granules_total
    }

    pub(crate) fn sealed_count(&self) -> usize {
        self.sealed.len()
    }

    pub(crate) fn published(&self) -> (Version, Tree) {
        self.published
    }

    /// The root last sealed, or the published one.
    pub(crate) fn head(&self) -> Tree {
        self.sealed.back().map_or(self.published.1, |sealed| sealed.root)
    }

    // The open version.

    /// Takes a block for the open version.
    pub(crate) fn allocate(&mut self, granules: usize) -> Result<OwnedBlock, Full> {
        let handle = match self.space.take(granules) {
            Some(handle) => handle,
            None => self.allocate_slowly(granules)?,
        };
        let mark = if handle as usize >= self.open.start {
            0
        } else {
            self.open.allocated.push(handle);
            OPEN
        };
        // SAFETY: fresh from the allocator: no tree holds it.
        let block = unsafe { OwnedBlock::assume(handle, mark) };
        self.arena().set_fresh(&block, granules);
        self.live_granules = self.live_granules.wrapping_add(granules as u64);
        self.allocated_granules += granules as u64;
        Ok(block)
    }

    #[cold]
    fn allocate_slowly(&mut self, granules: usize) -> Result<u32, Full> {
        if self.space.is_merge_due() {
            self.merge(Release::HugePages);
            if let Some(handle) = self.space.take(granules) {
                return Ok(handle);
            }
        }
        if self.space.grow(granules) {
            return self.space.take(granules).ok_or(Full::Arena);
        }
        while self.reclaim(RECLAIM_STEP_MAX) {}
        if let Some(handle) = self.space.take(granules).or_else(|| self.space.take_any(granules)) {
            return Ok(handle);
        }
        if self.space.is_merge_promising(granules) {
            self.merge(Release::HugePages);
            return self.space.take_any(granules).ok_or(Full::Arena);
        }
        Err(Full::Arena)
    }

    /// Merges free blocks. First removes free blocks from `allocated` of the open version, because merging may swallow
    /// them.
    fn merge(&mut self, release: Release) {
        let arena = self.arena();
        self.open.allocated.retain(|handle| arena.header(*handle).is_marked());
        self.open.allocated.sort_unstable();
        self.open.allocated.dedup();
        let mut barriers: Vec<usize> = self.sealed.iter().map(|sealed| sealed.changes.start).collect();
        barriers.push(self.open.start);
        self.space.merge(&barriers, release);
    }

    fn is_open(&self, handle: u32, header: BlockHeader) -> bool {
        handle as usize >= self.open.start || header.is_marked()
    }

    /// The right to change a block, if it belongs to the open version.
    pub(crate) fn owned(&self, handle: u32) -> Option<OwnedBlock> {
        let header = self.arena().header(handle);
        // SAFETY: the open version allocated the block and no reader sees that version. Views of the writer
        // borrow the store, so none lives while the block is changed.
        self.is_open(handle, header).then(|| unsafe { OwnedBlock::assume(handle, header.0 & OPEN) })
    }

    /// Discards a block.
    pub(crate) fn discard(&mut self, handle: u32) {
        let granules = self.arena().header(handle).granules();
        self.live_granules = self.live_granules.wrapping_sub(granules as u64);
        match self.owned(handle) {
            Some(block) => self.space.free_block(block),
            None => {
                self.open.replaced_granules += granules;
                self.open.replaced.push(handle);
            }
        }
    }

    /// Frees a block that was allocated but not used.
    pub(crate) fn free_unused(&mut self, block: OwnedBlock) {
        let granules = self.arena().header(block.handle()).granules();
        self.live_granules = self.live_granules.wrapping_sub(granules as u64);
        self.space.free_block(block);
    }

    /// Drops a whole tree of this many granules.
    pub(crate) fn drop_tree(&mut self, tree: Tree, granules: usize) {
        if !tree.is_empty() {
            self.open.dropped.push((tree, granules));
        }
    }

    // Versions.

    /// Closes the open version.
    pub(crate) fn seal(&mut self, root: Tree) -> Version {
        assert!(self.sealed.len() < VERSIONS_MAX, "too many sealed versions are unpublished");
        let arena = self.arena();
        // A block that is listed twice has lost its mark the second time, and a free block has no mark.
        self.open.allocated.retain(|handle| {
            let header = arena.header(*handle);
            if header.is_marked() {
                // SAFETY: marked, so it belongs to the version that is open until this function returns.
                let block = unsafe { OwnedBlock::assume(*handle, 0) };
                arena.set_header(&block, header);
            }
            header.is_marked()
        });
        self.newest = Version(self.newest.0 + 1);
        let changes = self.take_open();
        self.sealed.push_back(Sealed { version: self.newest, root, changes });
        self.newest
    }

    fn take_open(&mut self) -> Changes {
        std::mem::replace(&mut self.open, Changes { start: self.space.tail(), ..Changes::default() })
    }

    /// Publishes all sealed versions up to `up_to`.
    pub(crate) fn publish(&mut self, up_to: Version) {
        let mut count = 0;
        let mut replaced_count = 0;
        let retired_before = self.retired.len();
        while let Some(sealed) = self.sealed.pop_front_if(|sealed| sealed.version <= up_to) {
            let Changes { replaced, replaced_granules, dropped, .. } = sealed.changes;
            self.published = (sealed.version, sealed.root);
            let granules = replaced_granules + dropped.iter().map(|(_, granules)| granules).sum::<usize>();
            self.retired_granules += granules;
            self.retired_granules_total += granules as u64;
            self.retired_trees += dropped.len();
            replaced_count += replaced.len();
            if !(replaced.is_empty() && dropped.is_empty()) {
                self.retired.push_back(RetiredBatch { epoch: 0, replaced, dropped });
            }
            count += 1;
        }
        if count == 0 {
            return;
        }
        let (version, root) = self.published;
        // Readers go from the previously published root to this one, so blocks of versions in between retire now too.
        self.retired.range_mut(retired_before..).for_each(|batch| batch.epoch = version.0);
        self.domain.publish(root.to_bits(), version.0);
        self.reclaim(RECLAIM_STEP_MAX.max(2 * replaced_count));
    }

    /// Drops the open version.
    pub(crate) fn abandon(&mut self) {
        let changes = self.take_open();
        self.undo([changes]);
    }

    /// Drops the open version and all sealed ones that are not published.
    pub(crate) fn rewind(&mut self) {
        let open = self.take_open();
        let sealed = std::mem::take(&mut self.sealed);
        self.undo(sealed.into_iter().map(|sealed| sealed.changes).chain([open]));
    }

    /// Frees what the versions allocated, oldest first and up to the open one.
    fn undo(&mut self, versions: impl IntoIterator<Item = Changes>) {
        let mut first_start = None;
        for changes in versions {
            first_start.get_or_insert(changes.start);
            for handle in changes.allocated {
                // A free block was freed by its own version, or is listed twice.
                if !self.arena().header(handle).is_free() {
                    self.undo_block(handle);
                }
            }
        }
        for handle in self.space.live_from(first_start.unwrap_or(self.space.tail())) {
            self.undo_block(handle);
        }
    }

    fn undo_block(&mut self, handle: u32) {
        // SAFETY: allocated by a version that was never published and is being dropped: no reader has seen it, and the
        // writer's own views borrow the store.
        self.space.free_block(unsafe { OwnedBlock::assume(handle, 0) });
    }

    // Retired blocks.

    /// Frees at most `step` blocks that no reader can use any more. Returns whether there are more.
    pub(crate) fn reclaim(&mut self, step: usize) -> bool {
        if self.retired.is_empty() && self.freeing.is_empty() {
            return false;
        }
        let safe = self.domain.safe_epoch();
        for _ in 0..step {
            if let Some(handle) = self.freeing.pop() {
                self.free_dropped(handle);
                continue;
            }
            let Some(batch) = self.retired.front_mut().filter(|batch| batch.epoch <= safe) else {
                return false;
            };
            if let Some(handle) = batch.replaced.pop() {
                self.retired_granules -= self.space.arena().header(handle).granules();
                // SAFETY: retired by a version published under an epoch that every reader has passed, so no published
                // root that anyone holds leads to it.
                self.space.free_block(unsafe { OwnedBlock::assume(handle, 0) });
            } else if let Some((tree, granules)) = batch.dropped.pop() {
                // No reader uses it any more. The rest is freed in steps.
                self.retired_granules -= granules;
                self.retired_trees -= 1;
                self.freeing.push(tree.to_bits());
            } else {
                self.retired.pop_front();
            }
        }
        !self.freeing.is_empty() || self.retired.front().is_some_and(|batch| batch.epoch <= safe)
    }

    /// Frees one block of a dropped tree; its children are next.
    fn free_dropped(&mut self, handle: u32) {
        let arena = self.arena();
        let header = arena.header(handle);
        assert!(!header.is_free(), "a dropped tree holds a free block");
        if header.is_branch() {
            self.freeing.extend((0..header.count()).map(|index| arena.child(handle, index)));
        }
        // SAFETY: the tree was dropped by a version published under an epoch that every reader has passed, and a tree
        // owns all below its root.
        self.space.free_block(unsafe { OwnedBlock::assume(handle, 0) });
    }
}
