//! The store: one writer's handle on an arena of trees.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::edit::{self, Scratch};
use crate::key::{Key, LeafKey};
use crate::ledger::{Full, Ledger};
use crate::limits::{RECLAIM_STEP_MAX, RESERVE_BYTES_MAX, RESERVE_BYTES_MIN};
use crate::mapping::{Mapping, ReserveError};
use crate::prefault::Prefaulter;
use crate::qsbr::Domain;
use crate::reader::{Frozen, Reader, Shared};
use crate::tree::{Tree, Version};
use crate::vertex::GRANULE_BYTES;
use crate::view::View;

/// How a store is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// Bytes of address space, and so the bound of what the store holds. Memory is taken only as it is used. Held
    /// between [`RESERVE_BYTES_MIN`] and [`RESERVE_BYTES_MAX`].
    pub reserve_bytes: usize,
    /// Ask for huge pages: lookups in big stores are quicker, small stores take at least one page of 2 MiB.
    pub huge_pages: bool,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { reserve_bytes: RESERVE_BYTES_MAX, huge_pages: true }
    }
}

/// Figures of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Address space of the arena.
    pub reserved_bytes: usize,
    /// What of it the operating system has been asked to make usable; memory is taken when it is first written.
    pub committed_bytes: usize,
    /// In blocks that are not free, retired ones included.
    pub used_bytes: usize,
    /// In free blocks, to be used before the arena grows.
    pub free_bytes: usize,
    /// Retired by published versions, but not free yet: readers may still use it. Dropped trees count with the size
    /// that the caller gave.
    pub retired_bytes: usize,
    /// Everything that published versions ever retired, free again or not; counted as `retired_bytes` is.
    pub retired_bytes_total: u64,
    /// Dropped trees of published versions that are not freed yet (all that are being freed count as one).
    pub retired_trees: usize,
    /// Sealed versions that are not published.
    pub versions: usize,
    /// Readers and frozen versions.
    pub readers: usize,
}

/// Many ordered maps in one arena, with one writer and any number of readers.
///
/// The writer changes trees in the *open* version, [seals](Store::seal) it under one root, and later
/// [publishes](Store::publish) it or [drops](Store::rewind) it; further versions can be made meanwhile. What is sealed
/// never changes.
pub struct Store<K> {
    ledger: Ledger,
    shared: Arc<Shared>,
    scratch: Scratch,
    key: Key,
    keys: PhantomData<fn() -> K>,
}

impl<K: LeafKey> Store<K> {
    /// An empty store; [`Tree::EMPTY`] is published as version 0.
    ///
    /// # Errors
    /// When the operating system does not give the address space.
    pub fn new(config: StoreConfig) -> Result<Self, ReserveError> {
        let bytes =
            config.reserve_bytes.clamp(RESERVE_BYTES_MIN, RESERVE_BYTES_MAX).next_multiple_of(RESERVE_BYTES_MIN);
        let mapping = Arc::new(Mapping::reserve(bytes, config.huge_pages)?);
        let domain = Arc::new(Domain::new(Tree::EMPTY.to_bits()));
        let ledger = Ledger::new(Arc::clone(&mapping), Arc::clone(&domain));
        let shared = Arc::new(Shared { mapping, domain, committed: AtomicUsize::new(0), tail: AtomicUsize::new(0) });
        Ok(Self { ledger, shared, scratch: Scratch::default(), key: Key::new(), keys: PhantomData })
    }

    // The open version.

    /// Adds a leaf to `tree`, or replaces the one that has its key. Returns the changed tree; `tree` is stale then.
    ///
    /// # Errors
    /// When there is no room. Nothing has changed then, and `tree` is as good as before.
    pub fn put(&mut self, tree: Tree, leaf: &[u8]) -> Result<Tree, Full> {
        edit::check_leaf(leaf)?;
        self.key.clear();
        K::write_key(leaf, &mut self.key);
        let place = self.scratch.seek::<K>(&self.ledger, tree, &self.key);
        edit::put(&mut self.ledger, &mut self.scratch, place, &self.key, leaf)
    }

