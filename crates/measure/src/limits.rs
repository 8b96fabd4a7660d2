//! Every bound of this crate.

/// Empty histograms kept for reuse: 90 kB each, or more after a long latency.
pub const HISTOGRAMS_KEPT_MAX: usize = 240;
/// The longest latency in histograms: 100 minutes.
pub const LATENCY_MAX_NS: u64 = 6_000_000_000_000;
/// Wrong answers shown of a run.
pub const WRONG_ANSWERS_TOLD_MAX: usize = 10;
/// Fewer values have no trend: below, the normal approximation of the test is poor (Gilbert, *Statistical Methods for
/// Environmental Pollution Monitoring*, 1987, 16.4.1).
pub const TREND_POINTS_MIN: usize = 10;
/// Points of a trend. All pairs are compared.
pub const TREND_POINTS_MAX: usize = 1_000;
