//! A distribution as stored in a recording: only values that occurred, with three significant digits.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// Sorted values with their counts. A [`Histogram`] always takes 100 KiB, and a run has three per second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    entries: Vec<(u64, u64)>,
    n: u64,
}

impl Distribution {
    /// Builds a distribution from values with counts, in any order.
    pub fn of(entries: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut counts = BTreeMap::new();
        for (value, count) in entries.into_iter().filter(|&(_, count)| count > 0) {
            let sum: &mut u64 = counts.entry(value).or_default();
            *sum = sum.saturating_add(count);
        }
        let entries: Vec<_> = counts.into_iter().collect();
        let n = entries.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        Self { entries, n }
    }

    /// The sum of several distributions.
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::of(parts.into_iter().flat_map(|part| part.entries.iter().copied()))
    }

    /// Values and counts, in ascending order.
    #[must_use]
    pub fn entries(&self) -> &[(u64, u64)] {
        &self.entries
    }

    /// Number of values.
    #[must_use]
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Whether there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The smallest value with at least a share `quantile` of all values at or below it. 0 without values.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile * self.n as f64).ceil() as u64).clamp(1, self.n.max(1));
        let mut seen = 0;
        let found = self.entries.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.or(self.entries.last()).map_or(0, |&(value, _)| value)
    }

    /// Smallest value.
    #[must_use]
    pub fn min(&self) -> u64 {
        self.entries.first().map_or(0, |&(value, _)| value)
    }

    /// Largest value.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.entries.last().map_or(0, |&(value, _)| value)
    }

    /// Mean and standard deviation of the population.
    #[must_use]
    pub fn mean_and_deviation(&self) -> (f64, f64) {
        let n = (self.n as f64).max(1.0);
        let mean = self.entries.iter().map(|&(value, count)| value as f64 * count as f64).sum::<f64>() / n;
        let squares = self.entries.iter().map(|&(value, count)| (value as f64 - mean).powi(2) * count as f64);
        (mean, (squares.sum::<f64>() / n).sqrt())
    }

    /// As a histogram with three significant digits.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new(3).expect("three digits are allowed");
        histogram.auto(true);
        for &(value, count) in &self.entries {
            histogram.record_n(value, count).expect("histograms that grow take any value");
        }
        histogram
    }
}

impl From<&Histogram<u64>> for Distribution {
    fn from(histogram: &Histogram<u64>) -> Self {
        // In ascending order, each value once.
        let steps = histogram.iter_recorded().filter(|step| step.count_at_value() > 0);
        let entries = steps.map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        Self { entries, n: histogram.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_the_histogram() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for value in 1..20_000u64 {
            histogram.record(value * value % 7_919_000).unwrap();
        }
        let distribution = Distribution::from(&histogram);
        for quantile in [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
            assert_eq!(distribution.quantile(quantile), histogram.value_at_quantile(quantile), "{quantile}");
        }
        assert_eq!((distribution.n(), distribution.max()), (histogram.len(), histogram.max()));
        assert_eq!(Distribution::from(&distribution.histogram()), distribution);
        let (mean, deviation) = distribution.mean_and_deviation();
        assert!((mean / histogram.mean() - 1.0).abs() < 1e-3 && (deviation / histogram.stdev() - 1.0).abs() < 1e-3);
    }

    #[test]
    fn nothing_is_zero() {
        let nothing = Distribution::default();
        assert_eq!((nothing.quantile(0.99), nothing.min(), nothing.max(), nothing.n()), (0, 0, 0, 0));
    }
}
