//! Distributions of client rates and pauses.

use rand::Rng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

/// A distribution by its kind and mean. Keys of other kinds must be absent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "lowercase")]
#[serde(expecting = "a table such as { distribution = \"constant\", mean = 0.2 }")]
pub enum Distribution {
    /// All values are equal.
    Constant {
        /// The value.
        mean: f64,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// Log-normal, with a long tail.
    Lognormal {
        /// Its mean.
        mean: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Zipf: the client of rank k gets 1 / k^s of the first client's value.
    Zipf {
        /// Mean over all clients.
        mean: f64,
        /// The exponent s.
        exponent: f64,
    },
    /// Measured quantiles: values at even ranks from the smallest to the largest, with linear interpolation.
    Quantiles {
        /// At least two values, in ascending order.
        quantiles: Vec<f64>,
    },
}

impl Distribution {
    /// Describes what is invalid, if anything.
    pub(super) fn problem(&self) -> Option<String> {
        let is_good = |value: f64| value > 0.0 && value.is_finite();
        match self {
            Self::Constant { mean } | Self::Exponential { mean } if !is_good(*mean) => {
                Some(format!("a mean of {mean} is not above zero"))
            }
            Self::Lognormal { mean, sigma } if !is_good(*mean) || !(0.0..=10.0).contains(sigma) => {
                Some(format!("a lognormal of mean {mean} and sigma {sigma}: the mean is above zero, sigma 0 to 10"))
            }
            Self::Zipf { mean, exponent } if !is_good(*mean) || !(0.0..=10.0).contains(exponent) => Some(format!(
                "a zipf of mean {mean} and exponent {exponent}: the mean is above zero, the exponent 0 to 10"
            )),
            Self::Quantiles { quantiles }
                if quantiles.len() < 2
                    || !quantiles.is_sorted()
                    || quantiles[0] < 0.0
                    || !is_good(*quantiles.last()?) =>
            {
                Some("quantiles are at least two numbers in rising order, none below zero".into())
            }
            _ => None,
        }
    }

    /// Draws an independent value. A zipf has no independent values and returns its mean.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> f64 {
        match self {
            Self::Constant { mean } | Self::Zipf { mean, .. } => *mean,
            Self::Exponential { mean } => exponential(rng) * mean,
            // The mean of a lognormal is exp(mu + sigma^2 / 2).
            Self::Lognormal { mean, sigma } => (mean.ln() - sigma * sigma / 2.0 + sigma * normal(rng)).exp(),
            Self::Quantiles { quantiles } => quantile(quantiles, rng.random()),
        }
    }

    /// Draws one value for each of `count` clients.
    pub(super) fn draw_all(&self, count: usize, rng: &mut impl Rng) -> Vec<f64> {
        if let Self::Zipf { mean, exponent } = self {
            let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
            let scale = mean * count as f64 / weights.iter().sum::<f64>();
            return weights.into_iter().map(|weight| weight * scale).collect();
        }
        if let Self::Quantiles { quantiles } = self {
            // If there are as many clients as measured values, they get the measured values.
            let last = count.saturating_sub(1).max(1) as f64;
            let mut values: Vec<f64> = (0..count).map(|index| quantile(quantiles, index as f64 / last)).collect();
            values.shuffle(rng);
            return values;
        }
        (0..count).map(|_| self.draw(rng)).collect()
    }
}

/// The value at this share of the way from the smallest to the largest.
fn quantile(quantiles: &[f64], share: f64) -> f64 {
    let last = quantiles.len() - 1;
    let at = share * last as f64;
    let low = (at as usize).min(last);
    let high = (low + 1).min(last);
    quantiles[low] + (quantiles[high] - quantiles[low]) * (at - low as f64)
}

/// An exponential value with mean one. Never infinite.
pub(super) fn exponential(rng: &mut impl Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

/// A normal value with mean zero and deviation one (Box and Muller, 1958).
fn normal(rng: &mut impl Rng) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn every_kind_has_its_mean() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let kinds = [
            Distribution::Constant { mean: 3.0 },
            Distribution::Exponential { mean: 3.0 },
            Distribution::Lognormal { mean: 3.0, sigma: 1.0 },
            Distribution::Zipf { mean: 3.0, exponent: 0.9 },
            Distribution::Quantiles { quantiles: vec![0.0, 2.0, 10.0] },
        ];
        let means = kinds.map(|kind| kind.draw_all(100_000, &mut rng).iter().sum::<f64>() / 1e5);
        for (mean, expected) in means.into_iter().zip([3.0, 3.0, 3.0, 3.0, 3.5]) {
            assert!((mean / expected - 1.0).abs() < 0.03, "{mean} {expected}");
        }
    }
}
