//! Deadlines of connections: for a handshake, then for silence.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A connection has one deadline that counts; what it said before is passed over by its owner.
#[derive(Default)]
pub(in crate::engine) struct Timers(BinaryHeap<Reverse<(u64, u32, u32)>>);

impl Timers {
    /// A connection, by slot and generation, is due at a time.
    pub(in crate::engine) fn push(&mut self, due_ns: u64, slot: u32, generation: u32) {
        self.0.push(Reverse((due_ns, slot, generation)));
    }

    /// The next that is due.
    pub(in crate::engine) fn pop(&mut self, now: u64) -> Option<(u64, u32, u32)> {
        let Reverse((due, _, _)) = self.0.peek()?;
        if *due > now { None } else { self.0.pop().map(|Reverse(entry)| entry) }
    }
}
