//! Whether a client takes what waits for it as fast as it has to: one that takes an byte now and then would keep its
//! place, and what it has asked for, as long as it likes.
//!
//! While something waits, the time in which the client has to take more is a window at most. It gets shorter as time
//! goes by, and longer with each byte that is taken: who keeps the rate has time always, and who was quick before has
//! a window's worth of it and not more.

use crate::limits::{DRAIN_BYTES_PER_SECOND_MIN, DRAIN_WINDOW_IDLES};
use std::time::Duration;
use tokio::time::Instant;

const NANOS_AN_BYTE: u64 = 1_000_000_000 / DRAIN_BYTES_PER_SECOND_MIN;

/// Of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    window: Duration,
    /// When the client is too slow, unless it takes something; `None` while nothing waits for it.
    until: Option<Instant>,
}

impl Drain {
    /// Where this much silence is borne.
    pub(super) const fn new(idle: Duration) -> Self {
        Self { window: idle.saturating_mul(DRAIN_WINDOW_IDLES), until: None }
    }

    /// Takes note that something waits for the client, which it may have done before.
    pub(super) fn begin(&mut self, now: Instant) {
        self.until.get_or_insert(now + self.window);
    }

    /// Takes note that nothing waits any more.
    pub(super) const fn end(&mut self) {
        self.until = None;
    }

    /// Takes note that so many bytes were taken.
    pub(super) fn took(&mut self, bytes: usize, now: Instant) {
        if let Some(until) = &mut self.until {
            let earned = Duration::from_nanos((bytes as u64).saturating_mul(NANOS_AN_BYTE)).min(self.window);
            *until = (*until + earned).min(now + self.window);
        }
    }

    /// The earlier of a time and that at which it is too slow, unless it takes something.
    pub(super) fn or_earlier(&self, time: Instant) -> Instant {
        self.until.map_or(time, |until| until.min(time))
    }

    /// Whether it is too slow.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_keeps_the_rate_has_time_and_who_was_quick_has_no_more_of_it() {
        const RATE: usize = DRAIN_BYTES_PER_SECOND_MIN as usize;
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut drain = Drain::new(Duration::from_secs(10));
        let window = u64::from(DRAIN_WINDOW_IDLES) * 10;
        drain.took(1_000_000, start);
        assert_eq!(drain.until, None, "nothing waits");
        drain.begin(start);
        drain.begin(after(1));
        assert_eq!(drain.until, Some(after(window)));
        // At the rate, for an hour.
        (1..=3_600).for_each(|second| drain.took(RATE, after(second)));
        let until = drain.until.unwrap();
        assert!(until <= after(3_600 + window) && until > after(3_599 + window), "{:?}", until - start);
        // Far beyond it, and then at half of it.
        drain.took(usize::MAX, after(3_601));
        let ends = (3_602..).find(|second| {
            drain.took(RATE / 2, after(*second));
            drain.is_over(after(*second))
        });
        assert!((3_600 + 2 * window..=3_604 + 2 * window).contains(&ends.unwrap()), "{ends:?}");
        drain.end();
        assert!(!drain.is_over(after(u64::from(u32::MAX))));
    }
}
