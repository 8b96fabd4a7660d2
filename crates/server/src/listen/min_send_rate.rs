//! A minimum rate at which a client must read its responses. Without it, a client that reads one byte at a time could
//! keep its connection and its responses forever.
//!
//! While data waits, the client has a deadline, at most one window ahead. Each byte that it reads moves the deadline
//! ahead. A client that keeps the rate never reaches it, and a fast client cannot save up more than one window.

use crate::limits::SEND_BYTES_PER_SECOND_MIN;
use std::time::Duration;
use tokio::time::Instant;

/// Window in which the rate of a client is measured, in idle timeouts.
const SEND_RATE_WINDOW_IDLES: u32 = 3;

const NANOS_PER_BYTE: u64 = 1_000_000_000 / SEND_BYTES_PER_SECOND_MIN;

/// The send rate of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinSendRate {
    window: Duration,
    /// The deadline of the client; `None` while no data waits for it.
    until: Option<Instant>,
}

impl MinSendRate {
    /// The rate of a connection with this idle timeout.
    pub(super) const fn new(idle: Duration) -> Self {
        Self { window: idle.saturating_mul(SEND_RATE_WINDOW_IDLES), until: None }
    }

    /// Starts the deadline because data waits for the client, unless it runs already.
    pub(super) fn begin(&mut self, now: Instant) {
        self.until.get_or_insert(now + self.window);
    }

    /// Stops the deadline because no data waits any more.
    pub(super) const fn end(&mut self) {
        self.until = None;
    }

    /// Records that the client read this many bytes.
    pub(super) fn record_sent(&mut self, bytes: usize, now: Instant) {
        if let Some(until) = &mut self.until {
            let earned = Duration::from_nanos((bytes as u64).saturating_mul(NANOS_PER_BYTE)).min(self.window);
            *until = (*until + earned).min(now + self.window);
        }
    }

    /// The earlier of `time` and the deadline.
    pub(super) fn deadline_or(&self, time: Instant) -> Instant {
        self.until.map_or(time, |until| until.min(time))
    }

    /// Whether the client is too slow.
    pub(super) fn is_too_slow(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_at_the_rate_never_reaches_the_deadline_and_a_fast_one_saves_one_window() {
        const RATE: usize = SEND_BYTES_PER_SECOND_MIN as usize;
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut send_rate = MinSendRate::new(Duration::from_secs(10));
        let window = u64::from(SEND_RATE_WINDOW_IDLES) * 10;
        send_rate.record_sent(1_000_000, start);
        assert_eq!(send_rate.until, None, "nothing waits");
        send_rate.begin(start);
        send_rate.begin(after(1));
        assert_eq!(send_rate.until, Some(after(window)));
        // At the rate, for an hour.
        (1..=3_600).for_each(|second| send_rate.record_sent(RATE, after(second)));
        let until = send_rate.until.unwrap();
        assert!(until <= after(3_600 + window) && until > after(3_599 + window), "{:?}", until - start);
        // Far beyond it, and then at half of it.
        send_rate.record_sent(usize::MAX, after(3_601));
        let ends = (3_602..).find(|second| {
            send_rate.record_sent(RATE / 2, after(*second));
            send_rate.is_too_slow(after(*second))
        });
        assert!((3_600 + 2 * window..=3_604 + 2 * window).contains(&ends.unwrap()), "{ends:?}");
        send_rate.end();
        assert!(!send_rate.is_too_slow(after(u64::from(u32::MAX))));
    }
}
