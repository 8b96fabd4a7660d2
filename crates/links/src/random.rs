//! Random numbers from a seed. The same seed gives the same losses and round trips on every machine.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A stream of random numbers. Each purpose has its own.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// The stream of this number under a seed.
    pub(crate) fn new(seed: u64, of: u128) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..24].copy_from_slice(&of.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A number below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    /// At least 0 and below 1.
    pub(crate) fn share(&mut self) -> f64 {
        self.0.random()
    }

    /// Normal distribution with mean 0 and deviation 1 (Box and Muller, 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        // 1 - share is never 0, so its logarithm exists.
        let (radius, angle) = (1.0 - self.share(), self.share());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_even_and_normal_values_are_normal() {
        let mut random = Random::new(7, 0);
        let count = 100_000;
        let mean: f64 = (0..count).map(|_| random.share()).sum::<f64>() / f64::from(count);
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let values: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let mean = values.iter().sum::<f64>() / f64::from(count);
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(count);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }
}
