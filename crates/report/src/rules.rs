//! The thresholds of the verdicts.

use std::time::Duration;

/// The thresholds of the verdicts.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A run is invalid if the p99 of its send lag exceeds this.
    pub lag_p99_max: Duration,
    /// A run is invalid if the sent share of its planned queries is smaller.
    pub sent_share_min: f64,
    /// The tool counts as the limit if its CPU is busy for a larger share of the time.
    pub tool_cpu_share_max: f64,
}

impl Default for Rules {
    fn default() -> Self {
        Self { lag_p99_max: Duration::from_millis(1), sent_share_min: 0.999, tool_cpu_share_max: 0.9 }
    }
}
