//! `catlab load` runs against a server with a fault. The run folder must show the fault in the second in which it
//! happened.

use crate::support::Folder;
use crate::support::engines::engine_alone;
use crate::support::faults;
use measure::{Distribution, Row, Transport};
use report::Run;
use std::process::Command;
use testbed::echo::{Echo, EchoPlan, Faults};

/// Queries per second.
const RATE: u64 = 1_000;
/// A query counts as unanswered after this time.
const TIMEOUT_MS: u64 = 1_000;

/// Loads a server with this fault and reads the run folder.
fn load(name: &str, faults: Faults, seconds: u64) -> Run {
    let _alone = engine_alone();
    let folder = Folder::new(name);
    let echo = Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Udp]).unwrap() }).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &echo.address(Transport::Udp).to_string()]);
    command.args(["--rate", &RATE.to_string(), "--duration", &format!("{seconds}s")]);
    command.args(["--timeout", &format!("{TIMEOUT_MS}ms"), "--name", "q{n}.example"]);
    let output = command.arg("--out").arg(folder.path().join("run")).output().unwrap();
    // Exit code 1: a busy machine made the run invalid.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    Run::read(&folder.path().join("run")).unwrap()
}

fn sent(run: &Run) -> Vec<&Row> {
    run.sending().collect()
}

/// How many latencies are at least this long.
fn at_least(times: &Distribution, ms: u64) -> u64 {
    times.entries().iter().filter(|(value, _)| *value >= ms * 999_000).map(|(_, count)| count).sum()
}

/// A busy machine may send a few queries in the next second.
#[track_caller]
fn assert_near(count: u64, planned: u64) {
    assert!(count.abs_diff(planned) <= RATE / 50, "{count}, not {planned}");
}

#[test]
fn a_server_that_stops_shows_in_every_second() {
    let run = load("stops", faults::stops_each_second(), 5);
    let rows = sent(&run);
    assert_eq!(rows.len(), 5);
    for (second, row) in rows.iter().enumerate() {
        // A fifth of the queries fall into the stop and wait for the rest of it.
        let waited = at_least(&row.latency, 20);
        assert!((160..=400).contains(&waited), "second {second}: {waited} waited");
        let longest = row.latency.max() / 1_000_000;
        assert!((195..600).contains(&longest), "second {second}: {longest} ms");
        assert_eq!((row.answered, row.timed_out), (row.sent, 0), "second {second}");
        assert_near(row.sent, RATE);
    }
    assert_near(rows.iter().map(|row| row.sent).sum(), 5 * RATE);
}

#[test]
fn a_loss_shows_in_its_second_and_in_no_other() {
    let run = load("drops", faults::drops_in_one_second_of_ten(5), 10);
    let rows = sent(&run);
    let timed_out: Vec<u64> = rows.iter().map(|row| row.timed_out).collect();
    assert_eq!(timed_out, [0, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
    // The lost queries are in the latency distribution of the same second.
    let beyond: Vec<u64> = rows.iter().map(|row| at_least(&row.latency, TIMEOUT_MS)).collect();
    assert_eq!(beyond, timed_out);
    assert_eq!(rows[5].latency.n(), rows[5].sent);
    assert_near(rows[5].sent, RATE);
}

#[test]
fn late_answers_show_in_the_second_of_their_queries_and_when_they_came() {
    let run = load("late", faults::answers_late_in(2), 5);
    let rows = sent(&run);
    let timed_out: Vec<u64> = rows.iter().map(|row| row.timed_out).collect();
    // A busy machine may answer a few other queries late.
    assert_near(timed_out.iter().sum(), RATE / 10);
    assert_near(timed_out[2], RATE / 10);
    assert_eq!(at_least(&rows[2].latency, TIMEOUT_MS), timed_out[2]);
    // Half of them came one second later, the other half two seconds later.
    let late: Vec<u64> = rows.iter().map(|row| row.late).collect();
    assert_near(late.iter().sum(), RATE / 10);
    assert_eq!(late[..3].iter().sum::<u64>(), 0, "{late:?}");
    assert!((30..=70).contains(&late[3]) && (30..=70).contains(&late[4]), "{late:?}");
    let arrived = rows[2].arrived;
    assert!(arrived <= RATE - RATE / 10 + 20, "{arrived} arrived in the second of the fault");
}
