//! Histograms of times in nanoseconds.

use crate::limits::LATENCY_MAX_NS;
use hdrhistogram::Histogram;

/// Significant digits of every histogram.
const DIGITS: u8 = 3;

/// A new empty histogram in nanoseconds, which resizes itself.
#[must_use]
pub fn new_histogram() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 1_000_000, DIGITS).expect("bounds that fit");
    histogram.auto(true);
    histogram
}

/// Records a value.
pub fn record(histogram: &mut Histogram<u64>, nanoseconds: u64) {
    record_n(histogram, nanoseconds, 1);
}

/// Records a value `count` times.
pub(super) fn record_n(histogram: &mut Histogram<u64>, nanoseconds: u64, count: u64) {
    // The histogram resizes itself. A latency above the maximum (hours) is recorded as the maximum.
    let value = nanoseconds.clamp(1, LATENCY_MAX_NS);
    histogram.record_n(value, count).expect("histograms that grow take any value");
}
