//! What one descent tells about the place of a key.

use crate::limits::{PREFIXES_MAX, TRAIL_ENDS_MAX};
use std::mem::MaybeUninit;

/// The place of a key in a tree, as [`crate::View::locate`] found it. Big (2 KiB) and meant to be reused while one
/// version is read.
pub struct Path<'a> {
    pub(crate) exact: Option<&'a [u8]>,
    pub(crate) pred: Option<&'a [u8]>,
    pub(crate) succ: Option<&'a [u8]>,
    /// The first `len` are set; nothing is written for the others, since hardly any name has many ancestors.
    prefixes: [MaybeUninit<&'a [u8]>; PREFIXES_MAX],
    len: usize,
}

impl<'a> Path<'a> {
    /// The path of nothing.
    pub const fn new() -> Self {
        Self { exact: None, pred: None, succ: None, prefixes: [const { MaybeUninit::uninit() }; PREFIXES_MAX], len: 0 }
    }

    /// The leaf with the key.
    pub fn exact(&self) -> Option<&'a [u8]> {
        self.exact
    }

    /// The greatest leaf whose key is less than the key; not known when the leaf with the key was found at the end of a
    /// [`Trail`].
    pub fn pred(&self) -> Option<&'a [u8]> {
        self.pred
    }

    /// The least leaf whose key is greater than the key; known when the one before is.
    pub fn succ(&self) -> Option<&'a [u8]> {
        self.succ
    }

    /// The leaves whose keys are prefixes of the key and not equal to it, shortest first. When there are more than
    /// [`PREFIXES_MAX`] of them, the last one here is still the longest of all, and those between are missing.
    pub fn prefixes(&self) -> &[&'a [u8]] {
        let set = &self.prefixes[..self.len];
        // SAFETY: `push` sets an entry whenever it raises `len` to cover it, and nothing else raises `len`; a
        // `MaybeUninit` has the layout of what it may hold.
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

/// The way that a key takes down a tree, as handles: where it ends, and where keys end on it. It belongs to the version
/// that it was gone in, as a [`crate::Tree`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trail {
    /// The leaf that was reached; 0 in an empty tree.
    pub(crate) leaf: u32,
    /// How many of `ends` are set, or more, when there was no room for all.
    pub(crate) end_count: u32,
    /// The leaves whose keys end on the way: if the leaf that was reached has the key, they are its prefixes.
    pub(crate) ends: [u32; TRAIL_ENDS_MAX],
}

impl Trail {
    #[inline]
    pub(crate) fn pass(&mut self, end: u32) {
        if let Some(place) = self.ends.get_mut(self.end_count as usize) {
            *place = end;
        }
        self.end_count += 1;
    }
}

impl Default for Path<'_> {
    fn default() -> Self {
        Self::new()
    }
}
