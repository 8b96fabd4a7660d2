//! Runs all tests, and prints one total.

use crate::command::{cargo, command, root};
use crate::peers;
use crate::planted;
use crate::previous;
use crate::sim::{self, Length};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// How many of the long comparisons to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A subset that fits the daily gate.
    Subset,
    /// All recorded and generated queries and updates.
    Full,
}

/// The build profile. All crates and programs share one build.
pub(crate) const PROFILE: &str = "gate";
/// Number of simulated clusters; each counts as a test.
const SEEDS: u64 = 300;
/// Number of simulated clusters with --full.
const SEEDS_FULL: u64 = 3_000;

#[derive(Default)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// The skips that tests printed.
    skips: Vec<String>,
    /// Number of tests that skipped something. The harness counts them as passed.
    partly_skipped: u64,
    /// Whether the current test has printed a skip.
    has_skipped: bool,
    /// Names of failed tests.
    failures: Vec<String>,
    /// Names of tests that failed, and passed when they were run again alone.
    unsteady: Vec<String>,
}

/// If at most this many tests fail, each is run again alone. More failures are not caused by a busy machine.
const AGAIN_MAX: usize = 5;

/// Prefix of the line that a test prints when it skips itself, wholly or in part.
const SKIP: &str = "skipped: ";
/// The end of that line when a peer is missing.
const NO_PEER: &str = "is not installed";
/// The same when the machine does not let a test do something; anything else is data that lies outside the repository.
const NO_RIGHT: &str = "is not allowed here";
/// The same, as the tests of the laboratory print it.
const NO_RIGHTS: [&str; 3] = ["no namespaces can be made here", "no net can be made here", "the right to "];

/// Whether the cause of a skip is a missing tool or permission on this machine.
fn is_of_machine(skip: &str) -> bool {
    skip.ends_with(NO_PEER) || skip.ends_with(NO_RIGHT) || NO_RIGHTS.iter().any(|begin| skip.starts_with(begin))
}

/// Runs every test and prints the count.
///
/// # Errors
/// When a test fails or a program cannot be built.
pub(crate) fn run(extent: Extent) -> Result<(), String> {
    peers::ensure(extent)?;
    if extent == Extent::Full {
        previous::ensure()?;
    }
    // Stop if the build fails: the simulator would be from an earlier build.
    cargo(&["test", "--profile", PROFILE, "--workspace", "--no-run"])?;
    let mut count = Count::default();
    let mut failures = Vec::new();
    // Show the output of passed tests too: counts, figures and skips.
    let arguments = ["test", "--profile", PROFILE, "--workspace", "--no-fail-fast", "--", "--show-output"];
    let tests = tests(&arguments, extent);
    if let Err(reason) = count_lines(tests, &mut count)
        && !retry_alone(&arguments, &mut count, extent)?
    {
        failures.push(reason);
    }
    let seeds = if extent == Extent::Full { SEEDS_FULL } else { SEEDS };
    match sim::run(PROFILE, Length::Seeds(seeds)) {
        Ok((passed, failed)) => {
            count.passed += passed;
            count.failed += failed;
        }
        Err(reason) => failures.push(reason),
    }
    let planted: &[&str] = if extent == Extent::Full { &["--full"] } else { &[] };
    failures.extend(planted::run(planted).err());
    if peers::is_all_demanded(extent) {
        let skips = count.skips.iter().filter(|skip| is_of_machine(skip));
        failures.extend(skips.map(|skip| format!("nothing may be skipped with --full or CI=true: {skip}")));
    }
    println!();
    count.skips.iter().for_each(|skip| println!("skipped: {skip}"));
    count.unsteady.iter().for_each(|name| println!("unsteady: {name} failed and passed when it was run again alone"));
    println!("{count}");
    if failures.is_empty() && count.failed == 0 { Ok(()) } else { Err(failures.join("\n")) }
}

/// A test run that knows the other servers and the earlier build.
fn tests(arguments: &[&str], extent: Extent) -> Command {
    let mut tests = command("cargo", arguments);
    peers::set_environment(&mut tests);
    previous::set_environment(&mut tests);
    if extent == Extent::Full {
        tests.env("CATAMARAN_TEST_FULL", "1");
    }
    tests
}

/// Runs each failed test again, alone. Returns whether all passed. This separates tests that need an idle machine from
/// broken ones.
fn retry_alone(arguments: &[&str], count: &mut Count, extent: Extent) -> Result<bool, String> {
    let failed = std::mem::take(&mut count.failures);
    if failed.is_empty() || failed.len() > AGAIN_MAX || failed.len() as u64 != count.failed {
        return Ok(false);
    }
    for name in failed {
        println!("\nagain, alone: {name}");
        let mut again = Count::default();
        let alone = [arguments, &["--exact", &name, "--test-threads", "1"]].concat();
        let passed = count_lines(tests(&alone, extent), &mut again).is_ok() && again.passed > 0;
        if passed {
            count.failed -= 1;
            count.passed += 1;
            count.unsteady.push(name);
        }
    }
    Ok(count.failed == 0)
}

/// Runs cargo's tests, shows what they print, and adds up their closing lines.
fn count_lines(mut tests: Command, count: &mut Count) -> Result<(), String> {
    tests.current_dir(root()).stdout(Stdio::piped());
    let mut child = tests.spawn().map_err(|error| format!("cannot start cargo test: {error}"))?;
    let stdout = child.stdout.take().expect("standard output is piped");
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        println!("{line}");
        count.add(&line);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("cargo test exited with {status}")) }
}

impl Count {
    /// Reads `skipped: knotd is not installed` and `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
    fn add(&mut self, line: &str) {
        if let Some(skip) = line.strip_prefix(SKIP) {
            self.skips.push(skip.to_owned());
            self.partly_skipped += u64::from(!std::mem::replace(&mut self.has_skipped, true));
        } else if line.starts_with("---- ") {
            self.has_skipped = false;
        }
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        }
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

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.passed.saturating_sub(self.partly_skipped);
        write!(f, "{passed} passed, {} failed, {} skipped", self.failed, self.skipped + self.partly_skipped)?;
        if self.unsteady.is_empty() { Ok(()) } else { write!(f, ", {} unsteady", self.unsteady.len()) }
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
        count.add("test another::thing ... FAILED");
        assert_eq!(count.failures, ["another::thing"]);
        assert_eq!(count.to_string(), "15 passed, 2 failed, 1 skipped");
    }

    #[test]
    fn a_test_that_skips_counts_once() {
        let mut count = Count::default();
        for line in ["---- one stdout ----", "skipped: knotd is not installed", "skipped: the capture is not there"] {
            count.add(line);
        }
        count.add("---- two stdout ----");
        count.add("skipped: the capture is not there");
        count.add("skipped: watching a process is not allowed here");
        count.add("skipped: a disk that hangs (root, loop devices, e2fsprogs: mount: denied) is not allowed here");
        count.add("skipped: no namespaces can be made here: Operation not permitted");
        count.add("skipped: what CATAMARAN_CERTBOT names is not installed");
        count.add("skipped: certbot is driven by `cargo xtask test --full`");
        count.add("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        assert_eq!(count.to_string(), "1 passed, 0 failed, 2 skipped");
        assert_eq!(count.skips.iter().filter(|skip| is_of_machine(skip)).count(), 5);
    }
}
