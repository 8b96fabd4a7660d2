//! Random values from one seed.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One part in a million.
pub const PPM: u64 = 1_000_000;

/// A seeded random source. The algorithm (ChaCha8) is fixed, so the numbers do not change between releases.
#[derive(Clone, Debug)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    /// The source of a seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A separate source for one part. It depends on the label and on earlier draws from this source.
    pub fn fork(&mut self, label: &str) -> Self {
        let mut seed = [0; 32];
        self.0.fill_bytes(&mut seed);
        for (index, byte) in label.bytes().enumerate() {
            seed[index % 32] = seed[index % 32].rotate_left(3) ^ byte;
        }
        Self(ChaCha8Rng::from_seed(seed))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias of the multiplication is below 2^-32 for the bounds in use, and the same in every run.
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// Whether an event of this probability, in parts of a million, happens.
    pub fn happens(&mut self, ppm: u64) -> bool {
        self.below(PPM) < ppm
    }

    /// One of several values.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() { None } else { from.get(self.below(from.len() as u64) as usize) }
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, of: &mut [T]) {
        for index in (1..of.len()).rev() {
            of.swap(index, self.below(index as u64 + 1) as usize);
        }
    }

    /// Random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_its_golden_numbers() {
        let mut rng = Rng::new(42);
        let drawn: Vec<u64> = (0..4).map(|_| rng.below(1000)).collect();
        assert_eq!(drawn, GOLDEN);
        let mut fork = rng.fork("disk");
        assert_eq!(fork.below(1000), GOLDEN_FORK);
    }

    const GOLDEN: [u64; 4] = [681, 950, 427, 627];
    const GOLDEN_FORK: u64 = 629;

    #[test]
    fn forks_differ_by_label_and_bounds_hold() {
        let mut one = Rng::new(1).fork("a");
        let mut other = Rng::new(1).fork("b");
        assert_ne!(one.draw(), other.draw());
        let mut rng = Rng::new(7);
        for bound in [1, 2, 3, 1000, u64::MAX] {
            assert!((0..1000).all(|_| rng.below(bound) < bound));
        }
        assert!((0..1000).all(|_| (5..=7).contains(&rng.between(5, 7))));
        let often = (0..100_000).filter(|_| rng.happens(250_000)).count();
        assert!((24_000..26_000).contains(&often), "{often}");
        assert!(!rng.happens(0) && rng.happens(PPM));
        assert_eq!(rng.pick::<u8>(&[]), None);
        let mut order: Vec<u32> = (0..50).collect();
        rng.shuffle(&mut order);
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
