//! Runs one test program and reads what it prints.

use super::Extent;
use super::count::Count;
use crate::command::{background, cargo_path, command};
use crate::peers;
use crate::previous;
use crate::programs::{self, Program};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Number of tests of one program that run at the same time on a core if they mostly wait.
const WAITING_PER_CORE: usize = 2;
/// The same for the laboratory. Its tests themselves limit how many of them send queries at the same time.
const LABORATORY_PER_CORE: usize = 6;

/// Tests of real nodes that measure rates or delays, stop nodes for less than an election takes, or wait for work of
/// the lowest priority. They run one by one, after all others.
const MEASURING: [&str; 15] = [
    "all_live::a_record_is_on_every_node_as_soon_as_its_update_is_acknowledged",
    "damaged_disks::a_scrub_finds_damage_while_the_node_runs_and_a_restart_repairs_it",
    "encrypted::floods::floods_slow_no_other_client",
    "encrypted::idle::udp_is_not_slowed_by_thousands_of_idle_connections",
    "encrypted::rates::udp_keeps_its_rate_during_attacks_on_other_transports",
    "full_disk::a_leader_on_a_full_disk_hands_over_and_catches_up_when_there_is_room",
    "full_disk::all_nodes_answer_on_full_disks_and_take_updates_again_when_there_is_room",
    "full_queue::a_flooding_key_leaves_room_in_the_queue_for_others",
    "full_queue::a_full_node_executes_accepted_updates_and_no_refused_ones",
    "owner_memory::a_large_name_of_a_zone_file_is_deleted_at_a_bounded_cost",
    "owner_memory::a_name_that_one_key_fills_and_changes_costs_little_memory",
    "siege::clients_notice_nothing_of_all_attacks_at_once",
    "siege::handshakes_of_strangers_delay_no_heartbeat",
    "spoofed_addresses::each_prefix_is_limited_however_many_addresses_a_flood_uses",
    "updates::a_thousand_updates_are_visible_on_all_nodes_soon",
];

/// Which tests of a program run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// How many tests run at the same time.
    pub(super) threads: usize,
    /// Options of the test harness.
    options: Vec<&'static str>,
    /// The least number of tests. Fewer mean that a test of `MEASURING` has another name now.
    count_min: u64,
    /// Whether it runs with the lowest priority.
    is_background: bool,
}

impl Selection {
    /// All tests of a program that computes.
    pub(super) fn computing() -> Self {
        Self { threads: cores(), options: Vec::new(), count_min: 0, is_background: true }
    }

    /// All tests of a program that mostly waits.
    pub(super) fn waiting() -> Self {
        Self { threads: WAITING_PER_CORE * cores(), is_background: false, ..Self::computing() }
    }

    /// All tests of the laboratory.
    pub(super) fn laboratory() -> Self {
        Self { threads: LABORATORY_PER_CORE * cores(), ..Self::waiting() }
    }

    /// The tests of real nodes, but for those that measure.
    pub(super) fn of_nodes() -> Self {
        let others = MEASURING.iter().flat_map(|name| ["--skip", name]);
        Self { options: std::iter::once("--exact").chain(others).collect(), ..Self::waiting() }
    }

    /// The tests of real nodes that measure.
    pub(super) fn measuring() -> Self {
        let options = std::iter::once("--exact").chain(MEASURING).collect();
        Self { threads: 1, options, count_min: MEASURING.len() as u64, is_background: false }
    }
}

/// Number of cores, at least two.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).max(2)
}

/// Environment variables of tests.
pub(super) struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// Names the other servers, the clients and the earlier build that are installed. To find them takes seconds.
    pub(super) fn new(extent: Extent) -> Self {
        let mut tests = Command::new("a test");
        peers::set_environment(&mut tests);
        previous::set_environment(&mut tests);
        if extent == Extent::Full {
            tests.env("CATAMARAN_TEST_FULL", "1");
        }
        Self(tests.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect())
    }
}

/// The results of one test program.
pub(super) struct Ran {
    pub(super) count: Count,
    pub(super) output: String,
    /// The tests in the order in which they ended, and the time of each since the first test began.
    pub(super) ends: Vec<(String, Duration)>,
    pub(super) duration: Duration,
    pub(super) is_success: bool,
}

/// Runs tests of a program in the folder of its crate.
pub(super) fn run(program: &Program, selection: &Selection, environment: &Environment) -> Result<Ran, String> {
    let mut tests = if selection.is_background { background(&program.path) } else { Command::new(&program.path) };
    // Show the output of passed tests too: counts, figures and skips.
    tests.args(["--show-output", "--test-threads", &selection.threads.to_string()]).args(&selection.options);
    tests.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    tests.envs(environment.0.iter().map(|(name, value)| (name, value)));
    let ran = read(tests)?;
    let count = ran.count.passed + ran.count.failed;
    if ran.is_success && count < selection.count_min {
        return Err(format!("{count} of {} tests ran: {MEASURING:?}", selection.count_min));
    }
    Ok(ran)
}

/// Runs the examples in the documentation of all libraries.
pub(super) fn examples() -> Result<Count, String> {
    let what = ["test", "--quiet", "--profile", programs::PROFILE, "--workspace", "--doc"];
    let ran = read(command(&cargo_path(), &[&what[..], &programs::FEATURES].concat()))?;
    println!("{}", ran.output);
    if ran.is_success { Ok(ran.count) } else { Err("an example in the documentation failed".into()) }
}

fn read(mut tests: Command) -> Result<Ran, String> {
    let start = Instant::now();
    let mut child = tests
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {tests:?}: {error}"))?;
    let mut stdout = BufReader::new(child.stdout.take().expect("standard output is piped"));
    let (mut count, mut output, mut ends) = (Count::default(), String::new(), Vec::new());
    let mut first = start;
    let mut line = Vec::new();
    while stdout.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        let text = String::from_utf8_lossy(&line);
        count.add(text.trim_end());
        if text.starts_with("running ") {
            first = Instant::now();
        }
        if let Some((name, _)) = programs::ended_test(text.trim_end()) {
            ends.push((name.to_owned(), first.elapsed()));
        }
        output.push_str(&text);
        line.clear();
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() {
        output.push_str(&format!("exited with {status}\n"));
    }
    Ok(Ran { count, output, ends, duration: start.elapsed(), is_success: status.success() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_measure_run_alone() {
        let (others, measuring) = (Selection::of_nodes(), Selection::measuring());
        assert!(others.threads >= 4 && measuring.threads == 1);
        let skipped: Vec<&str> = others.options.iter().filter(|option| !option.starts_with("--")).copied().collect();
        assert_eq!(skipped, measuring.options[1..]);
    }

    #[test]
    fn a_program_is_read_to_its_end() {
        let script = "echo 'running 2 tests'; echo 'test a::b ... ok'; echo 'test a::c - should panic ... FAILED'; \
                      echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101";
        let ran = read(command("sh", &["-c", script])).unwrap();
        let names: Vec<&str> = ran.ends.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a::b", "a::c"]);
        assert_eq!((ran.is_success, ran.count.passed, ran.count.failed), (false, 1, 1));
        assert!(ran.output.ends_with("exited with exit status: 101\n"), "{}", ran.output);
    }
}
