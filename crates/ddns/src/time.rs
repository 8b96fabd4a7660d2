//! Clocks.
#![expect(
    clippy::disallowed_methods,
    reason = "the one file that reads clocks; the state machine gets the time as an argument"
)]

use crate::machine::Now;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Now {
        Now { ms: self.0.elapsed().as_millis() as u64, unix_s: unix_s() }
    }
}

/// Seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after_ms(ms: u64) -> Self {
        Self(Instant::now() + Duration::from_millis(ms))
    }

    /// The remaining time. `None` after the deadline.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        // A socket timeout must not be zero.
        let remaining = self.0.saturating_duration_since(Instant::now());
        (remaining >= Duration::from_millis(1)).then_some(remaining)
    }
}

/// Sleeps.
pub(crate) fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
