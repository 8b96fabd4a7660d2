//! Deadlines of connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A connection has one deadline that counts; what it said before is passed over by its owner.
pub(in crate::engine) struct Timers<T>(BinaryHeap<Reverse<(T, u32, u32)>>);

impl<T: Ord + Copy> Timers<T> {
    pub(in crate::engine) const fn new() -> Self {
        Self(BinaryHeap::new())
    }

    /// A connection, by slot and generation, is due at a time.
    pub(in crate::engine) fn push(&mut self, due: T, slot: u32, generation: u32) {
        self.0.push(Reverse((due, slot, generation)));
    }

    /// When the next is due.
    pub(in crate::engine) fn next(&self) -> Option<T> {
        self.0.peek().map(|Reverse((due, _, _))| *due)
    }

    /// Takes the next out, if it is due.
    pub(in crate::engine) fn pop(&mut self, now: T) -> Option<(T, u32, u32)> {
        if self.next()? > now { None } else { self.0.pop().map(|Reverse(entry)| entry) }
    }
}
