//! Deadlines of connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Deadlines in order. Only the latest deadline of a connection counts. The owner ignores earlier ones.
pub(in crate::engine) struct Timers<T>(BinaryHeap<Reverse<(T, u32, u32)>>);

impl<T: Ord + Copy> Timers<T> {
    pub(in crate::engine) const fn new() -> Self {
        Self(BinaryHeap::new())
    }

    /// Adds a deadline of a connection, given by slot and generation.
    pub(in crate::engine) fn push(&mut self, due: T, slot: u32, generation: u32) {
        self.0.push(Reverse((due, slot, generation)));
    }

    /// The time of the next deadline.
    pub(in crate::engine) fn next(&self) -> Option<T> {
        self.0.peek().map(|Reverse((due, _, _))| *due)
    }

    /// Takes the next deadline, if it has passed.
    pub(in crate::engine) fn pop(&mut self, now: T) -> Option<(T, u32, u32)> {
        if self.next()? > now { None } else { self.0.pop().map(|Reverse(entry)| entry) }
    }
}
