//! Runs a few inputs per target, the same in each run, and every input that ever failed.

use super::{Mutator, TARGETS, target};

/// Inputs per target, few enough for a quick test.
const INPUTS: usize = 400;

/// Inputs that failed: the target's name and the bytes in hex.
const FOUND: &str = include_str!("../../../testdata/fuzz.txt");

#[test]
fn seeds_and_their_mutations_pass() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        seeds.iter().for_each(|seed| (target.run)(seed));
        let mut mutator = Mutator::new(seeds, 1);
        for _ in 0..INPUTS {
            let input = mutator.next_input();
            // The output of the failed test contains the input.
            let caught = std::panic::catch_unwind(|| (target.run)(&input));
            let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(caught.is_ok(), "{} {hex}", target.name);
        }
    }
}

#[test]
fn inputs_found_by_fuzzing_pass() {
    for line in FOUND.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, hex) = line.split_once(' ').unwrap();
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        (target(name).unwrap().run)(&bytes);
    }
}
