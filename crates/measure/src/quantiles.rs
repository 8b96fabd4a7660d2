//! A distribution summarized by quantiles.

use super::Distribution;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A distribution summarized by a few figures.
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
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// 99.99th percentile.
    pub p99_99: f64,
    /// Largest.
    pub max: f64,
    /// Number of values.
    pub n: u64,
    /// Mean. None in runs of versions that did not record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// 5th percentile. None in runs of versions that did not record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p5: Option<f64>,
    /// 95th percentile. None in runs of versions that did not record it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
}

impl Quantiles {
    /// Quantiles that bound both. Minimum, maximum, mean and `n` are exact.
    #[must_use]
    pub fn bound(one: Self, other: Self) -> Self {
        if one.n == 0 || other.n == 0 {
            return if one.n == 0 { other } else { one };
        }
        Self {
            min: one.min.min(other.min),
            q1: one.q1.max(other.q1),
            p50: one.p50.max(other.p50),
            q3: one.q3.max(other.q3),
            p90: one.p90.max(other.p90),
            p99: one.p99.max(other.p99),
            p99_9: one.p99_9.max(other.p99_9),
            p99_99: one.p99_99.max(other.p99_99),
            max: one.max.max(other.max),
            n: one.n + other.n,
            mean: one.mean.zip(other.mean).map(|(mean, other_mean)| {
                (mean * one.n as f64 + other_mean * other.n as f64) / (one.n + other.n) as f64
            }),
            p5: one.p5.zip(other.p5).map(|(p5, other_p5)| p5.max(other_p5)),
            p95: one.p95.zip(other.p95).map(|(p95, other_p95)| p95.max(other_p95)),
        }
    }

    /// The same quantiles in a unit that is `1 / factor` times as large.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            min: self.min * factor,
            q1: self.q1 * factor,
            p50: self.p50 * factor,
            q3: self.q3 * factor,
            p90: self.p90 * factor,
            p99: self.p99 * factor,
            p99_9: self.p99_9 * factor,
            p99_99: self.p99_99 * factor,
            max: self.max * factor,
            n: self.n,
            mean: self.mean.map(|mean| mean * factor),
            p5: self.p5.map(|p5| p5 * factor),
            p95: self.p95.map(|p95| p95 * factor),
        }
    }

    /// The quantiles of a histogram in nanoseconds, converted to microseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let bounds = [histogram.min(), histogram.max()];
        Self::from_ns(histogram.len(), bounds, histogram.mean(), |at| histogram.value_at_quantile(at))
    }

    fn from_ns(n: u64, [min, max]: [u64; 2], mean_ns: f64, quantile: impl Fn(f64) -> u64) -> Self {
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
            mean: Some(mean_ns / 1e3),
            p5: Some(at(0.05)),
            p95: Some(at(0.95)),
        }
    }
}

impl From<&Distribution> for Quantiles {
    /// Converts nanoseconds to microseconds.
    fn from(distribution: &Distribution) -> Self {
        let (bounds, mean_ns) = ([distribution.min(), distribution.max()], distribution.mean_and_deviation().0);
        Self::from_ns(distribution.n(), bounds, mean_ns, |at| distribution.quantile(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 to 100 us, once each.
    fn hundred() -> Distribution {
        Distribution::of((1..=100_u64).map(|us| (us * 1_000, 1)))
    }

    #[test]
    fn the_mean_and_the_5th_and_95th_percentile_are_known() {
        for quantiles in [Quantiles::from(&hundred()), Quantiles::of(&hundred().histogram())] {
            for (found, exact) in [(quantiles.mean, 50.5), (quantiles.p5, 5.0), (quantiles.p95, 95.0)] {
                assert!((found.unwrap() / exact - 1.0).abs() < 1e-3, "{found:?} {exact}");
            }
        }
    }

    #[test]
    fn a_joint_mean_is_weighted_and_stays_unknown_for_older_runs() {
        let fast = Quantiles { n: 3, mean: Some(10.0), p95: Some(12.0), ..Quantiles::default() };
        let slow = Quantiles { n: 1, mean: Some(50.0), p95: Some(50.0), ..Quantiles::default() };
        let both = Quantiles::bound(fast, slow);
        assert_eq!((both.mean, both.p5, both.p95), (Some(20.0), None, Some(50.0)));
        let older = Quantiles { n: 4, ..Quantiles::default() };
        assert_eq!(Quantiles::bound(older, slow).mean, None);
    }
}
