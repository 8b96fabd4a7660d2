//! Planted bugs: checks that the simulator or a test finds each of them.
//!
//! The test build contains all bugs, and a number selects one. The quick form runs the seed or the tests in a bug's row
//! of the table, until one finds it. The full form runs everything, and can write the table.

mod results;
mod table;

use crate::command::root;
use crate::programs::{self, Program};
use results::{Programs, Tested};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use table::Row;

/// The document with the table.
const TABLE: &str = "docs/internals/planted-bugs.md";
/// Default number of seeds of the full form, and of the seeds that the quick form tries.
const SEEDS: u64 = 300;
/// At least one in this many seeds must find a bug of the simulator.
const FOUND_ONE_IN: u64 = 100;

pub(crate) const HELP: &str = "\
cargo xtask sim [OPTIONS OF catamaran-sim]
cargo xtask sim --planted [--full [--seeds N] [--write]] [--bugs NUMBERS]

Without --planted: build the simulator and run it with these options.

With --planted: plant one bug after the other in the replica, and fail if one is not found.
docs/internals/planted-bugs.md lists the bugs, and the seed and the tests that find each one.
The quick form runs the seed, or the tests until one finds the bug. If a seed no longer finds its bug, it tries seeds
1 to 300.

  --full         run all seeds, scenarios and tests of the replica with each bug, and count: about an hour.
                 A bug that the simulator must find must be found by at least 1 % of the seeds.
  --seeds N      seeds for each bug with --full (default: 300)
  --write        write the results to the table
  --bugs 3,26    only these bugs

Examples:
  cargo xtask sim --seeds 300
  cargo xtask sim --seeds 1 --first-seed 17 --trace
  cargo xtask sim --planted
  cargo xtask sim --planted --full --seeds 100 --write --bugs 26
";

/// A planted bug, as the simulator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bug {
    number: u32,
    name: String,
    /// Whether the simulator must find it. Otherwise tests must.
    is_simulated: bool,
    text: String,
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    is_full: bool,
    writes: bool,
    seeds: u64,
    bugs: Option<Vec<u32>>,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self { is_full: false, writes: false, seeds: SEEDS, bugs: None };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--full" => options.is_full = true,
                "--write" => options.writes = true,
                "--seeds" => {
                    let number = words.next().and_then(|number| number.parse().ok()).filter(|&number| number > 0);
                    options.seeds = number.ok_or("--seeds needs a number, 1 or more")?;
                }
                "--bugs" => {
                    let list = words.next().ok_or("--bugs needs numbers, such as 3,26")?;
                    let numbers: Result<_, _> = list.split(',').map(str::parse).collect();
                    options.bugs =
                        Some(numbers.map_err(|_| format!("`{list}` is not a list of numbers such as 3,26"))?);
                }
                other => return Err(format!("unknown option `{other}`; see `cargo xtask sim --help`")),
            }
        }
        if options.is_full || !options.writes && options.seeds == SEEDS {
            Ok(options)
        } else {
            Err("--seeds and --write need --full".into())
        }
    }
}

/// The seeds and tests that found a bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    first_seed: Option<u64>,
    /// The number of seeds that found it, and of all seeds that ran.
    seeds: Option<(u64, u64)>,
    /// The first few tests that found it.
    tests: Vec<String>,
    /// Number of all tests that found it.
    test_count: usize,
}

/// Builds the programs and runs the command.
///
/// # Errors
/// A program cannot be built, or a bug is not found.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    Options::parse(words)?;
    run_with(&programs::build()?, words)
}

/// Runs the command with the programs of the test build.
///
/// # Errors
/// A bug is not found.
pub(crate) fn run_with(programs: &[Program], words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    let path = root().join(TABLE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {TABLE}: {error}"))?;
    let rows = table::read(&text)?;
    let programs = Programs::find(programs)?;
    let mut bugs = programs.bugs()?;
    if let Some(numbers) = &options.bugs {
        bugs.retain(|bug| numbers.contains(&bug.number));
    }
    if !options.is_full {
        check_soundness(&programs, &bugs, &rows)?;
    }
    let found = each(&bugs, |bug| {
        if options.is_full {
            count(&programs, bug, options.seeds)
        } else {
            check(&programs, bug, rows.get(&bug.number))
        }
    });
    let missing = missed(&bugs, &found);
    if options.writes {
        let text = table::written(&text, &bugs, &found, &rows)?;
        std::fs::write(&path, text).map_err(|error| format!("cannot write {TABLE}: {error}"))?;
    }
    println!("planted bugs: {} of {} found", bugs.len() - missing.len(), bugs.len());
    if missing.is_empty() { Ok(()) } else { Err(missing.join("\n")) }
}

/// Checks that the tests of the table pass without a bug. Otherwise their failures would prove nothing.
fn check_soundness(programs: &Programs, bugs: &[Bug], rows: &BTreeMap<u32, Row>) -> Result<(), String> {
    let of_tests = bugs.iter().filter(|bug| !bug.is_simulated).filter_map(|bug| rows.get(&bug.number));
    let mut tests: Vec<String> = of_tests.flat_map(|row| row.tests.clone()).collect();
    tests.sort();
    tests.dedup();
    match programs.test(0, &tests)? {
        Tested { failed, .. } if !failed.is_empty() => Err(format!("tests fail without a bug: {}", failed.join(", "))),
        Tested { passed, .. } if passed != tests.len() => {
            Err(format!("{} of {} tests in {TABLE} ran: update it with `--full --write`", passed, tests.len()))
        }
        _ => Ok(()),
    }
}

/// Runs a function for each bug, on all cores, and prints each result.
fn each(bugs: &[Bug], work: impl Fn(&Bug) -> Result<Found, String> + Sync) -> BTreeMap<u32, Result<Found, String>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let of_bug = work(bug);
                    let mut found = found.lock().expect("no thread panics with it");
                    found.insert(bug.number, of_bug);
                    println!(
                        "{:3} of {}  {} {}",
                        found.len(),
                        bugs.len(),
                        bug.number,
                        describe(bug, &found[&bug.number])
                    );
                }
            });
        }
    });
    found.into_inner().expect("no thread panics with it")
}

