//! Counters that cost their writer one plain add, and their export.
//!
//! Each worker has its own set of [`Counter`]s, and no other thread writes them, so the packet path shares no cache
//! line. They are summed when `/metrics` is read.

use metrics_text::Page;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A counter with one writer at a time, and any number of readers.
#[derive(Default, Debug)]
#[repr(transparent)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds one with a plain load and store. Only the owner of the counter may call it.
    pub(crate) fn one(&self) {
        self.add(1);
    }

    /// Adds `count`. Only the owner of the counter may call it.
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Adds one, from any thread.
    pub(crate) fn one_shared(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Adds `count`, from any thread.
    pub(crate) fn add_shared(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A value that goes up and down, written by many threads.
#[derive(Default, Debug)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    /// Adds one; false if that would exceed `max`.
    pub(crate) fn enter(&self, max: usize) -> bool {
        self.put(1, max)
    }

    /// Subtracts one.
    pub(crate) fn leave(&self) {
        self.take(1);
    }

    /// Adds `amount`; false if that would exceed `max`.
    pub(crate) fn put(&self, amount: usize, max: usize) -> bool {
        let add = |now: u64| now.checked_add(amount as u64).filter(|sum| *sum <= max as u64);
        self.0.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// Subtracts `amount`.
    pub(crate) fn take(&self, amount: usize) {
        let before = self.0.fetch_sub(amount as u64, Relaxed);
        debug_assert!(before >= amount as u64);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the buckets of a [`DurationHistogram`], in microseconds.
pub(crate) const BUCKETS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    10_000_000,
];

/// A histogram of durations.
#[derive(Default, Debug)]
pub(crate) struct DurationHistogram {
    buckets: [AtomicU64; BUCKETS_US.len() + 1],
    sum_us: AtomicU64,
}

impl DurationHistogram {
    pub(crate) fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS_US.partition_point(|&bound| bound < us);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_us.fetch_add(us, Relaxed);
    }

    /// The number of durations up to each bound, then of all; and their sum in microseconds.
    pub(crate) fn cumulative(&self) -> (Vec<u64>, u64) {
        let mut total = 0;
        let counts = self.buckets.iter().map(|bucket| {
            total += bucket.load(Relaxed);
            total
        });
        (counts.collect(), self.sum_us.load(Relaxed))
    }

    /// Writes it to a page, in seconds.
    pub(crate) fn write(&self, page: &mut Page, name: &str, help: &str) {
        let (counts, sum_us) = self.cumulative();
        let total = counts.last().copied().unwrap_or(0);
        let buckets = BUCKETS_US.iter().map(|bound_us| *bound_us as f64 / 1e6).zip(counts);
        page.histogram(name, help, buckets, total, sum_us as f64 / 1e6);
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.cumulative().0.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_bounded() {
        let gauge = Gauge::default();
        assert!(gauge.enter(2) && gauge.enter(2) && !gauge.enter(2));
        gauge.leave();
        assert!(gauge.enter(2));
        assert_eq!(gauge.get(), 2);
    }

    #[test]
    fn durations_fall_into_their_buckets() {
        let histogram = DurationHistogram::default();
        for us in [0, 50, 51, 100, 10_000_000, 10_000_001] {
            histogram.record(Duration::from_micros(us));
        }
        let (counts, sum) = histogram.cumulative();
        assert_eq!((counts[0], counts[1], counts[15], counts[16]), (2, 4, 5, 6));
        assert_eq!(sum, 20_000_202);
    }
}
