//! Changing trees. Each change takes all the blocks that it needs before it changes anything, so a full arena leaves
//! no change half made.

use crate::arena::{HALF_LINE_BYTES, Owned};
use crate::key::{Key, LeafKey};
use crate::ledger::{Full, Ledger};
use crate::limits::{CHILDREN_MAX, LEAF_BYTES_MAX};
use crate::tree::Tree;
use crate::vertex::{Word, branch_granules, leaf_granules};

/// A branch on the way down and the child that was taken.
#[derive(Clone, Copy)]
struct Step {
    handle: u32,
    offset: u16,
    index: u8,
}

/// The way from a root to where a key belongs, and the blocks of the change at its end. Kept between calls for its
/// memory, and because the ways to neighbours are nearly the same.
#[derive(Default)]
pub(crate) struct Scratch {
    way: Vec<Step>,
    /// The tree that the way lies in, when it still leads to the leaf of `key`.
    known: Option<Tree>,
    key: Key,
    /// First the blocks that the change itself needs, then one for each branch that has to be copied, lowest first.
    fresh: Vec<Owned>,
}

/// The leaf at the end of the way.
#[derive(Clone, Copy)]
pub(crate) struct End(u32);

/// The location of a key in a tree. The path ends above it.
#[derive(Clone, Copy)]
pub(crate) enum KeyLocation {
    /// The tree is empty.
    Root,
    /// This leaf has the key.
    Leaf(End),
    /// No leaf has it. This is the first vertex on its way that looks at the fork or behind it.
    Fork(u32, Fork),
}

/// Where a new key leaves the way: the mark that differs first, in the new key and in the keys that are there.
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

impl End {
    /// The bytes of the leaf.
    pub(crate) fn bytes(self, ledger: &Ledger) -> &[u8] {
        // SAFETY: blocks are written through `&mut Ledger` only and unmapped after its drop; the result borrows it.
        unsafe { ledger.arena().leaf(self.0) }
    }
}

impl Scratch {
    /// Goes down `tree`, which is not empty, to the only leaf that can have `key`.
    pub(crate) fn descend(&mut self, ledger: &Ledger, tree: Tree, key: &Key) -> End {
        self.forget();
        self.descend_from(ledger, tree.to_bits(), key)
    }

    /// Goes on down from the vertex `handle`, which the way leads to.
    fn descend_from(&mut self, ledger: &Ledger, handle: u32, key: &Key) -> End {
        let (arena, mut handle) = (ledger.arena(), handle);
        loop {
            let word = arena.word(handle);
            if word.is_leaf() {
                return End(handle);
            }
            let offset = word.offset();
            // The offsets grow on every way down, which bounds it even in a tree that is stale.
            assert!(word.is_branch() && self.way.last().is_none_or(|step| usize::from(step.offset) < offset));
            let index = word.toward(key.mark(offset));
            self.way.push(Step { handle, offset: offset as u16, index: index as u8 });
            handle = arena.child(handle, index);
            arena.prefetch(handle, HALF_LINE_BYTES);
        }
    }

    /// The way leads nowhere any more: blocks that it names may be free.
    pub(crate) fn forget(&mut self) {
        self.known = None;
        self.way.clear();
    }

    /// Finds where `key` belongs in `tree`.
    ///
    /// A way that is known in this tree is followed as far as it is that of `key`, too: all leaves below a vertex on it
    /// agree with the known key in all marks before the one that the vertex looks at. So in the order of keys there is
    /// next to nothing to go, and often no leaf to compare with.
    pub(crate) fn seek<K: LeafKey>(&mut self, ledger: &Ledger, tree: Tree, key: &Key) -> KeyLocation {
        if tree.is_empty() {
            self.forget();
            return KeyLocation::Root;
        }
        let mut from = tree.to_bits();
        if self.known.take() == Some(tree) {
            let Some(offset) = self.key.mismatch(key) else { return KeyLocation::Leaf(End(self.lowest(ledger, tree))) };
            from = self.leave_way(offset).unwrap_or_else(|| self.lowest(ledger, tree));
            let (word, fork) = (ledger.arena().word(from), Fork::of(offset, key, self.key.mark(offset)));
            if word.is_leaf() || word.offset() != offset || !word.has(fork.mark) {
                return KeyLocation::Fork(from, fork);
            }
        } else {
            self.way.clear();
        }
        let end = self.descend_from(ledger, from, key);
        match K::mismatch(end.bytes(ledger), key) {
            None => KeyLocation::Leaf(end),
            Some((offset, symbol)) => {
                let vertex = self.leave_way(offset).unwrap_or(end.0);
                KeyLocation::Fork(vertex, Fork::of(offset, key, symbol.map_or(0, |symbol| symbol + 1)))
            }
        }
    }

