//! Changing trees. Each change takes all the blocks that it needs before it changes anything, so a full arena leaves
//! no change half made.

use crate::arena::{HALF_LINE_BYTES, Owned};
use crate::key::Key;
use crate::ledger::{Full, Ledger};
use crate::limits::{CHILDREN_MAX, LEAF_OCTETS_MAX};
use crate::tree::Tree;
use crate::vertex::{Word, branch_granules, leaf_granules};

/// A branch on the way down and the child that was taken.
#[derive(Clone, Copy)]
struct Step {
    handle: u32,
    offset: u16,
    index: u8,
}

/// The way from a root to the leaf that a key leads to, and the blocks of the change at its end. Kept between calls for
/// its memory.
#[derive(Default)]
pub(crate) struct Scratch {
    way: Vec<Step>,
    /// First the blocks that the change itself needs, then one for each branch that has to be copied, lowest first.
    fresh: Vec<Owned>,
}

/// The leaf at the end of the way.
#[derive(Clone, Copy)]
pub(crate) struct End(u32);

/// Where a new key leaves the way: the mark that differs first, in the new key and in the keys that are there.
#[derive(Clone, Copy)]
pub(crate) struct Fork {
    pub(crate) offset: usize,
    pub(crate) mark: u8,
    pub(crate) other: u8,
}

impl End {
    /// The octets of the leaf.
    pub(crate) fn octets(self, ledger: &Ledger) -> &[u8] {
        // SAFETY: blocks are written through `&mut Ledger` only and unmapped after its drop; the result borrows it.
        unsafe { ledger.arena().leaf(self.0) }
    }
}

impl Scratch {
    /// Goes down `tree`, which is not empty, to the only leaf that can have `key`.
    pub(crate) fn descend(&mut self, ledger: &Ledger, tree: Tree, key: &Key) -> End {
        self.way.clear();
        let arena = ledger.arena();
        let mut handle = tree.to_bits();
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
        let mut child = child;
        let mut copies = self.fresh.drain(own..);
        while let Some(step) = self.way.pop() {
            let index = usize::from(step.index);
            if let Some(block) = ledger.own(step.handle) {
                arena.set_child(&block, index, child);
                child = self.way.first().map_or(step.handle, |first| first.handle);
                break;
            }
            let block = copies.next().expect("a block was taken for each branch to copy");
            let mut children = [0; CHILDREN_MAX];
            let count = arena.children(step.handle, &mut children);
            children[index] = child;
            arena.set_branch(&block, arena.word(step.handle), &children[..count]);
            ledger.discard(step.handle);
            child = block.handle();
        }
        debug_assert_eq!(copies.len(), 0);
        drop(copies);
        self.fresh.clear();
        Tree::from_bits(child)
    }

    /// Puts a branch of these `children` in the place of the branch `vertex`, at the end of the way. With `leaf`, a new
    /// leaf of these octets is one of the children.
    fn rebranch(
        &mut self,
        ledger: &mut Ledger,
        vertex: u32,
        word: Word,
        children: &mut [u32],
        leaf: Option<(usize, &[u8])>,
    ) -> Result<Tree, Full> {
        let size = branch_granules(children.len());
        let in_place = ledger.arena().word(vertex).granules() == size && ledger.own(vertex).is_some();
        let leaf_size = leaf.map_or(1, |(_, octets)| leaf_granules(octets.len()));
        let sizes = [leaf_size, size];
        let own = &sizes[usize::from(leaf.is_none())..2 - usize::from(in_place)];
        self.take(ledger, own)?;
        let arena = ledger.arena();
        if let Some((index, octets)) = leaf {
            arena.set_leaf(&self.fresh[0], octets);
            children[index] = self.fresh[0].handle();
        }
        if in_place {
            let block = ledger.own(vertex).expect("it was just found to be open");
            arena.set_branch(&block, word, children);
            self.fresh.clear();
            return Ok(self.root(vertex));
        }
        let branch = &self.fresh[own.len() - 1];
        arena.set_branch(branch, word, children);
        let tree = self.link(ledger, branch.handle(), own.len());
        ledger.discard(vertex);
        Ok(tree)
    }
}

/// Whether a leaf of these octets can be kept at all.
pub(crate) fn check_leaf(octets: &[u8]) -> Result<(), Full> {
    if octets.len() <= LEAF_OCTETS_MAX { Ok(()) } else { Err(Full::Leaf) }
}

/// A tree of one leaf.
pub(crate) fn plant(ledger: &mut Ledger, octets: &[u8]) -> Result<Tree, Full> {
    let block = ledger.allocate(leaf_granules(octets.len()))?;
    ledger.arena().set_leaf(&block, octets);
    Ok(Tree::from_bits(block.handle()))
}

/// Replaces the leaf at the end of the way.
pub(crate) fn replace(ledger: &mut Ledger, scratch: &mut Scratch, end: End, octets: &[u8]) -> Result<Tree, Full> {
    let size = leaf_granules(octets.len());
    if ledger.arena().word(end.0).granules() == size
        && let Some(block) = ledger.own(end.0)
    {
        ledger.arena().set_leaf(&block, octets);
        return Ok(scratch.root(end.0));
    }
    scratch.take(ledger, &[size])?;
    ledger.arena().set_leaf(&scratch.fresh[0], octets);
    let tree = scratch.link(ledger, scratch.fresh[0].handle(), 1);
    ledger.discard(end.0);
    Ok(tree)
}

/// Adds a leaf whose key leaves the way at `fork`.
pub(crate) fn insert(
    ledger: &mut Ledger,
    scratch: &mut Scratch,
    end: End,
    octets: &[u8],
    fork: Fork,
) -> Result<Tree, Full> {
    // The first vertex of the way that looks at the fork or behind it.
    let mut vertex = end.0;
    while let Some(step) = scratch.way.pop_if(|step| usize::from(step.offset) >= fork.offset) {
        vertex = step.handle;
    }
    let arena = ledger.arena();
    let word = arena.word(vertex);
    if word.is_branch() && word.offset() == fork.offset {
        let mut children = [0; CHILDREN_MAX];
        let count = arena.children(vertex, &mut children);
        let index = word.rank(fork.mark);
        children.copy_within(index..count, index + 1);
        let leaf = Some((index, octets));
        return scratch.rebranch(ledger, vertex, word.with(fork.mark), &mut children[..=count], leaf);
    }
    scratch.take(ledger, &[leaf_granules(octets.len()), branch_granules(2)])?;
    let arena = ledger.arena();
    let (leaf, branch) = (&scratch.fresh[0], &scratch.fresh[1]);
    arena.set_leaf(leaf, octets);
    let children = if fork.mark < fork.other { [leaf.handle(), vertex] } else { [vertex, leaf.handle()] };
    arena.set_branch(branch, Word::branch(fork.offset).with(fork.mark).with(fork.other), &children);
    Ok(scratch.link(ledger, scratch.fresh[1].handle(), 2))
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
        scratch.rebranch(ledger, parent.handle, word, &mut children[..count - 1], None)?
    };
    ledger.discard(end.0);
    Ok(tree)
}
