//! Runs all tests, and prints one total.

mod count;
mod durations;
mod program;

use crate::peers;
use crate::planted;
use crate::previous;
use crate::programs::{self, Program, Source};
use crate::sim::{self, Length};
use count::Count;
use durations::Durations;
use program::{Environment, Selection};
use std::fmt;
use std::sync::Mutex;
use std::time::Instant;

/// How many of the long comparisons to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A subset that fits the daily gate.
    Subset,
    /// All recorded and generated queries and updates.
    Full,
}

/// Number of simulated clusters; each counts as a test.
const SEEDS: u64 = 300;
/// Number of simulated clusters with --full.
const SEEDS_FULL: u64 = 3_000;

/// Crates whose tests compute and use no real time, sockets or other programs.
const COMPUTING: [&str; 10] =
    ["hierarchy", "measure", "policy", "replica", "report", "sim", "store", "tsig", "wire", "zone"];
/// Crates that the laboratory consists of.
const LABORATORY: [&str; 3] = ["lab", "links", "trace"];

fn is_computing(program: &Program) -> bool {
    COMPUTING.contains(&program.package())
}

/// A part of a run. The table of durations lists each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Tests of crates that compute, and all tests in `src` folders.
    UnitTests,
    /// The tests of real nodes in `crates/server/tests`.
    ServerProcesses,
    /// The tests in `crates/lab/tests` and of the crates below it.
    Laboratory,
}

impl Part {
    fn of(program: &Program) -> Self {
        match (program.package(), program.source) {
            (package, _) if COMPUTING.contains(&package) => Self::UnitTests,
            ("server", Source::IntegrationTest) => Self::ServerProcesses,
            (package, Source::IntegrationTest) if LABORATORY.contains(&package) => Self::Laboratory,
            _ => Self::UnitTests,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnitTests => "unit tests",
            Self::ServerProcesses => "server processes",
            Self::Laboratory => "laboratory",
        })
    }
}

/// The results so far.
#[derive(Default)]
struct Total {
    count: Count,
    durations: Durations,
    failures: Vec<String>,
}

/// Runs every test and prints the count.
///
/// Four sequences run side by side. Three of them mostly wait: the tests of real nodes, those of the laboratory, and
/// unit tests with sockets. The fourth one computes, with the lowest priority: other unit tests, simulated clusters,
/// planted bugs. Tests of nodes that measure follow when all four have ended.
///
/// # Errors
/// When a test fails or a program cannot be built.
pub(crate) fn run(extent: Extent) -> Result<(), String> {
    peers::ensure(extent)?;
    if extent == Extent::Full {
        previous::ensure()?;
    }
    let mut total = Total::default();
    let programs = timed(&mut total.durations, "build", programs::build)?;
    let tests = |is_wanted: fn(&Program) -> bool| -> Vec<&Program> {
        programs.iter().filter(|program| program.source != Source::Main && is_wanted(program)).collect()
    };
    let computing = tests(is_computing);
    let nodes = tests(|program| Part::of(program) == Part::ServerProcesses);
    let laboratory = tests(|program| Part::of(program) == Part::Laboratory);
    let others = tests(|program| !is_computing(program) && Part::of(program) == Part::UnitTests);
    let environment = Environment::new(extent);
    let total = Mutex::new(total);
    let run = |programs: &[&Program], selection: &Selection| {
        programs.iter().for_each(|program| run_program(program, selection, &environment, &total));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(&nodes, &Selection::of_nodes()));
        scope.spawn(|| run(&laboratory, &Selection::laboratory()));
        scope.spawn(|| run(&others, &Selection::waiting()));
        run(&computing, &Selection::computing());
        examples(&total);
        simulate(extent, &total);
        plant(extent, &programs, &total);
    });
    run(&nodes, &Selection::measuring());
    report(&total.into_inner().expect("no thread panics with it"), extent)
}

