//! The results of one descent: the position of a key in a tree.

use crate::limits::{PREFIXES_MAX, TRAIL_ENDS_MAX};
use std::mem::MaybeUninit;

/// The position of a key in a tree, found by [`crate::View::locate`]. It is big (2 KiB); reuse it within one version.
pub struct Path<'a> {
    pub(crate) exact: Option<&'a [u8]>,
    pub(crate) pred: Option<&'a [u8]>,
    pub(crate) succ: Option<&'a [u8]>,
    /// The first `len` entries are set. The others stay uninitialized, because few names have many ancestors.
    prefixes: [MaybeUninit<&'a [u8]>; PREFIXES_MAX],
    len: usize,
}

impl<'a> Path<'a> {
    /// An empty path.
    pub const fn new() -> Self {
        Self { exact: None, pred: None, succ: None, prefixes: [const { MaybeUninit::uninit() }; PREFIXES_MAX], len: 0 }
    }

    /// The leaf with the key.
    pub fn exact(&self) -> Option<&'a [u8]> {
        self.exact
    }

    /// The greatest leaf whose key is less than the key. Unknown if the leaf with the key was found by a [`Trail`].
    pub fn pred(&self) -> Option<&'a [u8]> {
        self.pred
    }

    /// The least leaf whose key is greater than the key. Unknown if the predecessor is unknown.
    pub fn succ(&self) -> Option<&'a [u8]> {
        self.succ
    }

    /// The leaves whose keys are proper prefixes of the key, shortest first. If there are more than [`PREFIXES_MAX`],
    /// the last one is still the longest, and some before it are missing.
    pub fn prefixes(&self) -> &[&'a [u8]] {
        let set = &self.prefixes[..self.len];
        // SAFETY: `push` sets an entry whenever it raises `len` to cover it, and nothing else raises `len`.
        // `MaybeUninit<T>` has the layout of `T`.
        unsafe { std::slice::from_raw_parts(set.as_ptr().cast(), set.len()) }
    }

    pub(crate) fn clear(&mut self) {
        self.exact = None;
        self.pred = None;
        self.succ = None;
        self.len = 0;
    }

    pub(crate) fn push(&mut self, leaf: &'a [u8]) {
        self.len = (self.len + 1).min(PREFIXES_MAX);
        self.prefixes[self.len - 1] = MaybeUninit::new(leaf);
    }
}

/// The descent of a key in a tree, as handles: the leaf at its end, and the leaves whose keys end on the way. Like a
/// [`crate::Tree`], it is valid in one version.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail {
    /// The leaf at the end of the descent; 0 in an empty tree.
    pub(crate) leaf: u32,
    /// The number of keys that end on the way. It may exceed the length of `ends`, which then has only the first ones.
    pub(crate) end_count: u32,
    /// The leaves whose keys end on the way. If the reached leaf has the key, these keys are its prefixes.
    pub(crate) ends: [u32; TRAIL_ENDS_MAX],
}

impl Trail {
    #[inline]
    pub(crate) fn push_end(&mut self, end: u32) {
        if let Some(slot) = self.ends.get_mut(self.end_count as usize) {
            *slot = end;
        }
        self.end_count += 1;
    }
}

impl Default for Path<'_> {
    fn default() -> Self {
        Self::new()
    }
}
