//! The time of a batch, read once, when it is first wanted: its messages came together, and a look at the clock for
//! each of them would cost some 30 ns, a part of its answer that can be measured.

use super::update_thread::now_s;
use std::time::Instant;

/// See the module. Made anew for each batch.
pub(crate) struct BatchClock {
    started_at: Instant,
    us: Option<u64>,
    s: Option<u64>,
}

impl BatchClock {
    /// Counts from `started_at`.
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
