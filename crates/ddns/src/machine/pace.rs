//! How often something may happen, and how long to rest after a failure.

use crate::limits::{REST_MS_MAX, REST_MS_MIN};

/// Lets a few through at once, and then one in each period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    burst: u32,
    period_ms: u64,
    /// When the burst is whole again.
    full_ms: u64,
}

impl Pace {
    pub(super) const fn new(burst: u32, period_ms: u64) -> Self {
        Self { burst, period_ms, full_ms: 0 }
    }

    /// When the next one may be taken.
    pub(super) const fn next_ms(&self) -> u64 {
        self.full_ms.saturating_sub((self.burst as u64 - 1) * self.period_ms)
    }

    /// Takes one.
    pub(super) fn take(&mut self, now_ms: u64) {
        debug_assert!(now_ms >= self.next_ms(), "taken too early");
        self.full_ms = self.full_ms.max(now_ms) + self.period_ms;
    }
}

/// Rests that grow with each failure, drawn between nothing and their bound, so that clients which failed together do
/// not come back together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { failures: 0 }
    }

    /// The rest after one more failure.
    pub(super) fn rest_ms(&mut self, dice: &mut Dice) -> u64 {
        let bound = (REST_MS_MIN << self.failures.min(20)).min(REST_MS_MAX);
        self.failures = self.failures.saturating_add(1);
        dice.draw(bound) + 1
    }

    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Numbers from a seed (splitmix64, Steele and others 2014): jitter needs no more.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`.
    pub(super) const fn draw(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_at_once_and_then_one_in_each_period() {
        let mut pace = Pace::new(4, 5_000);
        let mut now = 100_000;
        let mut times = Vec::new();
        for _ in 0..6 {
            now = now.max(pace.next_ms());
            pace.take(now);
            times.push(now - 100_000);
        }
        assert_eq!(times, [0, 0, 0, 0, 5_000, 10_000]);
        // After a rest that is long enough, the burst is whole.
        now += 20_000;
        for _ in 0..4 {
            assert!(pace.next_ms() <= now);
            pace.take(now);
        }
        assert_eq!(pace.next_ms(), now + 5_000);
    }

    #[test]
    fn rests_grow_up_to_their_bound_and_differ() {
        let mut dice = Dice::new(1);
        let mut backoff = Backoff::new();
        let rests: Vec<u64> = (0..40).map(|_| backoff.rest_ms(&mut dice)).collect();
        assert!(rests.iter().enumerate().all(|(n, rest)| *rest <= 1_000 << n.min(30)), "{rests:?}");
        assert!(rests.iter().all(|rest| *rest <= 600_000));
        assert!(rests[20..].iter().any(|rest| *rest > 300_000) && rests[20..].iter().any(|rest| *rest < 300_000));
        backoff.reset();
        assert!(backoff.rest_ms(&mut dice) <= 1_000);
    }
}
