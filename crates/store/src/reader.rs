//! Access to published versions: readers that move on with each pin, and frozen versions that stay.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena::Arena;
use crate::key::LeafKey;
use crate::mapping::Mapping;
use crate::qsbr::{Domain, RegisteredReader};
use crate::tree::{Tree, Version};
use crate::view::View;

/// State shared by the writer and all readers.
pub(crate) struct Shared {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) domain: Arc<Domain>,
    /// Granules that were committed when the root was published. Stored before the root, so a thread that has read a
    /// root sees at least the granules that the root needs.
    pub(crate) committed: AtomicUsize,
    /// The first granule that was never allocated then, for [`crate::Prefaulter`].
    pub(crate) tail: AtomicUsize,
}

impl Shared {
    fn arena(&self) -> Arena {
        Arena::new(&self.mapping, self.committed.load(Ordering::Relaxed))
    }
}

/// One thread's access to the published version. It never waits, and nobody waits for it. But retired memory is reused
/// only after every reader has pinned again or is offline: **go offline before blocking**.
pub struct Reader<K> {
    shared: Arc<Shared>,
    registered: RegisteredReader,
    keys: PhantomData<fn() -> K>,
}

impl<K: LeafKey> Reader<K> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { registered: shared.domain.register(), shared, keys: PhantomData }
    }

    /// Takes the published version, which does not change while the result lives. Releases the version pinned before.
    #[inline]
    pub fn pin(&mut self) -> Pinned<'_, K> {
        let root = Tree::from_bits(self.registered.pin());
        // SAFETY: the result borrows this reader, so neither `pin` nor `offline` nor drop can release the root while it
        // lives, and the reader holds the mapping.
        let view = unsafe { View::new(self.shared.arena()) };
        Pinned { view, root }
    }

    /// Releases the pinned version until the next [`Reader::pin`]. Call this before the thread waits for anything.
    pub fn offline(&mut self) {
        self.registered.offline();
    }
}

/// A pinned version.
pub struct Pinned<'a, K> {
    view: View<'a, K>,
    root: Tree,
}

impl<K> Clone for Pinned<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Pinned<'_, K> {}

impl<'a, K: LeafKey> Pinned<'a, K> {
    /// Reads the trees of this version.
    pub fn view(self) -> View<'a, K> {
        self.view
    }

    /// The tree that the version was sealed with.
    pub fn root(self) -> Tree {
        self.root
    }
}

/// A published version that is kept until this is dropped. All blocks retired meanwhile stay in memory.
pub struct Frozen<K> {
    shared: Arc<Shared>,
    root: Tree,
    version: Version,
    /// The registration as a reader. Dropping it releases the version.
    _held: RegisteredReader,
    keys: PhantomData<fn() -> K>,
}

impl<K: LeafKey> Frozen<K> {
    /// The caller has a shared reference to the store. Publishing needs a unique one, so nothing is published meanwhile
    /// (`Domain::register_and_pin`).
    pub(crate) fn new(shared: Arc<Shared>, version: Version) -> Self {
        let (registration, root) = shared.domain.register_and_pin();
        Self { shared, root: Tree::from_bits(root), version, _held: registration, keys: PhantomData }
    }

    /// Reads the trees of this version.
    pub fn view(&self) -> View<'_, K> {
        // SAFETY: the view borrows the frozen version, whose slot and mapping stay until it is dropped.
        unsafe { View::new(self.shared.arena()) }
    }

    /// The tree that the version was sealed with.
    pub fn root(&self) -> Tree {
        self.root
    }

    /// The number of the version; 0 if none has been published.
    pub fn version(&self) -> Version {
        self.version
    }
}