fn describe(bug: &Bug, found: &Result<Found, String>) -> String {
    match found {
        Err(reason) => format!("{}: {reason}", bug.name),
        Ok(found) => {
            let seed = found.first_seed.map_or("no seed".into(), |seed| format!("seed {seed}"));
            let share = found.seeds.map_or(String::new(), |(seeds, of)| format!(" ({seeds} of {of})"));
            format!("{}: {seed}{share}, {} tests", bug.name, found.test_count)
        }
    }
}

/// The quick form: runs the seed in the table, or its tests one by one until one finds the bug.
fn check(programs: &Programs, bug: &Bug, row: Option<&Row>) -> Result<Found, String> {
    let row = row.ok_or_else(|| format!("has no row in {TABLE}: `--full --write` adds it"))?;
    let mut found = Found::default();
    if bug.is_simulated {
        let known = row.first_seed.filter(|&seed| programs.finds(bug.number, seed).unwrap_or(false));
        found.first_seed = if known.is_some() { known } else { programs.first_seed(bug.number, SEEDS)? };
        return Ok(found);
    }
    for test in &row.tests {
        found.tests = programs.test(bug.number, std::slice::from_ref(test))?.failed;
        found.test_count = found.tests.len();
        if found.test_count > 0 {
            break;
        }
    }
    Ok(found)
}

/// The full form: runs all seeds and all tests.
fn count(programs: &Programs, bug: &Bug, seeds: u64) -> Result<Found, String> {
    let failed_seeds = programs.failed_seeds(bug.number, seeds)?;
    let tested = programs.test_all(bug.number)?;
    Ok(Found {
        first_seed: failed_seeds.first().copied(),
        seeds: Some((failed_seeds.len() as u64, seeds)),
        test_count: tested.failed.len(),
        tests: tested.failed.into_iter().take(table::TESTS_SHOWN).collect(),
    })
}

/// Returns the bugs that were not found as required.
fn missed(bugs: &[Bug], found: &BTreeMap<u32, Result<Found, String>>) -> Vec<String> {
    let of_bug = |bug: &Bug| {
        let what = match found.get(&bug.number)? {
            Err(reason) => Some(reason.clone()),
            Ok(found) if !bug.is_simulated => (found.test_count == 0).then(|| "no test finds it".into()),
            Ok(Found { seeds: Some((seeds, of)), .. }) if seeds * FOUND_ONE_IN < *of => {
                Some(format!("only {seeds} of {of} seeds find it"))
            }
            Ok(found) => found.first_seed.is_none().then(|| "no seed finds it".into()),
        };
        what.map(|what| format!("bug {} {}: {what}", bug.number, bug.name))
    };
    bugs.iter().filter_map(of_bug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bug(number: u32, is_simulated: bool) -> Bug {
        Bug { number, name: format!("Bug{number}"), is_simulated, text: "Text.".into() }
    }

    #[test]
    fn bugs_that_are_found_too_rarely_are_named() {
        let bugs: Vec<Bug> = (1..=6).map(|number| bug(number, number <= 4)).collect();
        let seeds = |found, first_seed| Found { first_seed, seeds: Some((found, 300)), ..Found::default() };
        let tests = |test_count| Found { test_count, ..Found::default() };
        let found = [
            (1, Ok(seeds(3, Some(7)))),
            (2, Ok(seeds(2, Some(7)))),
            (3, Ok(Found { first_seed: Some(9), ..Found::default() })),
            (4, Ok(tests(5))),
            (5, Ok(tests(1))),
            (6, Ok(tests(0))),
        ];
        let missing = missed(&bugs, &found.into_iter().collect());
        let wanted =
            ["bug 2 Bug2: only 2 of 300 seeds find it", "bug 4 Bug4: no seed finds it", "bug 6 Bug6: no test finds it"];
        assert_eq!(missing, wanted);
    }

    #[test]
    fn options_are_read() {
        let options = Options::parse(&["--full", "--seeds", "10", "--bugs", "3,26", "--write"]).unwrap();
        assert_eq!(options, Options { is_full: true, writes: true, seeds: 10, bugs: Some(vec![3, 26]) });
        for wrong in [&["--write"][..], &["--full", "--seeds", "0"], &["--bugs", "a"], &["--quick"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
