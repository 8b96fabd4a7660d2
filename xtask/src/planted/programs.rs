//! The simulator and the tests, built with all bugs, and their results with one bug.

use super::Bug;
use crate::command::{cargo, command, root, target};
use crate::test::PROFILE;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a run. A run that takes longer has found nothing: some bugs make members wait forever.
const RUN_MAX: Duration = Duration::from_secs(900);
/// The environment variable with the number of the bug for the tests.
const VARIABLE: &str = "CATAMARAN_PLANTED";
/// Prefix of the names of the server's tests. Names without it are tests of the replica.
pub(super) const SERVER: &str = "server ";

/// The built programs.
pub(super) struct Programs {
    /// A separate build folder, so that no other build uses a program with bugs by mistake.
    folder: PathBuf,
    replica: PathBuf,
    server: Option<PathBuf>,
}

/// The results of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tested {
    pub(super) passed: usize,
    pub(super) failed: Vec<String>,
}

impl Programs {
    pub(super) fn build_simulator() -> Result<Self, String> {
        let folder = target().join("planted");
        let features = ["build", "--quiet", "--profile", PROFILE, "-p", "catamaran-sim", "--features", "planted"];
        cargo(&[&features[..], &["--target-dir", &folder.to_string_lossy()]].concat())?;
        std::fs::create_dir_all(folder.join("runs")).map_err(|error| error.to_string())?;
        Ok(Self { folder, replica: PathBuf::new(), server: None })
    }

    pub(super) fn build_tests(&mut self, with_server: bool) -> Result<(), String> {
        let replica = ["-p", "catamaran-replica", "--lib", "--features", "testing,planted"];
        self.replica = self.build_test(&replica)?;
        if with_server {
            let server = ["-p", "catamaran-server", "--bin", "catamaran", "--features", "replica/planted"];
            self.server = Some(self.build_test(&server)?);
        }
        Ok(())
    }

    fn build_test(&self, what: &[&str]) -> Result<PathBuf, String> {
        let folder = self.folder.to_string_lossy();
        let how =
            ["test", "--quiet", "--profile", PROFILE, "--no-run", "--message-format", "json", "--target-dir", &folder];
        let mut build = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()), &[&how, what].concat());
        let output = build.stderr(Stdio::inherit()).output().map_err(|error| format!("cannot start cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!("the tests with planted bugs do not build: {}", what.join(" ")));
        }
        let output = String::from_utf8_lossy(&output.stdout);
        let path = output.lines().filter_map(executable).next_back();
        path.map(PathBuf::from).ok_or_else(|| format!("cargo names no program for {}", what.join(" ")))
    }

    /// Returns the planted bugs.
    pub(super) fn bugs(&self) -> Result<Vec<Bug>, String> {
        let output = self.run("list", self.simulator(&["--list-planted"]))?.1;
        output.lines().map(|line| listed(line).ok_or_else(|| format!("cannot read `{line}`"))).collect()
    }

    /// Whether a seed finds a bug.
    pub(super) fn finds(&self, number: u32, seed: u64) -> Result<bool, String> {
        let (number, seed) = (number.to_string(), seed.to_string());
        let simulator = self.simulator(&["--planted", &number, "--seeds", "1", "--first-seed", &seed]);
        Ok(!failed_seeds(&self.run(&number, simulator)?.1).is_empty())
    }

    /// Returns the first of this many seeds that finds a bug.
    pub(super) fn first_seed(&self, number: u32, seeds: u64) -> Result<Option<u64>, String> {
        let (number, seeds) = (number.to_string(), seeds.to_string());
        let simulator = self.simulator(&["--planted", &number, "--seeds", &seeds]);
        Ok(failed_seeds(&self.run(&number, simulator)?.1).first().copied())
    }

    /// Returns all of this many seeds that find a bug.
    pub(super) fn failed_seeds(&self, number: u32, seeds: u64) -> Result<Vec<u64>, String> {
        let (number, seeds) = (number.to_string(), seeds.to_string());
        let simulator = self.simulator(&["--planted", &number, "--seeds", &seeds, "--keep-going"]);
        let (is_whole, output) = self.run(&number, simulator)?;
        if is_whole {
            Ok(failed_seeds(&output))
        } else {
            Err(format!("{seeds} seeds did not finish within {RUN_MAX:?}"))
        }
    }

    /// Runs tests with a bug.
    pub(super) fn test(&self, number: u32, tests: &[String]) -> Result<Tested, String> {
        let (of_server, of_replica): (Vec<&str>, Vec<&str>) =
            tests.iter().map(String::as_str).partition(|test| test.starts_with(SERVER));
        let mut tested = Tested::default();
        if !of_replica.is_empty() {
            tested.add(self.test_program(number, &self.replica, &of_replica)?, "");
        }
        if let (Some(server), false) = (&self.server, of_server.is_empty()) {
            let names: Vec<&str> = of_server.iter().filter_map(|test| test.strip_prefix(SERVER)).collect();
            tested.add(self.test_program(number, server, &names)?, SERVER);
        }
        Ok(tested)
    }

    /// Runs all tests of the replica, and those of the server's disk, with a bug.
    pub(super) fn test_all(&self, number: u32) -> Result<Tested, String> {
        let mut tested = self.test_program(number, &self.replica, &[])?;
        if let Some(server) = &self.server {
            tested.add(self.test_program(number, server, &["node::disk::"])?, SERVER);
        }
        Ok(tested)
    }

    /// Runs the tests with these names or in these modules.
    fn test_program(&self, number: u32, program: &Path, names: &[&str]) -> Result<Tested, String> {
        let mut tests = Command::new(program);
        if !names.iter().any(|name| name.ends_with("::")) && !names.is_empty() {
            tests.arg("--exact");
        }
        tests.args(["--test-threads", "2"]).args(names).env(VARIABLE, number.to_string());
        let package = if Some(program) == self.server.as_deref() { "crates/server" } else { "crates/replica" };
        tests.current_dir(root().join(package));
        Ok(Tested::read(&self.run(&number.to_string(), tests)?.1))
    }

    fn simulator(&self, arguments: &[&str]) -> Command {
        let mut simulator = Command::new(self.folder.join(PROFILE).join("catamaran-sim"));
        simulator.args(arguments).current_dir(root());
        simulator
    }

    /// Runs a program to its end or to the time limit. Returns whether it ended, and its output. Files keep both
    /// outputs for later reading.
    fn run(&self, name: &str, mut program: Command) -> Result<(bool, String), String> {
        let path = self.folder.join("runs").join(name);
        let file = |end: &str| {
            File::create(path.with_extension(end)).map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        program.stdin(Stdio::null()).stdout(file("out")?).stderr(file("err")?);
        let mut child = program.spawn().map_err(|error| format!("cannot start {program:?}: {error}"))?;
        let start = Instant::now();
        let is_whole = loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(_) => break true,
                None if start.elapsed() < RUN_MAX => std::thread::sleep(Duration::from_millis(20)),
                None => {
                    child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
                    break false;
                }
            }
        };
        let output = std::fs::read(path.with_extension("out")).map_err(|error| error.to_string())?;
        Ok((is_whole, String::from_utf8_lossy(&output).into_owned()))
    }
}