    /// Ends the way above the first branch on it that looks at `offset` or behind it, which is returned.
    fn leave_way(&mut self, offset: usize) -> Option<u32> {
        let mut vertex = None;
        while let Some(step) = self.way.pop_if(|step| usize::from(step.offset) >= offset) {
            vertex = Some(step.handle);
        }
        vertex
    }

    /// What the way ends in.
    fn lowest(&self, ledger: &Ledger, tree: Tree) -> u32 {
        self.way.last().map_or(tree.to_bits(), |step| ledger.arena().child(step.handle, usize::from(step.index)))
    }

    /// The root of the way, where `lowest` is what it ends in.
    fn root(&self, lowest: u32) -> Tree {
        Tree::from_bits(self.way.first().map_or(lowest, |step| step.handle))
    }

    /// Takes blocks of the sizes in `own` and for copies of all branches of the way that the open version must not
    /// change; all or none.
    fn take(&mut self, ledger: &mut Ledger, own: &[usize]) -> Result<(), Full> {
        debug_assert!(self.fresh.is_empty());
        for granules in own {
            self.take_one(ledger, *granules)?;
        }
        for index in (0..self.way.len()).rev() {
            let handle = self.way[index].handle;
            // What is above a branch of the open version belongs to it too.
            if ledger.own(handle).is_some() {
                break;
            }
            self.take_one(ledger, ledger.arena().word(handle).granules())?;
        }
        Ok(())
    }

    fn take_one(&mut self, ledger: &mut Ledger, granules: usize) -> Result<(), Full> {
        match ledger.allocate(granules) {
            Ok(block) => {
                self.fresh.push(block);
                Ok(())
            }
            Err(full) => {
                self.fresh.drain(..).for_each(|block| ledger.give_back(block));
                Err(full)
            }
        }
    }

    /// Hangs `child` at the end of the way, in copies where needed; of the fresh blocks, `own` are in use already.
    fn link(&mut self, ledger: &mut Ledger, child: u32, own: usize) -> Tree {
        let arena = ledger.arena();
        let (lowest, mut child) = (child, child);
        let mut copies = self.fresh.drain(own..);
        for step in self.way.iter_mut().rev() {
            let index = usize::from(step.index);
            if let Some(block) = ledger.own(step.handle) {
                arena.set_child(&block, index, child);
                break;
            }
            let block = copies.next().expect("a block was taken for each branch to copy");
            let mut children = [0; CHILDREN_MAX];
            let count = arena.children(step.handle, &mut children);
            children[index] = child;
            arena.set_branch(&block, arena.word(step.handle), &children[..count]);
            ledger.discard(step.handle);
            step.handle = block.handle();
            child = step.handle;
        }
        debug_assert_eq!(copies.len(), 0);
        drop(copies);
        self.fresh.clear();
        self.root(lowest)
    }

    /// Puts a branch of these `children` in the place of the branch `vertex`, at the end of the way. With `leaf`, a new
    /// leaf of these bytes is one of the children. Returns the new branch too.
    fn rebranch(
        &mut self,
        ledger: &mut Ledger,
        vertex: u32,
        word: Word,
        children: &mut [u32],
        leaf: Option<(usize, &[u8])>,
    ) -> Result<(Tree, u32), Full> {
        let size = branch_granules(children.len());
        let in_place = ledger.arena().word(vertex).granules() == size && ledger.own(vertex).is_some();
        let leaf_size = leaf.map_or(1, |(_, bytes)| leaf_granules(bytes.len()));
        let sizes = [leaf_size, size];
        let own = &sizes[usize::from(leaf.is_none())..2 - usize::from(in_place)];
        self.take(ledger, own)?;
        let arena = ledger.arena();
        if let Some((index, bytes)) = leaf {
            arena.set_leaf(&self.fresh[0], bytes);
            children[index] = self.fresh[0].handle();
        }
        if in_place {
            let block = ledger.own(vertex).expect("it was just found to be open");
            arena.set_branch(&block, word, children);
            self.fresh.clear();
            return Ok((self.root(vertex), vertex));
        }
        let branch = &self.fresh[own.len() - 1];
        arena.set_branch(branch, word, children);
        let handle = branch.handle();
        let tree = self.link(ledger, handle, own.len());
        ledger.discard(vertex);
        Ok((tree, handle))
    }
}

