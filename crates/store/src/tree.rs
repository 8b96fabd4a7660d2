//! Handles of trees and versions.

/// One ordered map in the arena: the handle of its root.
///
/// A tree changes by [`crate::Store::put`] and [`crate::Store::remove`], which return the changed tree; the one that
/// was passed in is then stale. So is every tree of a version that was dropped or, for a reader, released. **Using a
/// stale tree is an error of the caller**: reads never leave the arena, but may panic or return any bytes in it. Trees
/// are safe to use when they are found, directly or in a leaf, from the root of a pinned version or of the writer's
/// head.
///
/// A tree can be kept in a leaf of another tree by its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tree(u32);

impl Tree {
    /// The tree without leaves.
    pub const EMPTY: Tree = Tree(0);

    /// Whether the tree has no leaf.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tree as a number, which a leaf can store.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The tree from the result of [`Tree::to_bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// The number of a sealed version. It is greater than the numbers of all versions sealed before, including dropped
/// ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(pub u64);
