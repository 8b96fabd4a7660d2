//! The time of a batch, read once at first use. Reading the clock takes about 30 ns.

use crate::sys::clock::now_s;
use std::time::Instant;

/// The clock of one batch.
pub(crate) struct BatchClock {
    started_at: Instant,
    us: Option<u64>,
    s: Option<u64>,
}

impl BatchClock {
    /// A clock that counts from `started_at`.
    pub(crate) const fn new(started_at: Instant) -> Self {
        Self { started_at, us: None, s: None }
    }

    /// Microseconds since the start; never goes back.
    pub(crate) fn now_us(&mut self) -> u64 {
        *self.us.get_or_insert_with(|| self.started_at.elapsed().as_micros() as u64)
    }

    /// Seconds since 1970.
    pub(crate) fn now_s(&mut self) -> u64 {
        *self.s.get_or_insert_with(now_s)
    }
}
