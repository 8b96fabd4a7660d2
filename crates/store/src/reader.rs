//! Who reads published versions: readers that move on with each pin, and frozen versions that stay.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena::Arena;
use crate::key::LeafKey;
use crate::mapping::Mapping;
use crate::qsbr::{Domain, Registered};
use crate::tree::{Tree, Version};
use crate::view::View;

/// What the writer and all readers have in common.
pub(crate) struct Shared {
    pub(crate) mapping: Arc<Mapping>,
    pub(crate) domain: Arc<Domain>,
    /// Granules that were committed when the root was published; stored before the root, so whoever has read a root
    /// finds at least what that root needs.
    pub(crate) committed: AtomicUsize,
    /// Granules up to which some had been taken then, for [`crate::Prefaulter`].
    pub(crate) tail: AtomicUsize,
}

impl Shared {
    fn arena(&self) -> Arena {
        Arena::new(&self.mapping, self.committed.load(Ordering::Relaxed))
    }
}

/// One thread's access to whatever version is published. Waits for nobody and keeps no one waiting, but the memory of
/// what is let go is not used again before every reader has pinned anew or is offline: **go offline before blocking**.
pub struct Reader<K> {
    shared: Arc<Shared>,
    registered: Registered,
    keys: PhantomData<fn() -> K>,
}

impl<K: LeafKey> Reader<K> {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { registered: shared.domain.register(), shared, keys: PhantomData }
    }

    /// The published version, which stays as it is while the result is used. Says at the same time that the version
    /// pinned before is not used any more.
    #[inline]
    pub fn pin(&mut self) -> Pinned<'_, K> {
        let root = Tree::from_bits(self.registered.pin());
        // SAFETY: the result borrows this reader, so neither `pin` nor `offline` nor drop can say that the root is let
        // go while it lives, and the reader holds the mapping.
        let view = unsafe { View::new(self.shared.arena()) };
        Pinned { view, root }
    }

    /// Says that no version is used before the next [`Reader::pin`]. To be called before the thread waits for anything.
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

/// A published version that is kept, on any thread and for any time, until this is dropped. All that is let go
/// meanwhile stays in memory with it.
pub struct Frozen<K> {
    shared: Arc<Shared>,
    root: Tree,
    version: Version,
    /// Stands for this version among the readers; the only use of it is to be dropped.
    _held: Registered,
    keys: PhantomData<fn() -> K>,
}

impl<K: LeafKey> Frozen<K> {
    /// Called through a reference to the store: publishing needs a unique one, so nothing is published meanwhile
    /// (`Domain::hold`).
    pub(crate) fn new(shared: Arc<Shared>, version: Version) -> Self {
        let (held, root) = shared.domain.hold();
        Self { shared, root: Tree::from_bits(root), version, _held: held, keys: PhantomData }
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
