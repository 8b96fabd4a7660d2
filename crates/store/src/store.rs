//! The store: the writer's handle on an arena of trees.

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

/// The configuration of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// Bytes of address space, which limit the contents of the store. Memory is taken only when it is used. Clamped
    /// between [`RESERVE_BYTES_MIN`] and [`RESERVE_BYTES_MAX`].
    pub reserve_bytes: usize,
    /// Whether to use huge pages. Lookups in big stores are faster, but a small store takes at least one page of 2 MiB.
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
    /// The usable part of the address space. The kernel provides memory at the first write.
    pub committed_bytes: usize,
    /// Bytes in blocks that are not free, including retired blocks.
    pub used_bytes: usize,
    /// Bytes in free blocks, which are reused before the arena grows.
    pub free_bytes: usize,
    /// Bytes in retired blocks that are not free yet, because readers may still use them. Dropped trees count with the
    /// size that the caller gave.
    pub retired_bytes: usize,
    /// Bytes that were ever retired, counted like `retired_bytes`.
    pub retired_bytes_total: u64,
    /// Dropped trees of published versions that are not freed yet. All trees whose freeing has begun count as one.
    pub retired_trees: usize,
    /// Sealed versions that are not published.
    pub versions: usize,
    /// Readers and frozen versions.
    pub readers: usize,
}

/// Many ordered maps in one arena, with one writer and any number of readers.
///
/// The writer changes trees in the *open* version, [seals](Store::seal) it under one root, and later
/// [publishes](Store::publish) it or [drops](Store::rewind) it; further versions can be made meanwhile. A sealed
/// version never changes.
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
    /// There is no room. Then nothing has changed, and `tree` is still valid.
    pub fn put(&mut self, tree: Tree, leaf: &[u8]) -> Result<Tree, Full> {
        edit::check_leaf(leaf)?;
        self.key.clear();
        K::write_key(leaf, &mut self.key);
        let location = self.scratch.seek::<K>(&self.ledger, tree, &self.key);
        edit::put(&mut self.ledger, &mut self.scratch, location, &self.key, leaf)
    }

    /// Replaces or adds the leaf of `key`. `write` gets the existing leaf, if any, and appends the new one to the empty
    /// `leaf`. Returns the changed tree; `tree` is stale then. This takes one descent instead of the two for a lookup
    /// and [`Store::put`], and hardly any for changes in key order.
    ///
    /// # Errors
    /// There is no room, or an error of `write`. Then nothing has changed, and `tree` is still valid.
    pub fn amend<E: From<Full>>(
        &mut self,
        tree: Tree,
        key: &Key,
        leaf: &mut Vec<u8>,
        write: impl FnOnce(Option<&[u8]>, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Tree, E> {
        let location = self.scratch.seek::<K>(&self.ledger, tree, key);
        leaf.clear();
        write(location.bytes(&self.ledger), leaf)?;
        edit::check_leaf(leaf)?;
        debug_assert!(K::has_key(leaf, key), "the leaf has another key");
        Ok(edit::put(&mut self.ledger, &mut self.scratch, location, key, leaf)?)
    }

    /// Removes the leaf with this key, if there is one. Returns the changed tree; `tree` is stale then.
    ///
    /// # Errors
    /// There is no room to copy the path to the leaf. Then nothing has changed, and `tree` is still valid.
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

    /// Drops the whole `tree`, which is stale then. [`Store::publish`] and [`Store::reclaim`] free its memory in steps
    /// after this version is published. Trees whose bits are in its leaves are not dropped.
    ///
    /// `bytes` is the size of the tree, by [`Store::live_bytes`]. It counts as retired without a walk over the tree.
    pub fn drop_tree(&mut self, tree: Tree, bytes: u64) {
        self.scratch.invalidate();
        let granules = (bytes / GRANULE_BYTES as u64).min(self.ledger.space().reserved() as u64);
        self.ledger.drop_tree(tree, granules as usize);
    }

    /// Bytes that all changes of trees allocated minus the bytes they replaced, modulo 2^64. The size of a tree is the
    /// sum of the differences over its changes.
    pub fn live_bytes(&self) -> u64 {
        self.ledger.live_granules().wrapping_mul(GRANULE_BYTES as u64)
    }

    /// Bytes of all blocks that were ever allocated. The growth over a change is the amount that the change copied and
    /// wrote.
    pub fn allocated_bytes(&self) -> u64 {
        self.ledger.allocated_granules() * GRANULE_BYTES as u64
    }

    /// Whether [`Store::release_free`] would return much memory.
    pub fn is_release_due(&self) -> bool {
        self.ledger.is_release_due()
    }

    /// Returns the memory of free blocks to the operating system, if there is much of it. Call this when idle: it walks
    /// over the arena.
    pub fn release_free(&mut self) {
        self.ledger.release_free();
    }

    /// As [`Stats::retired_bytes_total`].
    pub fn retired_bytes_total(&self) -> u64 {
        self.ledger.retired_granules_total() * GRANULE_BYTES as u64
    }

    /// Drops all changes since the last seal.
    pub fn abandon(&mut self) {
        self.scratch.invalidate();
        self.ledger.abandon();
    }

    // Versions.

    /// Closes the open version under `root`, from which readers reach all of its trees.
    ///
    /// # Panics
    /// When [`crate::limits::VERSIONS_MAX`] sealed versions are unpublished.
    pub fn seal(&mut self, root: Tree) -> Version {
        self.scratch.invalidate();
        self.ledger.seal(root)
    }

    /// Publishes the newest sealed version up to `up_to`, and skips the ones before it. Then frees some of the blocks
    /// that no reader uses any more. Does nothing if there is no such version.
    pub fn publish(&mut self, up_to: Version) {
        self.ledger.commit_ahead();
        let space = self.ledger.space();
        self.shared.committed.store(space.committed(), Ordering::Relaxed);
        self.shared.tail.store(space.tail(), Ordering::Release);
        self.ledger.publish(up_to);
    }

    /// Drops the open version and all unpublished sealed versions, and frees the blocks that they allocated. The head
    /// is the published version again.
    pub fn rewind(&mut self) {
        self.scratch.invalidate();
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

    /// Frees a bounded number of blocks that no reader uses any more. Returns whether there are more.
    pub fn reclaim(&mut self) -> bool {
        self.ledger.reclaim(RECLAIM_STEP_MAX)
    }

    // Reading.

    /// Reads any tree of any version that is not dropped, including the open version.
    pub fn view(&self) -> View<'_, K> {
        // SAFETY: blocks are written through `&mut self` only, and the view borrows the store, which holds the mapping.
        unsafe { View::new(self.ledger.arena()) }
    }

    /// A reader of published versions. Move it to its own thread. Each reader costs about 200 bytes; the caller must
    /// bound their number.
    pub fn reader(&self) -> Reader<K> {
        Reader::new(Arc::clone(&self.shared))
    }

    /// Touches this store's memory before the writer does. Move it to its own thread.
    pub fn prefaulter(&self) -> Prefaulter {
        Prefaulter::new(Arc::downgrade(&self.shared))
    }

    /// Keeps the published version, which can be read on any thread.
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
