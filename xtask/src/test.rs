//! Every test, and one count at the end.

use crate::command::{cargo, command, root};
use crate::peers;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// How much of the long comparisons is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A subset that fits the daily gate.
    Subset,
    /// All recorded and generated queries and updates.
    Full,
}

/// One profile for everything, so that each crate is built once.
const PROFILE: &str = "gate";

#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Runs every test and prints the count.
///
/// # Errors
/// When a test fails or a program cannot be built.
pub(crate) fn run(extent: Extent) -> Result<(), String> {
    peers::ensure()?;
    cargo(&["build", "--profile", PROFILE, "--workspace", "--bins"])?;
    let mut count = Count::default();
    let mut failures = Vec::new();
    let mut tests = command("cargo", &["test", "--profile", PROFILE, "--workspace", "--no-fail-fast"]);
    if extent == Extent::Full {
        tests.env("CATAMARAN_TEST_FULL", "1");
    }
    if let Err(reason) = count_lines(tests, &mut count) {
        failures.push(reason);
    }
    println!("\n{} passed, {} failed, {} skipped", count.passed, count.failed, count.skipped);
    if failures.is_empty() && count.failed == 0 { Ok(()) } else { Err(failures.join("\n")) }
}

/// Runs cargo's tests, shows what they print, and adds up their closing lines.
fn count_lines(mut tests: Command, count: &mut Count) -> Result<(), String> {
    tests.current_dir(root()).stdout(Stdio::piped());
    // Skips are written by `skip!`-like helpers to standard error, which the harness does not capture.
    let skips = std::env::temp_dir().join(format!("catamaran-skips-{}", std::process::id()));
    tests.env("CATAMARAN_SKIPS", &skips);
    let mut child = tests.spawn().map_err(|error| format!("cargo test did not start: {error}"))?;
    let stdout = child.stdout.take().expect("standard output is piped");
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        println!("{line}");
        count.add(&line);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if let Ok(lines) = std::fs::read_to_string(&skips) {
        for line in lines.lines() {
            println!("skipped: {line}");
            // The harness has counted the test that skipped itself as passed.
            count.skipped += 1;
            count.passed = count.passed.saturating_sub(1);
        }
        // Nothing depends on the file once it has been read.
        let _gone = std::fs::remove_file(&skips);
    }
    if status.success() { Ok(()) } else { Err(format!("cargo test ended with {status}")) }
}

impl Count {
    /// Reads `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        let words: Vec<&str> = result.split_whitespace().collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<u64>() else { continue };
            match pair[1].trim_end_matches(';') {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_add_up() {
        let mut count = Count::default();
        count.add("test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        count.add("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        count.add("test something ... ok");
        assert_eq!((count.passed, count.failed, count.skipped), (15, 2, 1));
    }
}
