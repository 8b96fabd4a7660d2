//! Changes of trees. Each change allocates all its blocks before it changes anything, so a full arena leaves trees
//! unchanged.

use crate::arena::{HALF_LINE_BYTES, OwnedBlock};
use crate::key::{Key, LeafKey};
use crate::ledger::{Full, Ledger};
use crate::limits::{CHILDREN_MAX, LEAF_BYTES_MAX};
use crate::tree::Tree;
use crate::vertex::{BlockHeader, branch_granules, leaf_granules};

/// A branch on the path, and the child that the path takes.
#[derive(Clone, Copy)]
struct PathStep {
    handle: u32,
    offset: u16,
    index: u8,
}

/// The path from a root to the location of a key, and the blocks of the change at its end. It is kept between calls to
/// reuse its memory, and because paths to neighboring keys are nearly the same.
#[derive(Default)]
pub(crate) struct Scratch {
    path: Vec<PathStep>,
    /// The tree of the path, if the path still leads to the leaf of `key`.
    known: Option<Tree>,
    key: Key,
    /// First the blocks of the change itself, then one for each branch to copy, lowest first.
    new_blocks: Vec<OwnedBlock>,
}

/// The leaf at the end of the path.
#[derive(Clone, Copy)]
pub(crate) struct LeafHandle(u32);

/// The location of a key in a tree. The path ends above it.
#[derive(Clone, Copy)]
pub(crate) enum KeyLocation {
    /// The tree is empty.
    Root,
    /// This leaf has the key.
    Leaf(LeafHandle),
    /// No leaf has the key. This is the first vertex on its path that tests the fork's mark or a later one.
    Fork(u32, Fork),
}

/// Where a new key leaves the path: the first mark in which it differs from the existing keys.
#[derive(Clone, Copy)]
pub(crate) struct Fork {
    offset: usize,
    mark: u8,
    other: u8,
}

impl KeyLocation {
    /// The bytes of the leaf that is there.
    pub(crate) fn bytes(self, ledger: &Ledger) -> Option<&[u8]> {
        if let Self::Leaf(end) = self { Some(end.bytes(ledger)) } else { None }
    }
}

impl LeafHandle {
    /// The bytes of the leaf.
    pub(crate) fn bytes(self, ledger: &Ledger) -> &[u8] {
        // SAFETY: blocks are written through `&mut Ledger` only and unmapped after its drop; the result borrows it.
        unsafe { ledger.arena().leaf(self.0) }
    }
}

impl Scratch {
    /// Descends in a non-empty `tree` to the only leaf that can have `key`.
    pub(crate) fn descend(&mut self, ledger: &Ledger, tree: Tree, key: &Key) -> LeafHandle {
        self.invalidate();
        self.descend_from(ledger, tree.to_bits(), key)
    }

    /// Continues the descent from the vertex `handle` at the end of the path.
    fn descend_from(&mut self, ledger: &Ledger, handle: u32, key: &Key) -> LeafHandle {
        let (arena, mut handle) = (ledger.arena(), handle);
        loop {
            let header = arena.header(handle);
            if header.is_leaf() {
                return LeafHandle(handle);
            }
            let offset = header.offset();
            // Offsets grow on every path, which bounds the descent even in a stale tree.
            assert!(header.is_branch() && self.path.last().is_none_or(|step| usize::from(step.offset) < offset));
            let index = header.child_index(key.mark(offset));
            self.path.push(PathStep { handle, offset: offset as u16, index: index as u8 });
            handle = arena.child(handle, index);
            arena.prefetch(handle, HALF_LINE_BYTES);
        }
    }

    /// Invalidates the path, because its blocks may be free now.
    pub(crate) fn invalidate(&mut self) {
        self.known = None;
        self.path.clear();
    }

    /// Finds where `key` belongs in `tree`.
    ///
    /// Reuses the known path in this tree as far as it is also the path of `key`: all leaves below a vertex agree with
    /// the known key in all marks before the one that the vertex tests. So changes in key order descend only a little,
    /// and often compare with no leaf.
    pub(crate) fn seek<K: LeafKey>(&mut self, ledger: &Ledger, tree: Tree, key: &Key) -> KeyLocation {
        if tree.is_empty() {
            self.invalidate();
            return KeyLocation::Root;
        }
        let mut from = tree.to_bits();
        if self.known.take() == Some(tree) {
            let Some(offset) = self.key.mismatch(key) else {
                return KeyLocation::Leaf(LeafHandle(self.lowest(ledger, tree)));
            };
            from = self.truncate_path(offset).unwrap_or_else(|| self.lowest(ledger, tree));
            let (header, fork) = (ledger.arena().header(from), Fork::of(offset, key, self.key.mark(offset)));
            if header.is_leaf() || header.offset() != offset || !header.has(fork.mark) {
                return KeyLocation::Fork(from, fork);
            }
        } else {
            self.path.clear();
        }
        let end = self.descend_from(ledger, from, key);
        match K::mismatch(end.bytes(ledger), key) {
            None => KeyLocation::Leaf(end),
            Some((offset, symbol)) => {
                let vertex = self.truncate_path(offset).unwrap_or(end.0);
                KeyLocation::Fork(vertex, Fork::of(offset, key, symbol.map_or(0, |symbol| symbol + 1)))
            }
        }
    }

