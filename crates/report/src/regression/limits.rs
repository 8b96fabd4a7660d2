//! Constants of the comparison.

/// Minimum number of blocks.
pub(super) const BLOCKS_MIN: usize = 5;
/// Two-sided level of the intervals.
pub(super) const LEVEL: f64 = 0.95;