/// Runs tests of a program, prints its output, and adds its results.
fn run_program(program: &Program, selection: &Selection, environment: &Environment, total: &Mutex<Total>) {
    let label = format!("{} {}", program.package(), program.target);
    println!("xtask: {label}");
    let ran = program::run(program, selection, environment);
    let mut total = total.lock().expect("no thread panics with it");
    match ran {
        Err(reason) => total.failures.push(format!("{label}: {reason}")),
        Ok(mut ran) => {
            println!("\nxtask: {label}, {:.1} s\n{}", ran.duration.as_secs_f64(), ran.output);
            ran.count.failures.iter_mut().for_each(|failure| failure.test = format!("{label} {}", failure.test));
            if !ran.is_success {
                total.failures.push(format!("{label} failed"));
            }
            total.durations.add_part(&Part::of(program).to_string(), ran.duration);
            total.durations.add_tests(&label, &ran.ends, selection.threads);
            total.count.append(ran.count);
        }
    }
}

/// Runs the examples in the documentation of libraries.
fn examples(total: &Mutex<Total>) {
    let start = Instant::now();
    let ran = program::examples();
    let mut total = total.lock().expect("no thread panics with it");
    total.durations.add_part("examples in documentation", start.elapsed());
    match ran {
        Ok(count) => total.count.append(count),
        Err(reason) => total.failures.push(reason),
    }
}

fn simulate(extent: Extent, total: &Mutex<Total>) {
    let seeds = if extent == Extent::Full { SEEDS_FULL } else { SEEDS };
    let start = Instant::now();
    let simulated = sim::run(Length::Seeds(seeds));
    let mut total = total.lock().expect("no thread panics with it");
    total.durations.add_part("simulator", start.elapsed());
    match simulated {
        Ok((passed, failed)) => {
            total.count.passed += passed;
            total.count.failed += failed;
        }
        Err(reason) => total.failures.push(reason),
    }
}

fn plant(extent: Extent, programs: &[Program], total: &Mutex<Total>) {
    let options: &[&str] = if extent == Extent::Full { &["--full"] } else { &[] };
    let start = Instant::now();
    let planted = planted::run_with(programs, options);
    let mut total = total.lock().expect("no thread panics with it");
    total.durations.add_part("planted bugs", start.elapsed());
    total.failures.extend(planted.err());
}

/// Prints durations, skips, failures and one total, and returns whether the run passed.
fn report(total: &Total, extent: Extent) -> Result<(), String> {
    let Total { count, durations, .. } = total;
    println!("\n{durations}");
    count.skips.iter().for_each(|skip| println!("{skip}"));
    count.failures.iter().for_each(|failure| println!("{failure}"));
    println!("{count}");
    verdict(total, extent)
}

/// Returns the reasons for which the run failed, if it did.
fn verdict(total: &Total, extent: Extent) -> Result<(), String> {
    let mut failures = total.failures.clone();
    if peers::is_all_required(extent) {
        let skips = total.count.skips.iter().filter(|skip| skip.cause.is_of_machine());
        failures.extend(skips.map(|skip| format!("with --full or CI=true this is an error: {skip}")));
    }
    if failures.is_empty() && total.count.failed == 0 { Ok(()) } else { Err(failures.join("\n")) }
}

fn timed<T>(durations: &mut Durations, part: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    durations.add_part(part, start.elapsed());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_belongs_to_a_part() {
        let part = |package: &str, source| {
            Part::of(&Program {
                folder: format!("/r/crates/{package}").into(),
                target: "a".into(),
                source,
                path: "/t/a".into(),
            })
        };
        assert_eq!(part("server", Source::IntegrationTest), Part::ServerProcesses);
        assert_eq!(part("server", Source::UnitTests), Part::UnitTests);
        assert_eq!(part("lab", Source::IntegrationTest), Part::Laboratory);
        assert_eq!(part("zone", Source::IntegrationTest), Part::UnitTests);
    }

    #[test]
    fn a_skip_for_the_machine_fails_a_full_run() {
        let total = |line: &str| {
            let mut total = Total::default();
            total.count.add(line);
            total
        };
        let skip = |cause| skip::Skip { cause, what: "a".into() }.to_string();
        assert!(verdict(&total(&skip(skip::Cause::Peer)), Extent::Full).is_err());
        assert!(verdict(&total(&skip(skip::Cause::Data)), Extent::Full).is_ok());
        assert!(verdict(&total("test a ... FAILED"), Extent::Full).is_ok(), "its closing line counts");
        assert!(verdict(&total("test result: FAILED. 0 passed; 1 failed"), Extent::Full).is_err());
    }
}