impl Tested {
    /// Parses the output of a test program. A test that began and did not end has hung or crashed the program.
    fn read(output: &str) -> Self {
        let mut ends = BTreeMap::new();
        for line in output.lines() {
            if let Some((name, end)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
                ends.insert(name.to_owned(), end.to_owned());
            }
        }
        let passed = ends.values().filter(|end| *end == "ok").count();
        let failed = ends.into_iter().filter(|(_, end)| end == "FAILED").map(|(name, _)| name).collect();
        Self { passed, failed }
    }

    fn add(&mut self, other: Self, prefix: &str) {
        self.passed += other.passed;
        self.failed.extend(other.failed.into_iter().map(|name| format!("{prefix}{name}")));
    }
}

/// Returns the path in cargo's message about a program.
fn executable(line: &str) -> Option<&str> {
    line.split_once("\"executable\":\"")?.1.split('"').next()
}

/// Parses number, name, simulator or tests, and text, with tabs between them.
fn listed(line: &str) -> Option<Bug> {
    let mut fields = line.split('\t');
    let number = fields.next()?.parse().ok()?;
    let (name, found_by, text) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Bug { number, name: name.into(), is_simulated: found_by == "Simulator", text: text.into() })
}

/// Parses lines such as `seed 4 FAILED: election_safety at ..`.
fn failed_seeds(output: &str) -> Vec<u64> {
    let seed = |line: &str| line.strip_prefix("seed ")?.split_once(" FAILED: ")?.0.parse().ok();
    output.lines().filter_map(seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        let output = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest a::d ... ignored\n\nfailures:\n";
        assert_eq!(Tested::read(output), Tested { passed: 1, failed: vec!["a::c".into()] });
        assert_eq!(failed_seeds("... 3 seeds\nseed 4 FAILED: a at 1 s: b\nseeds: 3 passed, 1 failed"), [4]);
        assert_eq!(executable("{\"reason\":\"x\",\"executable\":\"/t/deps/a-1\",\"fresh\":true}"), Some("/t/deps/a-1"));
        assert_eq!(executable("{\"executable\":null}"), None);
        let bug = listed("26\tLeaseWithoutMajority\tSimulator\tA text.").unwrap();
        assert!(bug.is_simulated && bug.number == 26 && bug.text == "A text.");
    }
}
