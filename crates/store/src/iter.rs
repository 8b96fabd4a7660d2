//! Leaves in the order of their keys.

use crate::key::{Key, LeafKey};
use crate::tree::Tree;
use crate::view::View;

/// Iterates over the leaves of a tree in the order of their keys. Holds one entry for each branch between the root and
/// the next leaf, never more than a key has symbols.
pub struct Leaves<'a, K> {
    view: View<'a, K>,
    /// Branches, each with the index of its next child.
    stack: Vec<(u32, u8)>,
    /// A vertex whose leaves all come before those of the stack.
    next: Option<u32>,
}

impl<'a, K: LeafKey> Leaves<'a, K> {
    pub(crate) fn all(view: View<'a, K>, tree: Tree) -> Self {
        Self { view, stack: Vec::new(), next: (!tree.is_empty()).then(|| tree.to_bits()) }
    }

    pub(crate) fn from(view: View<'a, K>, tree: Tree, key: &Key) -> Self {
        let mut leaves = Self { view, stack: Vec::new(), next: None };
        if tree.is_empty() {
            return leaves;
        }
        let arena = view.arena();
        let difference = view.difference(view.nearest(tree, key), key);
        let stop = difference.map_or(usize::MAX, |difference| difference.offset);
        let mut handle = tree.to_bits();
        let mut header = arena.header(handle);
        while header.is_branch() && header.offset() < stop {
            let index = header.rank(key.mark(header.offset()));
            leaves.stack.push((handle, index as u8 + 1));
            handle = arena.child(handle, index);
            header = arena.header(handle);
        }
        match difference {
            Some(difference) if header.is_branch() && header.offset() == difference.offset => {
                leaves.stack.push((handle, header.rank(difference.mark) as u8));
            }
            Some(difference) if difference.other < difference.mark => {}
            _ => leaves.next = Some(handle),
        }
        leaves
    }
}

impl<'a, K: LeafKey> Iterator for Leaves<'a, K> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let arena = self.view.arena();
        let mut handle = match self.next.take() {
            Some(handle) => handle,
            None => loop {
                let (branch, index) = self.stack.last_mut()?;
                if usize::from(*index) < arena.header(*branch).count() {
                    *index += 1;
                    break arena.child(*branch, usize::from(*index) - 1);
                }
                self.stack.pop();
            },
        };
        while arena.header(handle).is_branch() {
            assert!(self.stack.len() <= crate::limits::KEY_SYMBOLS_MAX, "no tree is so deep: it is stale");
            self.stack.push((handle, 1));
            handle = arena.child(handle, 0);
        }
        Some(self.view.bytes(handle))
    }
}