    /// Puts the leaf of `key` that `write` makes from the one that is there, or from none, into `leaf`, which is empty
    /// when it is called. Returns the changed tree; `tree` is stale then. One way down in place of the two that looking
    /// for a leaf and putting it take, and hardly any in the order of keys.
    ///
    /// # Errors
    /// When there is no room, and what `write` says. Nothing has changed then, and `tree` is as good as before.
    pub fn amend<E: From<Full>>(
        &mut self,
        tree: Tree,
        key: &Key,
        leaf: &mut Vec<u8>,
        write: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Tree, E> {
        let place = self.scratch.seek::<K>(&self.ledger, tree, key);
        leaf.clear();
        write(place.bytes(&self.ledger), leaf)?;
        edit::check_leaf(leaf)?;
        debug_assert!(K::has_key(leaf, key), "the leaf has another key");
        Ok(edit::put(&mut self.ledger, &mut self.scratch, place, key, leaf)?)
    }

    /// Removes the leaf with this key, if there is one. Returns the changed tree; `tree` is stale then.
    ///
    /// # Errors
    /// When there is no room: what leads to the leaf has to be copied. Nothing has changed then, and `tree` is as good
    /// as before.
    pub fn remove(&mut self, tree: Tree, key: &Key) -> Result<Tree, Full> {
        if tree.is_empty() {
            return Ok(tree);
        }
        let end = self.scratch.descend(&self.ledger, tree, key);
        if !K::has_key(end.bytes(&self.ledger), key) {
            return Ok(tree);
        }
        edit::remove(&mut self.ledger, &mut self.scratch, end, key)
    }

    /// Lets all of `tree` go, which is stale then. Its memory is freed in steps, by [`Store::publish`] and
    /// [`Store::reclaim`], after this version is published. Trees that its leaves name are not touched.
    ///
    /// `bytes` is what the tree has, by [`Store::live_bytes`]: it is counted as let go without a walk over the tree.
    pub fn drop_tree(&mut self, tree: Tree, bytes: u64) {
        self.scratch.forget();
        let granules = (bytes / GRANULE_BYTES as u64).min(self.ledger.space().reserved() as u64);
        self.ledger.drop_tree(tree, granules as usize);
    }

    /// What all changes of trees took less what they let go, modulo 2^64: a tree has the sum of the differences over
    /// its changes.
    pub fn live_bytes(&self) -> u64 {
        self.ledger.live_granules().wrapping_mul(GRANULE_BYTES as u64)
    }

    /// Bytes of all blocks that were ever taken: how much this grows over a change is what the change copied and wrote.
    pub fn allocated_bytes(&self) -> u64 {
        self.ledger.allocated_granules() * GRANULE_BYTES as u64
    }

    /// Whether [`Store::release_free`] would give much memory back.
    pub fn is_release_due(&self) -> bool {
        self.ledger.is_release_due()
    }

    /// Gives the memory of free blocks back to the operating system, if there is much of it. To be called while nothing
    /// else is to be done: it walks over the arena.
    pub fn release_free(&mut self) {
        self.ledger.release_free();
    }

    /// As [`Stats::retired_bytes_total`].
    pub fn retired_bytes_total(&self) -> u64 {
        self.ledger.retired_granules_total() * GRANULE_BYTES as u64
    }

    /// Drops what has changed since the last seal; the head is as it was then.
    pub fn abandon(&mut self) {
        self.scratch.forget();
        self.ledger.abandon();
    }

    // Versions.

    /// Closes the open version under `root`, from which all of its trees are to be found.
    ///
    /// # Panics
    /// When [`crate::limits::VERSIONS_MAX`] sealed versions are waiting.
    pub fn seal(&mut self, root: Tree) -> Version {
        self.scratch.forget();
        self.ledger.seal(root)
    }

    /// Makes the newest sealed version up to `up_to` the one that readers find; those before it are done with too.
    /// Nothing happens if there is none. Then frees some of what no reader holds any more.
    pub fn publish(&mut self, up_to: Version) {
        self.ledger.commit_ahead();
        let space = self.ledger.space();
        self.shared.committed.store(space.committed(), Ordering::Relaxed);
        self.shared.tail.store(space.tail(), Ordering::Release);
        self.ledger.publish(up_to);
    }

    /// Drops the open version and all sealed versions that are not published, and frees what only they took. The head
    /// is the published version again.
    pub fn rewind(&mut self) {
        self.scratch.forget();
        self.ledger.rewind();
    }

    /// The root of the newest sealed version.
    pub fn head(&self) -> Tree {
        self.ledger.head()
    }

    /// The root of the published version.
    pub fn published(&self) -> Tree {
        self.ledger.published().1
    }

    /// The number of the published version; 0 if none has been published.
    pub fn published_version(&self) -> Version {
        self.ledger.published().0
    }

    /// Frees a bounded amount of what no reader holds any more. True when there is more of it.
    pub fn reclaim(&mut self) -> bool {
        self.ledger.reclaim(RECLAIM_STEP_MAX)
    }

    // Reading.

    /// Reads any tree of any version that is not dropped, the open one included.
    pub fn view(&self) -> View<'_, K> {
        // SAFETY: blocks are written through `&mut self` only, and the view borrows the store, which holds the mapping.
        unsafe { View::new(self.ledger.arena()) }
    }

    /// A reader of what is published, to be moved to its thread. Whoever makes readers bounds their number; each costs
    /// some 200 bytes.
    pub fn reader(&self) -> Reader<K> {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Touches this store's memory before the writer does. Move it to its own thread.
    pub fn prefaulter(&self) -> Prefaulter {
        Prefaulter::new(Arc::downgrade(&self.shared))
    }

    /// Keeps the published version, to be read on any thread.
    ///
    /// Blocks are freed in the order in which they were retired. So everything retired while the result lives stays in
    /// memory: as much as [`Stats::retired_bytes_total`] grows meanwhile. The caller must bound that time.
    pub fn freeze(&self) -> Frozen<K> {
        Frozen::new(Arc::clone(&self.shared), self.ledger.published().0)
    }

    /// Figures, for metrics and tests.
    pub fn stats(&self) -> Stats {
        let space = self.ledger.space();
        Stats {
            reserved_bytes: space.reserved() * GRANULE_BYTES,
            committed_bytes: space.committed() * GRANULE_BYTES,
            used_bytes: space.used() * GRANULE_BYTES,
            free_bytes: space.free() * GRANULE_BYTES,
            retired_bytes: self.ledger.retired_granules() * GRANULE_BYTES,
            retired_bytes_total: self.retired_bytes_total(),
            retired_trees: self.ledger.retired_trees(),
            versions: self.ledger.sealed_count(),
            readers: self.shared.domain.reader_count(),
        }
    }
}
