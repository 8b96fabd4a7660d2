//! Every bound of this crate.

/// A run is invalid if an agent starts later than agreed by more than this.
pub const START_LATE_MAX: std::time::Duration = std::time::Duration::from_millis(50);
/// Number of RCODEs that `catlab compare` compares, most frequent first.
pub const COMPARED_RCODES_MAX: usize = 16;
/// Maximum number of metrics per reading of a Prometheus endpoint.
pub const METRICS_MAX: usize = 500;
