//! Starts all workers together once the last one is ready.

use super::clock::Clock;
use std::sync::{Barrier, OnceLock};
use std::time::Instant;

/// The barrier, and the clock that it starts.
pub(super) struct StartBarrier {
    barrier: Barrier,
    clock: OnceLock<Clock>,
    /// The agreed start time, if any.
    at: Option<Instant>,
}

impl StartBarrier {
    pub(super) fn new(worker_count: usize, at: Option<Instant>) -> Self {
        Self { barrier: Barrier::new(worker_count), clock: OnceLock::new(), at }
    }

    /// The clock of the run, or a new clock if the workers have never met.
    pub(super) fn clock(&self) -> Clock {
        *self.clock.get_or_init(Clock::provisional)
    }

    /// Waits for the other workers. Returns the clock of the run.
    pub(super) fn wait(&self) -> Clock {
        self.barrier.wait();
        *self.clock.get_or_init(|| self.at.map_or_else(Clock::starting_soon, Clock::at))
    }
}
