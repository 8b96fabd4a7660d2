//! What each version allocated and replaced: the open version, the sealed ones, and retired blocks.
//!
//! - A block of the open version lies behind the tail that the version began with, or carries the open mark and is in
//!   `allocated`. It may be changed in place, and is freed immediately when it is discarded.
//! - A block of an older version is only noted in `replaced` when it is discarded. It is retired when the version that
//!   replaced it is published, and freed when no reader can use it any more.
//! - Dropping versions frees what they allocated (their `allocated`, and all live blocks after their first tail), and
//!   forgets what they replaced.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::arena::{Arena, Owned};
use crate::limits::{RECLAIM_STEP_MAX, VERSIONS_MAX};
use crate::mapping::Mapping;
use crate::qsbr::Domain;
use crate::space::{Release, Space};
use crate::tree::{Tree, Version};
use crate::vertex::{OPEN, Word};

/// No space for what a version wants to keep. Nothing was changed by the call that says so.
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
            Full::Leaf => "a leaf is longer than the store takes",
        })
    }
}

impl std::error::Error for Full {}

/// What one version changed.
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
struct Batch {
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
    retired: VecDeque<Batch>,
    retired_granules: usize,
    retired_trees: usize,
    /// Granules that were ever retired.
    retired_granules_total: u64,
    /// Allocated minus replaced granules, without dropped trees; modulo 2^64.
    live_granules: u64,
    /// Granules that were ever allocated.
    allocated_granules: u64,
    /// Roots of parts of dropped trees whose grace period has passed: a stack, so that freeing can stop anywhere.
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

    /// Dropped trees that are not freed whole yet, those of unpublished versions left out.
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

    /// Whether [`Ledger::release_free`] would give enough memory back to be worth its walk over the arena.
    pub(crate) fn is_release_due(&self) -> bool {
        self.space.is_release_due()
    }

    /// Gives the memory of free blocks back to the operating system, as far as they lie side by side.
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
    pub(crate) fn allocate(&mut self, granules: usize) -> Result<Owned, Full> {
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
        let block = unsafe { Owned::assume(handle, mark) };
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

    /// Merges free blocks. What `allocated` of the open version lists may be free: such blocks may vanish into greater
    /// ones.
    fn merge(&mut self, release: Release) {
        let arena = self.arena();
        self.open.allocated.retain(|handle| arena.word(*handle).is_marked());
        self.open.allocated.sort_unstable();
        self.open.allocated.dedup();
        let mut barriers: Vec<usize> = self.sealed.iter().map(|sealed| sealed.changes.start).collect();
        barriers.push(self.open.start);
        self.space.merge(&barriers, release);
    }

    fn is_open(&self, handle: u32, word: Word) -> bool {
        handle as usize >= self.open.start || word.is_marked()
    }

    /// The right to change a block, if it belongs to the open version.
    pub(crate) fn own(&self, handle: u32) -> Option<Owned> {
        let word = self.arena().word(handle);
        // SAFETY: the open version allocated the block and no reader sees that version. Views of the writer
        // borrow the store, so none lives while the block is changed.
        self.is_open(handle, word).then(|| unsafe { Owned::assume(handle, word.0 & OPEN) })
    }

    /// Discards a block.
    pub(crate) fn discard(&mut self, handle: u32) {
        let granules = self.arena().word(handle).granules();
        self.live_granules = self.live_granules.wrapping_sub(granules as u64);
        match self.own(handle) {
            Some(block) => self.space.give(block),
            None => {
                self.open.replaced_granules += granules;
                self.open.replaced.push(handle);
            }
        }
    }

    /// Gives a block back that was allocated for nothing.
    pub(crate) fn give_back(&mut self, block: Owned) {
        let granules = self.arena().word(block.handle()).granules();
        self.live_granules = self.live_granules.wrapping_sub(granules as u64);
        self.space.give(block);
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
        assert!(self.sealed.len() < VERSIONS_MAX, "sealed versions pile up unpublished");
        let arena = self.arena();
        // A block that is listed twice has lost its mark when it is met again, a free one has none.
        self.open.allocated.retain(|handle| {
            let word = arena.word(*handle);
            if word.is_marked() {
                // SAFETY: marked, so it belongs to the version that is open until this function returns.
                let block = unsafe { Owned::assume(*handle, 0) };
                arena.set_word(&block, word);
            }
            word.is_marked()
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
                self.retired.push_back(Batch { epoch: 0, replaced, dropped });
            }
            count += 1;
        }
        if count == 0 {
            return;
        }
        let (version, root) = self.published;
        // Readers go from the root published before to this one: what lay between was let go under this epoch too.
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
                // What is free was freed by its own version, or is listed twice.
                if !self.arena().word(handle).is_free() {
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
        self.space.give(unsafe { Owned::assume(handle, 0) });
    }

    // Retired blocks.

    /// Frees at most `step` blocks that no reader can hold any more. True when there are more of them.
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
                self.retired_granules -= self.space.arena().word(handle).granules();
                // SAFETY: retired by a version published under an epoch that every reader has passed, so no published
                // root that anyone holds leads to it.
                self.space.give(unsafe { Owned::assume(handle, 0) });
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
        let word = arena.word(handle);
        assert!(!word.is_free(), "a dropped tree holds a free block");
        if word.is_branch() {
            self.freeing.extend((0..word.count()).map(|index| arena.child(handle, index)));
        }
        // SAFETY: the tree was dropped by a version published under an epoch that every reader has passed, and a tree
        // owns all below its root.
        self.space.give(unsafe { Owned::assume(handle, 0) });
    }
}
