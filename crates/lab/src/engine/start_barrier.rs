//! Workers start together, once the last of them is ready.

use super::clock::Clock;
use std::sync::{Barrier, OnceLock};
use std::time::Instant;

/// The barrier, and the clock that starts there.
pub(super) struct StartBarrier {
    barrier: Barrier,
    clock: OnceLock<Clock>,
    /// When, if that has been agreed.
    at: Option<Instant>,
}

impl StartBarrier {
    pub(super) fn new(worker_count: usize, at: Option<Instant>) -> Self {
        Self { barrier: Barrier::new(worker_count), clock: OnceLock::new(), at }
    }

    /// The clock of the run; one that starts just now when they have never met.
    pub(super) fn clock(&self) -> Clock {
        *self.clock.get_or_init(Clock::provisional)
    }

    /// Waits for the others; the clock of the run.
    pub(super) fn wait(&self) -> Clock {
        self.barrier.wait();
        *self.clock.get_or_init(|| self.at.map_or_else(Clock::soon, Clock::at))
    }
}
