//! Rate limits, and delays after failures.

use crate::limits::{RETRY_MS_MAX, RETRY_MS_MIN};

/// A token bucket: allows a burst, then one event in each period.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimiter {
    burst: u32,
    period_ms: u64,
    /// When the bucket is full again.
    full_ms: u64,
}

impl RateLimiter {
    pub(super) const fn new(burst: u32, period_ms: u64) -> Self {
        Self { burst, period_ms, full_ms: 0 }
    }

    /// When the next event is allowed.
    pub(super) const fn next_ms(&self) -> u64 {
        self.full_ms.saturating_sub((self.burst as u64 - 1) * self.period_ms)
    }

    /// Takes a token.
    pub(super) fn take(&mut self, now_ms: u64) {
        debug_assert!(now_ms >= self.next_ms(), "taken too early");
        self.full_ms = self.full_ms.max(now_ms) + self.period_ms;
    }
}

/// Exponential backoff with full jitter, so that clients that failed at the same time do not retry at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { failures: 0 }
    }

    /// The delay after one more failure.
    pub(super) fn delay_ms(&mut self, rng: &mut Rng) -> u64 {
        let limit = (RETRY_MS_MIN << self.failures.min(20)).min(RETRY_MS_MAX);
        self.failures = self.failures.saturating_add(1);
        rng.random_below(limit) + 1
    }

    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Pseudorandom numbers for jitter (splitmix64, Steele et al. 2014).
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `limit`.
    pub(super) const fn random_below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_then_one_in_each_period() {
        let mut limiter = RateLimiter::new(4, 5_000);
        let mut now = 100_000;
        let mut times = Vec::new();
        for _ in 0..6 {
            now = now.max(limiter.next_ms());
            limiter.take(now);
            times.push(now - 100_000);
        }
        assert_eq!(times, [0, 0, 0, 0, 5_000, 10_000]);
        // After a long pause, the bucket is full.
        now += 20_000;
        for _ in 0..4 {
            assert!(limiter.next_ms() <= now);
            limiter.take(now);
        }
        assert_eq!(limiter.next_ms(), now + 5_000);
    }

    #[test]
    fn delays_grow_up_to_their_bound_and_differ() {
        let mut rng = Rng::new(1);
        let mut backoff = Backoff::new();
        let delays: Vec<u64> = (0..40).map(|_| backoff.delay_ms(&mut rng)).collect();
        assert!(delays.iter().enumerate().all(|(n, delay)| *delay <= 1_000 << n.min(30)), "{delays:?}");
        assert!(delays.iter().all(|delay| *delay <= 600_000));
        assert!(delays[20..].iter().any(|delay| *delay > 300_000) && delays[20..].iter().any(|delay| *delay < 300_000));
        backoff.reset();
        assert!(backoff.delay_ms(&mut rng) <= 1_000);
    }
}
