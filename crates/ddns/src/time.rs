//! The clocks of the machine that this runs on.
#![expect(clippy::disallowed_methods, reason = "the one file that reads clocks; the machine is given what they say")]

use crate::machine::Now;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the clock that only goes on is read from.
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

/// Seconds of 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// When something must have come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after_ms(ms: u64) -> Self {
        Self(Instant::now() + Duration::from_millis(ms))
    }

    /// The time that is left; `None` when there is none.
    pub(crate) fn left(&self) -> Option<Duration> {
        // A socket takes no time-out of less than a microsecond.
        let left = self.0.saturating_duration_since(Instant::now());
        (left >= Duration::from_millis(1)).then_some(left)
    }
}

/// Lets some time pass.
pub(crate) fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