    /// Shortens the path to end above its first branch that tests `offset` or a later mark. Returns that branch.
    fn truncate_path(&mut self, offset: usize) -> Option<u32> {
        let mut vertex = None;
        while let Some(step) = self.path.pop_if(|step| usize::from(step.offset) >= offset) {
            vertex = Some(step.handle);
        }
        vertex
    }

    /// The vertex at the end of the path.
    fn lowest(&self, ledger: &Ledger, tree: Tree) -> u32 {
        self.path.last().map_or(tree.to_bits(), |step| ledger.arena().child(step.handle, usize::from(step.index)))
    }

    /// The root of the path that ends in `lowest`.
    fn root(&self, lowest: u32) -> Tree {
        Tree::from_bits(self.path.first().map_or(lowest, |step| step.handle))
    }

    /// Allocates blocks of the sizes in `own_sizes`, and for copies of all branches on the path that the open version
    /// must not change. Allocates all or none.
    fn allocate(&mut self, ledger: &mut Ledger, own_sizes: &[usize]) -> Result<(), Full> {
        debug_assert!(self.new_blocks.is_empty());
        for granules in own_sizes {
            self.allocate_one(ledger, *granules)?;
        }
        for index in (0..self.path.len()).rev() {
            let handle = self.path[index].handle;
            // All branches above a branch of the open version belong to the open version too.
            if ledger.owned(handle).is_some() {
                break;
            }
            self.allocate_one(ledger, ledger.arena().header(handle).granules())?;
        }
        Ok(())
    }

    fn allocate_one(&mut self, ledger: &mut Ledger, granules: usize) -> Result<(), Full> {
        match ledger.allocate(granules) {
            Ok(block) => {
                self.new_blocks.push(block);
                Ok(())
            }
            Err(full) => {
                self.new_blocks.drain(..).for_each(|block| ledger.free_unused(block));
                Err(full)
            }
        }
    }

    /// Links `child` to the end of the path, copying branches if needed. The first `own_count` new blocks are in use
    /// already.
    fn link(&mut self, ledger: &mut Ledger, child: u32, own_count: usize) -> Tree {
        let arena = ledger.arena();
        let (lowest, mut child) = (child, child);
        let mut copies = self.new_blocks.drain(own_count..);
        for step in self.path.iter_mut().rev() {
            let index = usize::from(step.index);
            if let Some(block) = ledger.owned(step.handle) {
                arena.set_child(&block, index, child);
                break;
            }
            let block = copies.next().expect("a block was taken for each branch to copy");
            let mut children = [0; CHILDREN_MAX];
            let count = arena.children(step.handle, &mut children);
            children[index] = child;
            arena.set_branch(&block, arena.header(step.handle), &children[..count]);
            ledger.discard(step.handle);
            step.handle = block.handle();
            child = step.handle;
        }
        debug_assert_eq!(copies.len(), 0);
        drop(copies);
        self.new_blocks.clear();
        self.root(lowest)
    }

    /// Replaces the branch `vertex` at the end of the path by a branch with `children`. With `leaf`, one of them is a
    /// new leaf with these bytes. Returns the tree and the new branch.
    fn replace_branch(
        &mut self,
        ledger: &mut Ledger,
        vertex: u32,
        header: BlockHeader,
        children: &mut [u32],
        leaf: Option<(usize, &[u8])>,
    ) -> Result<(Tree, u32), Full> {
        let size = branch_granules(children.len());
        let in_place = ledger.arena().header(vertex).granules() == size && ledger.owned(vertex).is_some();
        let leaf_size = leaf.map_or(1, |(_, bytes)| leaf_granules(bytes.len()));
        let sizes = [leaf_size, size];
        let own_sizes = &sizes[usize::from(leaf.is_none())..2 - usize::from(in_place)];
        self.allocate(ledger, own_sizes)?;
        let arena = ledger.arena();
        if let Some((index, bytes)) = leaf {
            arena.set_leaf(&self.new_blocks[0], bytes);
            children[index] = self.new_blocks[0].handle();
        }
        if in_place {
            let block = ledger.owned(vertex).expect("it was just found to be open");
            arena.set_branch(&block, header, children);
            self.new_blocks.clear();
            return Ok((self.root(vertex), vertex));
        }
        let branch = &self.new_blocks[own_sizes.len() - 1];
        arena.set_branch(branch, header, children);
        let handle = branch.handle();
        let tree = self.link(ledger, handle, own_sizes.len());
        ledger.discard(vertex);
        Ok((tree, handle))
    }
}

