//! The spread of a value over the seconds of a run.

use serde::{Deserialize, Serialize};

/// Quartiles and bounds of some values, as a box plot draws them. All are zero without values.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// First quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub p75: f64,
    /// Largest.
    pub max: f64,
    /// Number of values.
    pub n: u64,
}

impl Spread {
    /// The spread of these values: for each share, the smallest value with at least this share at or below it.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            values.get(rank - 1).copied().unwrap_or_default()
        };
        let (min, max) = (at(0.0), at(1.0));
        Self { min, p25: at(0.25), p50: at(0.5), p75: at(0.75), max, n: values.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_values_that_occurred() {
        let spread = Spread::of(vec![8.0, 1.0, 4.0, 2.0, 16.0, 32.0, 64.0, 128.0]);
        assert_eq!(spread, Spread { min: 1.0, p25: 2.0, p50: 8.0, p75: 32.0, max: 128.0, n: 8 });
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
