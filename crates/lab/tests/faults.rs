//! A server's fault stands in the files of the run where and when it happened, to the second: `catlab load` the program
//! asks, and the run folder is read back.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "support/faults.rs"]
mod faults;
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use lab::echo::{Echo, EchoPlan, Faults};
use lab::engine::Transport;
use lab::report::{Distribution, Row, Run};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use support::Folder;

/// Queries a second.
const RATE: u64 = 1_000;
/// After how long a query counts as unanswered.
const TIMEOUT_MS: u64 = 1_000;

/// One run at a time: each spins on a core.
static TURN: Mutex<()> = Mutex::new(());

/// Loads a server with this fault, and gives what the folder says.
fn load(name: &str, faults: Faults, seconds: u64) -> Run {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Folder::new(name);
    let echo = Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Udp]).unwrap() }).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &echo.address(Transport::Udp).to_string()]);
    command.args(["--rate", &RATE.to_string(), "--duration", &format!("{seconds}s")]);
    command.args(["--timeout", &format!("{TIMEOUT_MS}ms"), "--name", "q{n}.example"]);
    let output = command.arg("--out").arg(folder.path().join("run")).output().unwrap();
    // 1 is a run that is not valid, on a machine that does other things too.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    Run::read(&folder.path().join("run")).unwrap()
}

fn sent(run: &Run) -> Vec<&Row> {
    run.sending().collect()
}

/// How many values are as large or larger.
fn at_least(times: &Distribution, ms: u64) -> u64 {
    times.entries().iter().filter(|(value, _)| *value >= ms * 999_000).map(|(_, count)| count).sum()
}

#[test]
fn a_server_that_stops_shows_in_every_second() {
    let run = load("stops", faults::stops_each_second(), 5);
    let rows = sent(&run);
    assert_eq!(rows.len(), 5);
    for (second, row) in rows.iter().enumerate() {
        // A fifth of the queries fall into the stop; they waited for what was left of it.
        let waited = at_least(&row.latency, 20);
        assert!((160..=400).contains(&waited), "second {second}: {waited} waited");
        let longest = row.latency.max() / 1_000_000;
        assert!((195..600).contains(&longest), "second {second}: {longest} ms");
        assert_eq!((row.answered, row.timed_out), (row.sent, 0), "second {second}");
        // A sender that other processes hold up sends a few in the next second.
        assert!(row.sent.abs_diff(RATE) <= RATE / 50, "second {second}: {} sent", row.sent);
    }
    assert_eq!(rows.iter().map(|row| row.sent).sum::<u64>(), 5 * RATE);
}

#[test]
fn a_loss_shows_in_its_second_and_in_no_other() {
    let run = load("drops", faults::drops_in_one_second_of_ten(5), 10);
    let rows = sent(&run);
    let timed_out: Vec<u64> = rows.iter().map(|row| row.timed_out).collect();
    assert_eq!(timed_out, [0, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
    // They stand in the distribution too, of the same second.
    let beyond: Vec<u64> = rows.iter().map(|row| at_least(&row.latency, TIMEOUT_MS)).collect();
    assert_eq!(beyond, timed_out);
    assert_eq!(rows[5].latency.n(), RATE);
}

#[test]
fn late_answers_show_in_the_second_of_their_queries_and_when_they_came() {
    let run = load("late", faults::answers_late_in(2), 5);
    let rows = sent(&run);
    let timed_out: Vec<u64> = rows.iter().map(|row| row.timed_out).collect();
    assert_eq!(timed_out, [0, 0, RATE / 10, 0, 0]);
    assert_eq!(at_least(&rows[2].latency, TIMEOUT_MS), RATE / 10);
    // Half of them came one second later, half of them two.
    let late: Vec<u64> = rows.iter().map(|row| row.late).collect();
    assert_eq!((late.iter().sum::<u64>(), late[..3].iter().sum::<u64>()), (RATE / 10, 0), "{late:?}");
    assert!((30..=70).contains(&late[3]) && (30..=70).contains(&late[4]), "{late:?}");
    let arrived = rows[2].arrived;
    assert!(arrived <= RATE - RATE / 10 + 20, "{arrived} arrived in the second of the fault");
}