impl Fork {
    fn of(offset: usize, key: &Key, other: u8) -> Self {
        Self { offset, mark: key.mark(offset), other }
    }
}

/// Checks the size of a leaf.
pub(crate) fn check_leaf(bytes: &[u8]) -> Result<(), Full> {
    if bytes.len() <= LEAF_BYTES_MAX { Ok(()) } else { Err(Full::Leaf) }
}

/// Puts a leaf at the location of its `key`.
pub(crate) fn put(
    ledger: &mut Ledger,
    scratch: &mut Scratch,
    location: KeyLocation,
    key: &Key,
    bytes: &[u8],
) -> Result<Tree, Full> {
    let tree = match location {
        KeyLocation::Root => plant(ledger, bytes),
        KeyLocation::Leaf(end) => replace(ledger, scratch, end, bytes),
        KeyLocation::Fork(vertex, fork) => insert(ledger, scratch, vertex, bytes, fork),
    }?;
    scratch.known = Some(tree);
    scratch.key.copy_from(key);
    Ok(tree)
}

/// A tree of one leaf.
fn plant(ledger: &mut Ledger, bytes: &[u8]) -> Result<Tree, Full> {
    let block = ledger.allocate(leaf_granules(bytes.len()))?;
    ledger.arena().set_leaf(&block, bytes);
    Ok(Tree::from_bits(block.handle()))
}

/// Replaces the leaf at the end of the path.
fn replace(ledger: &mut Ledger, scratch: &mut Scratch, leaf: LeafHandle, bytes: &[u8]) -> Result<Tree, Full> {
    let size = leaf_granules(bytes.len());
    if ledger.arena().header(leaf.0).granules() == size
        && let Some(block) = ledger.owned(leaf.0)
    {
        ledger.arena().set_leaf(&block, bytes);
        return Ok(scratch.root(leaf.0));
    }
    scratch.allocate(ledger, &[size])?;
    ledger.arena().set_leaf(&scratch.new_blocks[0], bytes);
    let tree = scratch.link(ledger, scratch.new_blocks[0].handle(), 1);
    ledger.discard(leaf.0);
    Ok(tree)
}

/// Adds a leaf whose key differs from the others at `fork`, above `vertex` or among its children. The path leads to it
/// afterwards.
fn insert(ledger: &mut Ledger, scratch: &mut Scratch, vertex: u32, bytes: &[u8], fork: Fork) -> Result<Tree, Full> {
    let offset = fork.offset as u16;
    let arena = ledger.arena();
    let header = arena.header(vertex);
    if header.is_branch() && header.offset() == fork.offset {
        let mut children = [0; CHILDREN_MAX];
        let count = arena.children(vertex, &mut children);
        let index = header.rank(fork.mark);
        children.copy_within(index..count, index + 1);
        let leaf = Some((index, bytes));
        let (tree, handle) =
            scratch.replace_branch(ledger, vertex, header.with(fork.mark), &mut children[..=count], leaf)?;
        scratch.path.push(PathStep { handle, offset, index: index as u8 });
        return Ok(tree);
    }
    scratch.allocate(ledger, &[leaf_granules(bytes.len()), branch_granules(2)])?;
    let arena = ledger.arena();
    let (leaf, branch) = (&scratch.new_blocks[0], &scratch.new_blocks[1]);
    arena.set_leaf(leaf, bytes);
    let is_first = fork.mark < fork.other;
    let children = if is_first { [leaf.handle(), vertex] } else { [vertex, leaf.handle()] };
    arena.set_branch(branch, BlockHeader::branch(fork.offset).with(fork.mark).with(fork.other), &children);
    let handle = branch.handle();
    let tree = scratch.link(ledger, handle, 2);
    scratch.path.push(PathStep { handle, offset, index: u8::from(!is_first) });
    Ok(tree)
}

/// Removes the leaf at the end of the path of `key`. A branch that would keep one child is replaced by that child.
pub(crate) fn remove(ledger: &mut Ledger, scratch: &mut Scratch, leaf: LeafHandle, key: &Key) -> Result<Tree, Full> {
    let Some(parent) = scratch.path.pop() else {
        ledger.discard(leaf.0);
        return Ok(Tree::EMPTY);
    };
    let arena = ledger.arena();
    let mut children = [0; CHILDREN_MAX];
    let count = arena.children(parent.handle, &mut children);
    let index = usize::from(parent.index);
    let tree = if count == 2 {
        scratch.allocate(ledger, &[])?;
        let tree = scratch.link(ledger, children[1 - index], 0);
        ledger.discard(parent.handle);
        tree
    } else {
        children.copy_within(index + 1..count, index);
        let header = arena.header(parent.handle).without(key.mark(usize::from(parent.offset)));
        scratch.replace_branch(ledger, parent.handle, header, &mut children[..count - 1], None)?.0
    };
    ledger.discard(leaf.0);
    Ok(tree)
}
