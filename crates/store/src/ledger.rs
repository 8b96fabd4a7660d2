//! What each version took and let go: the open one, the sealed ones that wait, and limbo.
//!
//! - A block of the open version lies behind the tail that the version began with, or carries the open mark and is in
//!   `born`. It may be changed in place, and is freed at once when it is let go.
//! - A block of an older version is only noted in `retired` when it is let go. It goes to limbo when the version that
//!   let it go is published, and is freed when no reader can hold it any more.
//! - Dropping versions frees what they took (their `born`, and all that is live behind their first tail), and forgets
//!   what they retired.

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
    /// be the cause ([`crate::Stats::limbo_bytes`]).
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
    /// Blocks below `start` that the version took. In the open version some may be free again, or be listed twice.
    born: Vec<u32>,
    /// Blocks of older versions that the version let go.
    retired: Vec<u32>,
    retired_granules: usize,
    /// Whole trees that the version let go, and the granules that each is said to have.
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
    retired: Vec<u32>,
    dropped: Vec<(Tree, usize)>,
}

/// The writer's books.
pub(crate) struct Ledger {
    space: Space,
    domain: Arc<Domain>,
    open: Changes,
    sealed: VecDeque<Sealed>,
    limbo: VecDeque<Batch>,
    limbo_granules: usize,
    limbo_trees: usize,
    /// All that ever came to limbo.
    let_go_granules: u64,
    /// What was taken less what was let go, dropped trees left out; modulo 2^64.
    held_granules: u64,
    /// All that was ever taken.
    taken_granules: u64,
    /// Roots of parts of dropped trees whose grace period has passed: a stack, so that freeing can stop anywhere.
    falling: Vec<u32>,
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
            limbo: VecDeque::new(),
            limbo_granules: 0,
            limbo_trees: 0,
            let_go_granules: 0,
            held_granules: 0,
            taken_granules: 0,
            falling: Vec::new(),
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

    pub(crate) fn limbo_granules(&self) -> usize {
        self.limbo_granules
    }

    /// Dropped trees that are not freed whole yet, those of unpublished versions left out.
    pub(crate) fn limbo_trees(&self) -> usize {
        self.limbo_trees + usize::from(!self.falling.is_empty())
    }

    /// What changes of trees took less what they let go, modulo 2^64.
    pub(crate) fn held_granules(&self) -> u64 {
        self.held_granules
    }

    /// Granules that were ever taken.
    pub(crate) fn taken_granules(&self) -> u64 {
        self.taken_granules
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

    /// Granules that published versions ever let go.
    pub(crate) fn let_go_granules(&self) -> u64 {
        self.let_go_granules
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
            self.open.born.push(handle);
            OPEN
        };
        // SAFETY: fresh from the allocator: no tree holds it.
        let block = unsafe { Owned::assume(handle, mark) };
        self.arena().set_fresh(&block, granules);
        self.held_granules = self.held_granules.wrapping_add(granules as u64);
        self.taken_granules += granules as u64;
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

    /// Merges free blocks. What `born` of the open version lists may be free: such blocks may vanish into greater ones.
    fn merge(&mut self, release: Release) {
        let arena = self.arena();
        self.open.born.retain(|handle| arena.word(*handle).is_marked());
        self.open.born.sort_unstable();
        self.open.born.dedup();
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

    /// Lets a block go.
    pub(crate) fn discard(&mut self, handle: u32) {
        let granules = self.arena().word(handle).granules();
        self.held_granules = self.held_granules.wrapping_sub(granules as u64);
        match self.own(handle) {
            Some(block) => self.space.give(block),
            None => {
                self.open.retired_granules += granules;
                self.open.retired.push(handle);
            }
        }
    }

    /// Gives a block back that was allocated for nothing.
    pub(crate) fn give_back(&mut self, block: Owned) {
        let granules = self.arena().word(block.handle()).granules();
        self.held_granules = self.held_granules.wrapping_sub(granules as u64);
        self.space.give(block);
    }

    /// Lets a whole tree go, which is said to have so many granules.
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
        self.open.born.retain(|handle| {
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
        let mut retired_count = 0;
        let limbo_before = self.limbo.len();
        while let Some(sealed) = self.sealed.pop_front_if(|sealed| sealed.version <= up_to) {
            let Changes { retired, retired_granules, dropped, .. } = sealed.changes;
            self.published = (sealed.version, sealed.root);
            let let_go = retired_granules + dropped.iter().map(|(_, granules)| granules).sum::<usize>();
            self.limbo_granules += let_go;
            self.let_go_granules += let_go as u64;
            self.limbo_trees += dropped.len();
            retired_count += retired.len();
            if !(retired.is_empty() && dropped.is_empty()) {
                self.limbo.push_back(Batch { epoch: 0, retired, dropped });
            }
            count += 1;
        }
        if count == 0 {
            return;
        }
        let (version, root) = self.published;
        // Readers go from the root published before to this one: what lay between was let go under this epoch too.
        self.limbo.range_mut(limbo_before..).for_each(|batch| batch.epoch = version.0);
        self.domain.publish(root.to_bits(), version.0);
        self.reclaim(RECLAIM_STEP_MAX.max(2 * retired_count));
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

    /// Frees what the versions, oldest first and up to the open one, took.
    fn undo(&mut self, versions: impl IntoIterator<Item = Changes>) {
        let mut first_start = None;
        for changes in versions {
            first_start.get_or_insert(changes.start);
            for handle in changes.born {
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

    // Limbo.

    /// Frees at most `step` blocks that no reader can hold any more. True when there are more of them.
    pub(crate) fn reclaim(&mut self, step: usize) -> bool {
        if self.limbo.is_empty() && self.falling.is_empty() {
            return false;
        }
        let safe = self.domain.safe_epoch();
        for _ in 0..step {
            if let Some(handle) = self.falling.pop() {
                self.fell(handle);
                continue;
            }
            let Some(batch) = self.limbo.front_mut().filter(|batch| batch.epoch <= safe) else {
                return false;
            };
            if let Some(handle) = batch.retired.pop() {
                self.limbo_granules -= self.space.arena().word(handle).granules();
                // SAFETY: retired by a version published under an epoch that every reader has passed, so no published
                // root that anyone holds leads to it.
                self.space.give(unsafe { Owned::assume(handle, 0) });
            } else if let Some((tree, granules)) = batch.dropped.pop() {
                // Nobody reads it any more; the rest is work.
                self.limbo_granules -= granules;
                self.limbo_trees -= 1;
                self.falling.push(tree.to_bits());
            } else {
                self.limbo.pop_front();
            }
        }
        !self.falling.is_empty() || self.limbo.front().is_some_and(|batch| batch.epoch <= safe)
    }

    /// Frees one block of a dropped tree; its children fall next.
    fn fell(&mut self, handle: u32) {
        let arena = self.arena();
        let word = arena.word(handle);
        assert!(!word.is_free(), "a dropped tree holds a free block");
        if word.is_branch() {
            self.falling.extend((0..word.count()).map(|index| arena.child(handle, index)));
        }
        // SAFETY: the tree was dropped by a version published under an epoch that every reader has passed, and a tree
        // owns all below its root.
        self.space.give(unsafe { Owned::assume(handle, 0) });
    }
}
