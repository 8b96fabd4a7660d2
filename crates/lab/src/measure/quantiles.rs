//! A distribution in a few figures.

use super::Distribution;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A distribution in ten figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// Smallest.
    pub min: f64,
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub q3: f64,
    /// One in ten is larger.
    pub p90: f64,
    /// One in a hundred is larger.
    pub p99: f64,
    /// One in a thousand is larger.
    pub p99_9: f64,
    /// One in ten thousand is larger.
    pub p99_99: f64,
    /// Largest.
    pub max: f64,
    /// How many values.
    pub n: u64,
}

impl Quantiles {
    /// Of a histogram in nanoseconds, in microseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        Self::from_ns(histogram.len(), [histogram.min(), histogram.max()], |at| histogram.value_at_quantile(at))
    }

    fn from_ns(n: u64, [min, max]: [u64; 2], quantile: impl Fn(f64) -> u64) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |share| us(quantile(share));
        Self {
            min: us(min),
            q1: at(0.25),
            p50: at(0.5),
            q3: at(0.75),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: us(max),
            n,
        }
    }
}

impl From<&Distribution> for Quantiles {
    /// From nanoseconds to microseconds.
    fn from(distribution: &Distribution) -> Self {
        Self::from_ns(distribution.n(), [distribution.min(), distribution.max()], |at| distribution.quantile(at))
    }
}
