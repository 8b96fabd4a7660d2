//! `catlab load` runs against a server with a fault. The run folder must show the fault in the second in which it
//! happened.

use crate::support::Folder;
use crate::support::engines::{engine_alone, watch_seconds};
use crate::support::faults;
use measure::{Distribution, Row, Transport};
use report::Run;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testbed::echo::{Echo, EchoPlan, Fault, Faults, ReceivedQuery};

/// Queries per second.
const RATE: u64 = 1_000;
/// A query counts as unanswered after this time. On a busy machine, no answer takes as long.
const TIMEOUT_MS: u64 = 5_000;
/// The same where answers are late: shorter than their delay.
const TIMEOUT_LATE_MS: u64 = 1_000;

/// A finished run.
struct Loaded {
    run: Run,
    /// How many queries the server dropped or answered late.
    faulty: u64,
    /// Whether a stall moved queries to another second.
    has_stalled: bool,
}

/// Loads a server with this fault and reads the run folder.
fn load(name: &str, faults: Faults, seconds: u64, timeout_ms: u64) -> Loaded {
    let _alone = engine_alone();
    let folder = Folder::new(name);
    let faulty = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&faulty);
    let faults = Arc::new(move |query: &ReceivedQuery<'_>| {
        let fault = faults(query);
        counted.fetch_add(u64::from(matches!(fault, Fault::Drop | Fault::Delay(_))), Ordering::Relaxed);
        fault
    });
    let echo = Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Udp]).unwrap() }).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &echo.address(Transport::Udp).to_string()]);
    command.args(["--rate", &RATE.to_string(), "--duration", &format!("{seconds}s")]);
    command.args(["--timeout", &format!("{timeout_ms}ms"), "--name", "q{n}.example"]);
    let watch = watch_seconds();
    let output = command.arg("--out").arg(folder.path().join("run")).output().unwrap();
    let has_stalled = watch.stall("the counts per second").is_some();
    // Exit code 1: a busy machine made the run invalid.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
    let run = Run::read(&folder.path().join("run")).unwrap();
    assert_eq!((run.total.sent, run.total.answered + run.total.timed_out), (seconds * RATE, seconds * RATE));
    Loaded { run, faulty: faulty.load(Ordering::Relaxed), has_stalled }
}

fn sent(run: &Run) -> Vec<&Row> {
    run.sending().collect()
}

/// How many latencies are at least this long.
fn at_least(times: &Distribution, ms: u64) -> u64 {
    times.entries().iter().filter(|(value, _)| *value >= ms * 999_000).map(|(_, count)| count).sum()
}

/// A few queries may be sent in the next second.
#[track_caller]
fn assert_near(count: u64, planned: u64) {
    assert!(count.abs_diff(planned) <= RATE / 50, "{count}, not {planned}");
}

#[test]
fn a_server_that_stops_shows_in_every_second() {
    let Loaded { run, has_stalled, .. } = load("stops", faults::stops_each_second(), 5, TIMEOUT_MS);
    // A fifth of the queries of each second fall into the stop and wait for the rest of it.
    let waited = at_least(&run.total.latency, 20);
    assert!(waited >= 5 * 160, "{waited} waited");
    assert!(run.total.latency.max() >= 195_000_000, "{}", run.total.latency.max());
    if has_stalled {
        return;
    }
    let rows = sent(&run);
    assert_eq!(rows.len(), 5);
    for (second, row) in rows.iter().enumerate() {
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
    let Loaded { run, faulty, has_stalled } = load("drops", faults::drops_in_one_second_of_ten(5), 10, TIMEOUT_MS);
    let rows = sent(&run);
    let timed_out: Vec<u64> = rows.iter().map(|row| row.timed_out).collect();
    // The lost queries are in the latency distribution of the same second.
    let beyond: Vec<u64> = rows.iter().map(|row| at_least(&row.latency, TIMEOUT_MS)).collect();
    assert_eq!(beyond, timed_out);
    assert!(run.total.timed_out >= faulty, "{} timed out, {faulty} dropped", run.total.timed_out);
    if has_stalled {
        return;
    }
    assert_eq!(timed_out, [0, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
    assert_eq!(rows[5].latency.n(), rows[5].sent);
    assert_near(rows[5].sent, RATE);
}

#[test]
fn late_answers_show_in_the_second_of_their_queries_and_when_they_came() {
    let Loaded { run, faulty, has_stalled } = load("late", faults::answers_late_in(2), 5, TIMEOUT_LATE_MS);
    // A busy machine may answer other queries late too, or lose some.
    let (timed_out, late) = (run.total.timed_out, run.total.late);
    assert!((faulty..=timed_out).contains(&late), "{faulty} {late} {timed_out}");
    if has_stalled {
        return;
    }
    let rows = sent(&run);
    let timed_out: Vec<u64> = rows.iter().map(|row| row.timed_out).collect();
    assert_near(timed_out.iter().sum(), RATE / 10);
    assert_near(timed_out[2], RATE / 10);
    assert_eq!(at_least(&rows[2].latency, TIMEOUT_LATE_MS), timed_out[2]);
    // Half of them came one second later, the other half two seconds later.
    let late: Vec<u64> = rows.iter().map(|row| row.late).collect();
    assert_near(late.iter().sum(), RATE / 10);
    assert_eq!(late[..3].iter().sum::<u64>(), 0, "{late:?}");
    assert!((30..=70).contains(&late[3]) && (30..=70).contains(&late[4]), "{late:?}");
    let arrived = rows[2].arrived;
    assert!(arrived <= RATE - RATE / 10 + 20, "{arrived} arrived in the second of the fault");
}
