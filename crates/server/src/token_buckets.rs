//! A fixed table of token buckets for rate limits of responses and handshakes, four to a cache line.
//!
//! A bucket stores the time at which it is full again (the generic cell rate algorithm of ATM). Each token moves that
//! time by one interval, and it may be at most one burst in the future.

use crate::limits::RATE_LIMIT_BUCKETS;

/// Buckets that a key may use.
const WAYS: usize = 4;

/// The tag of a key, and the time at which the bucket is full again, in nanoseconds since the start. A time in the past
/// means an unused bucket.
///
/// Plain integers: the kernel provides a zeroed table, and a page uses memory only once a bucket on it is used.
type TokenBucket = [u64; 2];

/// One cache line of 64 bytes; a table of this size is aligned to cache lines.
type Line = [TokenBucket; WAYS];

/// A power of two, so that any bits of a key can be the index.
const LINES: usize = RATE_LIMIT_BUCKETS / WAYS;
const _: () = assert!(LINES.is_power_of_two() && LINES < 1 << 32 && RATE_LIMIT_BUCKETS.is_multiple_of(WAYS));

/// The rate of a bucket. One table may hold buckets of several rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    /// Time between two tokens, in nanoseconds.
    interval_ns: u64,
    /// How far in the future the time of a bucket may be.
    ahead_ns_max: u64,
}

impl Rate {
    /// A rate in tokens per second, and a burst of at least one token.
    pub(crate) fn new(per_second: f64, burst: f64) -> Self {
        let interval_ns = (1e9 / per_second) as u64;
        Self { interval_ns, ahead_ns_max: (interval_ns as f64 * burst.max(1.0)) as u64 }
    }
}

/// The table of buckets; see the module.
pub(crate) struct TokenBuckets {
    lines: Vec<Line>,
}

impl TokenBuckets {
    pub(crate) fn new() -> Self {
        Self { lines: vec![[[0; 2]; WAYS]; LINES] }
    }

    /// Loads the cache lines of these keys. The reads are independent, so their misses overlap.
    pub(crate) fn prefetch(&self, keys: impl Iterator<Item = u64>) {
        std::hint::black_box(keys.fold(0, |all, key| all ^ self.lines[line_of(key)][0][0]));
    }

    /// Takes one token of a key; false when none is left.
    pub(crate) fn take(&mut self, key: u64, rate: Rate, now_us: u64) -> bool {
        let now_ns = now_us * 1_000;
        let buckets = &mut self.lines[line_of(key)];
        // The upper half selects the line; the lower half distinguishes keys of a line.
        let tag = key & u64::from(u32::MAX);
        // The matching way is random, so a branch per way would be mispredicted.
        let ways = (0..WAYS).fold(0, |ways, way| ways | usize::from(buckets[way][0] == tag) << way);
        let way = if ways == 0 {
            let way = fullest(buckets);
            buckets[way] = [tag, 0];
            way
        } else {
            ways.trailing_zeros() as usize % WAYS
        };
        let [_, full_at] = &mut buckets[way];
        let next = (*full_at).max(now_ns) + rate.interval_ns;
        if next - now_ns > rate.ahead_ns_max {
            return false;
        }
        *full_at = next;
        true
    }
}

/// The line of a key.
const fn line_of(key: u64) -> usize {
    (key >> 32) as usize % LINES
}

/// The fullest bucket: replacing it loses the least.
fn fullest(buckets: &Line) -> usize {
    let timed = |way: usize| (buckets[way][1], way);
    let earlier = |one: (u64, usize), other: (u64, usize)| if other.0 < one.0 { other } else { one };
    earlier(earlier(timed(0), timed(1)), earlier(timed(2), timed(3))).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A simple model: a bucket whose tokens refill at the rate.
    struct ModelBucket {
        tokens: f64,
        at_us: u64,
    }

    proptest! {
        #[test]
        fn a_bucket_matches_a_simple_model(
            rate in 1u32..1_000, burst in 1u32..200,
            steps in prop::collection::vec((0u64..20, 0u64..200_000), 1..400)
        ) {
            let mut table = TokenBuckets::new();
            let limit = Rate::new(f64::from(rate), f64::from(burst));
            let mut buckets: HashMap<u64, ModelBucket> = HashMap::new();
            let mut now = 0;
            for (key, pause) in steps {
                now += pause;
                // Each key has its own line, so that no bucket is replaced.
                let key = key << 32 | 0x55;
                let bucket = buckets.entry(key).or_insert(ModelBucket { tokens: f64::from(burst), at_us: now });
                let filled = bucket.tokens + (now - bucket.at_us) as f64 * 1e-6 * f64::from(rate);
                (bucket.tokens, bucket.at_us) = (filled.min(f64::from(burst)), now);
                // Rounding to nanoseconds may decide either way if the bucket has almost exactly one token.
                let is_close = (bucket.tokens - 1.0).abs() < 1e-3;
                let taken = table.take(key, limit, now);
                prop_assert!(is_close || taken == (bucket.tokens >= 1.0), "{} tokens at {now}", bucket.tokens);
                if taken {
                    bucket.tokens -= 1.0;
                }
            }
        }
    }

    #[test]
    fn an_exhausted_bucket_is_not_replaced_by_fuller_ones() {
        let (mut table, rate) = (TokenBuckets::new(), Rate::new(1.0, 10.0));
        while table.take(1, rate, 0) {}
        for other in 2..1_000 {
            // All of them are on the line of the first key.
            assert!(table.take(other, rate, 0));
        }
        assert!(!table.take(1, rate, 0));
    }
}
