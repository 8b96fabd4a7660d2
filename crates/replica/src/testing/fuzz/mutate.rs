//! Mutates seeds at random, without coverage feedback, for machines without libFuzzer.

use super::limits::INPUT_BYTES_MAX;

/// Numbers around which lengths and counts change their meaning.
const NUMBERS: [u32; 12] = [0, 1, 2, 63, 64, 127, 128, 255, 256, 0x7FFF, 0xC000, u32::MAX];

/// Makes inputs; equal numbers lead to equal inputs.
#[derive(Clone, Debug)]
pub struct Mutator {
    seeds: Vec<Vec<u8>>,
    /// State of a xorshift generator.
    state: u64,
}

impl Mutator {
    /// # Panics
    /// If there is no seed.
    #[must_use]
    pub fn new(seeds: Vec<Vec<u8>>, number: u64) -> Self {
        assert!(!seeds.is_empty(), "at least one seed is needed");
        Self { seeds, state: number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) as usize % bound.max(1)
    }

    /// The next input: a seed with a few changes.
    pub fn next_input(&mut self) -> Vec<u8> {
        let seed = self.below(self.seeds.len());
        let mut input = self.seeds[seed].clone();
        for _ in 0..=self.below(6) {
            self.alter(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn alter(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        let rest = input.len() - at;
        match self.below(9) {
            0 if rest > 0 => input[at] ^= 1 << self.below(8),
            1 if rest > 0 => input[at] = self.below(256) as u8,
            // A number of one, two or four bytes.
            2 | 3 => {
                let number = NUMBERS[self.below(NUMBERS.len())].wrapping_add(self.below(3) as u32).wrapping_sub(1);
                let bytes = number.to_be_bytes();
                let bytes = &bytes[[0, 2, 3][self.below(3)]..];
                if rest >= bytes.len() {
                    input[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            4 => {
                let count = self.below(rest.min(32) + 1);
                input.drain(at..at + count);
            }
            5 => {
                let bytes: Vec<u8> = (0..self.below(8)).map(|_| self.below(256) as u8).collect();
                input.splice(at..at, bytes);
            }
            // Copies a part of the input to another place.
            6 => {
                let count = self.below(rest.min(128) + 1);
                let part = input[at..at + count].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, part);
            }
            // Copies a part of another seed.
            7 => {
                let other = self.below(self.seeds.len());
                let from = self.below(self.seeds[other].len() + 1);
                let count = self.below((self.seeds[other].len() - from).min(256) + 1);
                let part = self.seeds[other][from..from + count].to_vec();
                let end = at + self.below(rest.min(256) + 1);
                input.splice(at..end, part);
            }
            _ => input.truncate(at),
        }
    }
}