impl Fork {
    fn of(offset: usize, key: &Key, other: u8) -> Self {
        Self { offset, mark: key.mark(offset), other }
    }
}

/// Whether a leaf of these bytes can be kept at all.
pub(crate) fn check_leaf(bytes: &[u8]) -> Result<(), Full> {
    if bytes.len() <= LEAF_BYTES_MAX { Ok(()) } else { Err(Full::Leaf) }
}

/// Puts a leaf where its `key` belongs.
pub(crate) fn put(
    ledger: &mut Ledger,
    scratch: &mut Scratch,
    place: KeyLocation,
    key: &Key,
    bytes: &[u8],
) -> Result<Tree, Full> {
    let tree = match place {
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

/// Replaces the leaf at the end of the way.
fn replace(ledger: &mut Ledger, scratch: &mut Scratch, end: End, bytes: &[u8]) -> Result<Tree, Full> {
    let size = leaf_granules(bytes.len());
    if ledger.arena().word(end.0).granules() == size
        && let Some(block) = ledger.own(end.0)
    {
        ledger.arena().set_leaf(&block, bytes);
        return Ok(scratch.root(end.0));
    }
    scratch.take(ledger, &[size])?;
    ledger.arena().set_leaf(&scratch.fresh[0], bytes);
    let tree = scratch.link(ledger, scratch.fresh[0].handle(), 1);
    ledger.discard(end.0);
    Ok(tree)
}

/// Adds a leaf whose key leaves the others at `fork`, above `vertex` or among its children. The way leads to it then.
fn insert(ledger: &mut Ledger, scratch: &mut Scratch, vertex: u32, bytes: &[u8], fork: Fork) -> Result<Tree, Full> {
    let offset = fork.offset as u16;
    let arena = ledger.arena();
    let word = arena.word(vertex);
    if word.is_branch() && word.offset() == fork.offset {
        let mut children = [0; CHILDREN_MAX];
        let count = arena.children(vertex, &mut children);
        let index = word.rank(fork.mark);
        children.copy_within(index..count, index + 1);
        let leaf = Some((index, bytes));
        let (tree, handle) = scratch.rebranch(ledger, vertex, word.with(fork.mark), &mut children[..=count], leaf)?;
        scratch.way.push(Step { handle, offset, index: index as u8 });
        return Ok(tree);
    }
    scratch.take(ledger, &[leaf_granules(bytes.len()), branch_granules(2)])?;
    let arena = ledger.arena();
    let (leaf, branch) = (&scratch.fresh[0], &scratch.fresh[1]);
    arena.set_leaf(leaf, bytes);
    let is_first = fork.mark < fork.other;
    let children = if is_first { [leaf.handle(), vertex] } else { [vertex, leaf.handle()] };
    arena.set_branch(branch, Word::branch(fork.offset).with(fork.mark).with(fork.other), &children);
    let handle = branch.handle();
    let tree = scratch.link(ledger, handle, 2);
    scratch.way.push(Step { handle, offset, index: u8::from(!is_first) });
    Ok(tree)
}

/// Removes the leaf at the end of the way that `key` led to. A branch that would keep one child gives way to it.
pub(crate) fn remove(ledger: &mut Ledger, scratch: &mut Scratch, end: End, key: &Key) -> Result<Tree, Full> {
    let Some(parent) = scratch.way.pop() else {
        ledger.discard(end.0);
        return Ok(Tree::EMPTY);
    };
    let arena = ledger.arena();
    let mut children = [0; CHILDREN_MAX];
    let count = arena.children(parent.handle, &mut children);
    let index = usize::from(parent.index);
    let tree = if count == 2 {
        scratch.take(ledger, &[])?;
        let tree = scratch.link(ledger, children[1 - index], 0);
        ledger.discard(parent.handle);
        tree
    } else {
        children.copy_within(index + 1..count, index);
        let word = arena.word(parent.handle).without(key.mark(usize::from(parent.offset)));
        scratch.rebranch(ledger, parent.handle, word, &mut children[..count - 1], None)?.0
    };
    ledger.discard(end.0);
    Ok(tree)
}
