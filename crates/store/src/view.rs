//! Reads trees: single lookups and neighbors.

use std::marker::PhantomData;

use crate::arena::{Arena, HALF_LINE_BYTES};
use crate::iter::Leaves;
use crate::key::{Key, LeafKey};
use crate::path::{Path, Trail};
use crate::tree::Tree;
use crate::vertex::BlockHeader;

/// Reads the trees of certain versions.
pub struct View<'a, K> {
    arena: Arena,
    /// Borrows the owner of the bytes: the store, a pinned reader or a frozen version.
    owner: PhantomData<&'a ()>,
    keys: PhantomData<fn() -> K>,
}

impl<K> Clone for View<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for View<'_, K> {}

/// How the wanted key differs from the key of the nearest leaf.
#[derive(Clone, Copy)]
pub(crate) struct Difference {
    /// The first mark that differs.
    pub(crate) offset: usize,
    /// The mark of the wanted key there.
    pub(crate) mark: u8,
    /// The mark of the leaf there, which all leaves below the vertex share at which the key leaves the path.
    pub(crate) other: u8,
}

/// The neighbors of a key in a tree.
pub(crate) struct Neighbors {
    /// The leaf with this key.
    pub(crate) exact: Option<u32>,
    /// The vertex whose greatest leaf is the predecessor.
    pub(crate) lower: Option<u32>,
    /// The vertex whose least leaf is the successor.
    pub(crate) upper: Option<u32>,
}

impl<'a, K: LeafKey> View<'a, K> {
    /// # Safety
    /// What is borrowed for `'a` keeps the mapping, and keeps the writer from changing the blocks of the trees that the
    /// view is used with.
    pub(crate) unsafe fn new(arena: Arena) -> Self {
        Self { arena, owner: PhantomData, keys: PhantomData }
    }

    pub(crate) fn arena(self) -> Arena {
        self.arena
    }

