//! The simulator and the tests, and their results with one bug.

use super::Bug;
use crate::command::{background, root, target};
use crate::programs::{self, Program, Source, ended_test};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a run. A run that takes longer has found nothing: some bugs make members wait forever.
const RUN_MAX: Duration = Duration::from_secs(900);
/// The environment variable with the number of the bug for the tests.
const VARIABLE: &str = "CATAMARAN_PLANTED";
/// Prefix of the names of the server's tests.
pub(super) const SERVER: &str = "server ";
/// The modules of the server with tests that find bugs.
const SERVER_MODULES: &[&str] =
    &["api::tests::", "peer::links::", "replica_host::disk::", "replica_host::tick_schedule::", "tls::session::"];
/// Prefix of the names of the simulator's scenarios. Names without any prefix are tests of the replica.
const SCENARIOS: &str = "scenarios::";

/// The built programs.
pub(super) struct Programs {
    /// The folder for outputs.
    runs: PathBuf,
    simulator: PathBuf,
    /// The programs with tests.
    tests: Vec<TestProgram>,
}

/// A program with tests.
struct TestProgram {
    path: PathBuf,
    /// Prefix of the names of its tests in the table.
    prefix: &'static str,
    /// The folder of its crate.
    package: &'static str,
    /// The modules that the full form runs. Empty: all.
    modules: &'static [&'static str],
}

/// The results of tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tested {
    pub(super) passed: usize,
    pub(super) failed: Vec<String>,
}

impl Programs {
    /// Finds the programs in the test build.
    pub(super) fn find(programs: &[Program]) -> Result<Self, String> {
        let path = |package, target, source| programs::find(programs, package, target, source).map(Path::to_path_buf);
        let test = |package, target, source, prefix, modules| {
            Ok::<_, String>(TestProgram { path: path(package, target, source)?, prefix, package, modules })
        };
        let runs = target().join("planted");
        std::fs::create_dir_all(&runs).map_err(|error| format!("cannot create {}: {error}", runs.display()))?;
        let tests = vec![
            test("replica", "catamaran_replica", Source::UnitTests, "", &[][..])?,
            test("sim", "scenarios", Source::IntegrationTest, SCENARIOS, &[][..])?,
            test("server", "catamaran", Source::UnitTests, SERVER, SERVER_MODULES)?,
        ];
        Ok(Self { runs, simulator: path("sim", "catamaran-sim", Source::Main)?, tests })
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
        let mut tested = Tested::default();
        for program in &self.tests {
            let names: Vec<&str> = tests.iter().filter_map(|test| program.own_name(test)).collect();
            if !names.is_empty() {
                tested.add(self.test_program(number, program, &names)?, program.prefix);
            }
        }
        Ok(tested)
    }

    /// Runs all scenarios, all tests of the replica, and some modules of the server, with a bug.
    pub(super) fn test_all(&self, number: u32) -> Result<Tested, String> {
        let mut tested = Tested::default();
        for program in &self.tests {
            tested.add(self.test_program(number, program, program.modules)?, program.prefix);
        }
        Ok(tested)
    }

    /// Runs the tests with these names or in these modules.
    fn test_program(&self, number: u32, program: &TestProgram, names: &[&str]) -> Result<Tested, String> {
        let mut tests = background(&program.path);
        if !names.iter().any(|name| name.ends_with("::")) && !names.is_empty() {
            tests.arg("--exact");
        }
        tests.args(["--test-threads", "2"]).args(names).env(VARIABLE, number.to_string());
        // A property that fails because of the bug must not leave its case in the source tree.
        tests.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
        tests.current_dir(root().join("crates").join(program.package));
        Ok(Tested::read(&self.run(&number.to_string(), tests)?.1))
    }

    fn simulator(&self, arguments: &[&str]) -> Command {
        let mut simulator = background(&self.simulator);
        simulator.args(arguments);
        simulator
    }

    /// Runs a program to its end or to the time limit. Returns whether it ended, and its output. Files keep both
    /// outputs for later reading.
    fn run(&self, name: &str, mut program: Command) -> Result<(bool, String), String> {
        let path = self.runs.join(name);
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

impl TestProgram {
    /// The name of a test in this program, if the test is in it.
    fn own_name<'t>(&self, test: &'t str) -> Option<&'t str> {
        match [SERVER, SCENARIOS].into_iter().find(|prefix| test.starts_with(prefix)) {
            Some(prefix) if prefix == self.prefix => test.strip_prefix(prefix),
            None if self.prefix.is_empty() => Some(test),
            _ => None,
        }
    }
}

impl Tested {
    /// Parses the output of a test program. The failed tests are in the order of their names.
    fn read(output: &str) -> Self {
        let mut tested = Self::default();
        for (name, end) in output.lines().filter_map(ended_test) {
            match end {
                "ok" => tested.passed += 1,
                "FAILED" => tested.failed.push(name.to_owned()),
                _ => {}
            }
        }
        tested.failed.sort();
        tested
    }

    fn add(&mut self, other: Self, prefix: &str) {
        self.passed += other.passed;
        self.failed.extend(other.failed.into_iter().map(|name| format!("{prefix}{name}")));
    }
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
    fn program_output_is_read() {
        let output = "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest a::d ... ignored\n\nfailures:\n";
        assert_eq!(Tested::read(output), Tested { passed: 1, failed: vec!["a::c".into()] });
        assert_eq!(failed_seeds("... 3 seeds\nseed 4 FAILED: a at 1 s: b\nseeds: 3 passed, 1 failed"), [4]);
        let bug = listed("26\tLeaseWithoutMajority\tSimulator\tA text.").unwrap();
        assert!(bug.is_simulated && bug.number == 26 && bug.text == "A text.");
    }

    #[test]
    fn each_test_is_in_one_program() {
        let programs = ["", SCENARIOS, SERVER].map(|prefix| TestProgram {
            path: PathBuf::new(),
            prefix,
            package: "",
            modules: &[],
        });
        let own = |test| programs.each_ref().map(|program| program.own_name(test));
        assert_eq!(own("log::tests::a"), [Some("log::tests::a"), None, None]);
        assert_eq!(own("scenarios::rights::a"), [None, Some("rights::a"), None]);
        assert_eq!(own("server replica_host::disk::a"), [None, None, Some("replica_host::disk::a")]);
    }
}
