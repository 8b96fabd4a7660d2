//! A few inputs at each target, the same in every run; and every input that was ever found to break one.

use super::{Mutator, TARGETS, target};

/// Inputs for each target: as many as take a moment.
const INPUTS: usize = 400;

/// What broke a target once: its name and the input in hex.
const FOUND: &str = include_str!("../../../testdata/fuzz.txt");

#[test]
fn every_seed_and_what_is_made_of_it_holds() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        seeds.iter().for_each(|seed| (target.run)(seed));
        let mut mutator = Mutator::new(seeds, 1);
        for _ in 0..INPUTS {
            let input = mutator.next_input();
            // What it was is in the output of a test that fails.
            let caught = std::panic::catch_unwind(|| (target.run)(&input));
            let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(caught.is_ok(), "{} {hex}", target.name);
        }
    }
}

#[test]
fn what_was_found_once_holds() {
    for line in FOUND.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, hex) = line.split_once(' ').unwrap();
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        (target(name).unwrap().run)(&bytes);
    }
}