    /// The leaf with this key.
    #[inline]
    pub fn get(self, tree: Tree, key: &Key) -> Option<&'a [u8]> {
        self.candidate(tree, key).filter(|leaf| K::has_key(leaf, key))
    }

    /// The only leaf that can have this key. The caller must compare. `None` only in an empty tree.
    #[inline]
    pub fn candidate(self, tree: Tree, key: &Key) -> Option<&'a [u8]> {
        if tree.is_empty() { None } else { Some(self.bytes(self.nearest(tree, key))) }
    }

    /// The greatest leaf whose key is less than `key`.
    pub fn pred(self, tree: Tree, key: &Key) -> Option<&'a [u8]> {
        if tree.is_empty() {
            return None;
        }
        let lower = self.neighbors(tree, key, self.nearest(tree, key), |_, _| ()).lower?;
        Some(self.bytes(self.outermost(lower, true)))
    }

    /// The least leaf whose key is greater than `key`.
    pub fn succ(self, tree: Tree, key: &Key) -> Option<&'a [u8]> {
        if tree.is_empty() {
            return None;
        }
        let upper = self.neighbors(tree, key, self.nearest(tree, key), |_, _| ()).upper?;
        Some(self.bytes(self.outermost(upper, false)))
    }

    /// The least leaf.
    pub fn first(self, tree: Tree) -> Option<&'a [u8]> {
        if tree.is_empty() { None } else { Some(self.bytes(self.outermost(tree.to_bits(), false))) }
    }

    /// The greatest leaf.
    pub fn last(self, tree: Tree) -> Option<&'a [u8]> {
        if tree.is_empty() { None } else { Some(self.bytes(self.outermost(tree.to_bits(), true))) }
    }

    /// Finds in one descent the leaf with `key`, the leaves whose keys are prefixes of it, the predecessor and the
    /// successor. Overwrites `path`.
    pub fn locate(self, tree: Tree, key: &Key, path: &mut Path<'a>) {
        path.clear();
        if !tree.is_empty() {
            self.locate_beside(tree, key, self.nearest(tree, key), path);
        }
    }

    /// Like [`View::locate`], with a known trail of the key in this tree.
    pub fn locate_along(self, tree: Tree, key: &Key, trail: &Trail, path: &mut Path<'a>) {
        path.clear();
        if trail.leaf != 0 {
            self.locate_beside(tree, key, trail.leaf, path);
        }
    }

    fn locate_beside(self, tree: Tree, key: &Key, nearest: u32, path: &mut Path<'a>) {
        let neighbors = self.neighbors(tree, key, nearest, |_, leaf| path.push(self.bytes(leaf)));
        path.exact = neighbors.exact.map(|leaf| self.bytes(leaf));
        path.pred = neighbors.lower.map(|lower| self.bytes(self.outermost(lower, true)));
        path.succ = neighbors.upper.map(|upper| self.bytes(self.outermost(upper, false)));
    }

    /// Descends once along `key`.
    #[inline]
    pub fn trail(self, tree: Tree, key: &Key) -> Trail {
        let mut trail = Trail::default();
        if tree.is_empty() {
            return trail;
        }
        let (mut handle, mut floor) = (tree.to_bits(), 0);
        loop {
            let header = self.arena.header(handle);
            if header.is_leaf() {
                trail.leaf = handle;
                return trail;
            }
            assert!(header.is_branch() && header.offset() >= floor, "no vertex: the tree is stale");
            floor = header.offset() + 1;
            handle = self.step(handle, header, key, &mut trail);
            self.arena.prefetch(handle, HALF_LINE_BYTES);
        }
    }

    /// The child of a branch on the path of `key`. Notes a key that ends at this branch.
    #[inline]
    pub(crate) fn step(self, branch: u32, header: BlockHeader, key: &Key, trail: &mut Trail) -> u32 {
        let mark = key.mark(header.offset());
        // The end of a key is the least mark.
        if mark != 0 && header.has(0) {
            trail.push_end(self.arena.child(branch, 0));
        }
        self.arena.child(branch, header.child_index(mark))
    }

    /// The leaf at the end of a trail, the only one that can have the key. `None` in an empty tree.
    #[inline]
    pub fn trail_leaf(self, trail: &Trail) -> Option<&'a [u8]> {
        (trail.leaf != 0).then(|| self.bytes(trail.leaf))
    }

    /// Sets `path` for a key whose leaf is at the end of its trail. Returns false if the trail had no room for all
    /// prefixes; then [`View::locate`] must find them.
    #[inline]
    pub fn path_of_trail(self, trail: &Trail, path: &mut Path<'a>) -> bool {
        path.clear();
        let Some(ends) = trail.ends.get(..trail.end_count as usize) else { return false };
        for &end in ends {
            path.push(self.bytes(end));
        }
        path.exact = self.trail_leaf(trail);
        true
    }

    /// All leaves in the order of their keys.
    pub fn iter(self, tree: Tree) -> Leaves<'a, K> {
        Leaves::all(self, tree)
    }

    /// The leaves whose keys are not less than `key`, in the order of their keys.
    pub fn iter_from(self, tree: Tree, key: &Key) -> Leaves<'a, K> {
        Leaves::from(self, tree, key)
    }

    /// The bytes of a leaf.
    #[inline]
    pub(crate) fn bytes(self, leaf: u32) -> &'a [u8] {
        // SAFETY: the view's maker vouched that what it borrows for `'a` keeps the mapping and keeps the blocks of
        // these trees unwritten.
        unsafe { self.arena.leaf(leaf) }
    }

    /// The leaf on the path of `key`, the only one that can have it. No leaf has a longer common prefix with `key`.
    #[inline]
    pub(crate) fn nearest(self, tree: Tree, key: &Key) -> u32 {
        let mut handle = tree.to_bits();
        let mut floor = 0;
        loop {
            let header = self.arena.header(handle);
            if header.is_leaf() {
                return handle;
            }
            // Offsets grow on every path, which bounds the descent even in a stale tree.
            assert!(header.is_branch() && header.offset() >= floor, "no vertex: the tree is stale");
            floor = header.offset() + 1;
            let index = header.child_index(key.mark(header.offset()));
            handle = self.arena.child(handle, index);
            self.arena.prefetch(handle, HALF_LINE_BYTES);
        }
    }

    /// How `key` differs from the key of `leaf`.
    pub(crate) fn difference(self, leaf: u32, key: &Key) -> Option<Difference> {
        let (offset, symbol) = K::mismatch(self.bytes(leaf), key)?;
        Some(Difference { offset, mark: key.mark(offset), other: symbol.map_or(0, |symbol| symbol + 1) })
    }

    /// The neighbors of `key` in a non-empty tree, in which the path of `key` leads to the leaf `nearest`. Calls
    /// `on_prefix` with the length and handle of each leaf whose key is a proper prefix of `key`, shortest first.
    pub(crate) fn neighbors(
        self,
        tree: Tree,
        key: &Key,
        nearest: u32,
        mut on_prefix: impl FnMut(usize, u32),
    ) -> Neighbors {
        let arena = self.arena;
        let difference = self.difference(nearest, key);
        let stop = difference.map_or(usize::MAX, |difference| difference.offset);
        let mut found = Neighbors { exact: None, lower: None, upper: None };
        let mut handle = tree.to_bits();
        let mut header = arena.header(handle);
        // Descends to the vertex at which the key leaves the path. These blocks are in the cache.
        while header.is_branch() && header.offset() < stop {
            let mark = key.mark(header.offset());
            let index = header.rank(mark);
            // The end of a key is the least mark. The key of that leaf is the common prefix of all leaves below.
            if mark != 0 && header.has(0) {
                on_prefix(header.offset(), arena.child(handle, 0));
            }
            if index > 0 {
                found.lower = Some(arena.child(handle, index - 1));
            }
            if index + 1 < header.count() {
                found.upper = Some(arena.child(handle, index + 1));
            }
            handle = arena.child(handle, index);
            header = arena.header(handle);
        }
        let Some(difference) = difference else {
            found.exact = Some(handle);
            return found;
        };
        if header.is_branch() && header.offset() == difference.offset {
            let index = header.rank(difference.mark);
            if header.has(0) {
                on_prefix(difference.offset, arena.child(handle, 0));
            }
            if index > 0 {
                found.lower = Some(arena.child(handle, index - 1));
            }
            if index < header.count() {
                found.upper = Some(arena.child(handle, index));
            }
        } else if difference.other < difference.mark {
            if header.is_leaf() && difference.other == 0 {
                on_prefix(difference.offset, handle);
            }
            found.lower = Some(handle);
        } else {
            found.upper = Some(handle);
        }
        found
    }

    /// The greatest or least leaf at or below a vertex.
    pub(crate) fn outermost(self, vertex: u32, greatest: bool) -> u32 {
        let mut handle = vertex;
        let mut floor = 0;
        loop {
            let header = self.arena.header(handle);
            if header.is_leaf() {
                return handle;
            }
            assert!(header.is_branch() && header.offset() >= floor, "no vertex: the tree is stale");
            floor = header.offset() + 1;
            handle = self.arena.child(handle, if greatest { header.count() - 1 } else { 0 });
        }
    }
}
