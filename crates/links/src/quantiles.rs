//! A distribution in five numbers.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;

/// Quantiles of times, in us.
#[derive(Clone, Copy, Default, PartialEq, Debug, Serialize)]
pub struct Quantiles {
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
}

impl Quantiles {
    /// Quantiles of a histogram in ns.
    pub(crate) fn of_ns(histogram: &Histogram<u64>) -> Self {
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self { q1: us(0.25), median: us(0.5), q3: us(0.75), p99: us(0.99), max: histogram.max() as f64 / 1e3 }
    }

    /// Quantiles of values in us, in any order. All zero if there are none.
    pub(crate) fn of_us(values: &mut [f64]) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |quantile: f64| {
            let rank = (quantile * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        Self { q1: at(0.25), median: at(0.5), q3: at(0.75), p99: at(0.99), max: at(1.0) }
    }
}

impl fmt::Display for Quantiles {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { q1, median, q3, p99, max } = self;
        write!(out, "{q1:.0}/{median:.0}/{q3:.0} us (quartiles), p99 {p99:.0}, at most {max:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_existing_values() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let found = Quantiles::of_us(&mut values);
        assert_eq!(found, Quantiles { q1: 25.0, median: 50.0, q3: 75.0, p99: 99.0, max: 100.0 });
        assert_eq!(Quantiles::of_us(&mut []), Quantiles::default());
        let mut one = [7.0];
        assert_eq!(Quantiles::of_us(&mut one).q1, 7.0);
    }
}
