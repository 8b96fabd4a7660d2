//! `catlab compare A B` as a program: its exit code tells scripts whether B is slower.

use crate::support::Folder;
use measure::Transport;
use skip::stalls::StallWatch;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testbed::echo::{Echo, EchoPlan, Fault, Faults};

/// A stall that changes the figures of a run too much.
const STALL_MIN: Duration = Duration::from_millis(100);
/// How often an input is measured until there is no stall.
const MEASUREMENTS_MAX: usize = 5;

/// A run against a server that delays every answer, long enough that a busy machine adds little.
fn load(delay_ms: u64, out: &Path) {
    let delay = Duration::from_millis(delay_ms);
    load_with(|| Arc::new(move |_: &testbed::echo::ReceivedQuery<'_>| Fault::Delay(delay)), out);
}

/// The same with other faults. The input is measured again after a stall: this test compares what it is given.
fn load_with(faults: impl Fn() -> Faults, out: &Path) {
    for _ in 0..MEASUREMENTS_MAX {
        let watch = StallWatch::with_shortest(STALL_MIN);
        load_once(faults(), out);
        if watch.stall("one measurement of an input").is_none() {
            return;
        }
    }
}

fn load_once(faults: Faults, out: &Path) {
    let echo = Echo::start(&EchoPlan { faults, ..EchoPlan::new(&[Transport::Udp]).unwrap() }).unwrap();
    let server = echo.address(Transport::Udp).to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &server, "--name", "q{n}.example"]);
    command.args(["--rate", "100", "--duration", "6s", "--timeout", "5s", "--lag-limit", "10s", "--force", "--out"]);
    let output = command.arg(out).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Runs `catlab compare`. Returns the exit code and the output.
fn compare(folder: &Folder, [a, b]: [&str; 2], more: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.arg("compare").args([a, b].map(|name| folder.path().join(name))).args(["--threshold", "50%"]).args(more);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text.into_owned())
}

#[test]
fn the_exit_code_says_whether_the_second_is_slower() {
    let folder = Folder::new("slower");
    for (name, delay_ms) in [("before", 200), ("same", 200), ("slower", 800)] {
        load(delay_ms, &folder.path().join(name));
    }
    for (runs, expected) in [
        (["before", "same"], 0),
        (["same", "before"], 0),
        (["before", "slower"], 1),
        // Getting faster is no regression.
        (["slower", "before"], 0),
    ] {
        let (code, text) = compare(&folder, runs, &[]);
        assert_eq!(code, expected, "{runs:?}: {text}");
        let (code, text) = compare(&folder, runs, &["--json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &json["is_regression"]), (expected, &(expected == 1).into()), "{runs:?}: {text}");
    }
    let (code, text) = compare(&folder, ["before", "slower"], &["--force"]);
    assert_eq!(code, 1, "{text}");
    // The threshold may not be given twice.
    let (code, text) = compare(&folder, ["before", "slower"], &["--threshold", "900%"]);
    assert_eq!(code, 2, "an option that is given twice: {text}");
}

#[test]
fn a_server_that_drops_most_queries_for_a_second_is_a_regression() {
    let folder = Folder::new("dead");
    load(100, &folder.path().join("whole"));
    // 100 queries a second. Most queries of the third second are lost, about 10 % of all.
    let faults = || -> Faults {
        let count = AtomicU64::new(0);
        Arc::new(move |_: &testbed::echo::ReceivedQuery<'_>| match count.fetch_add(1, Ordering::Relaxed) {
            200..260 => Fault::Drop,
            _ => Fault::Delay(Duration::from_millis(100)),
        })
    };
    load_with(faults, &folder.path().join("dead"));
    let (code, text) = compare(&folder, ["whole", "dead"], &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("REGRESSION") && !text.contains("No regression"), "{text}");
    let (code, text) = compare(&folder, ["dead", "whole"], &[]);
    assert!(code == 0 && text.contains("better"), "{text}");
    // The threshold allows 9 % loss: one run is too short to decide.
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.arg("compare").args(["whole", "dead"].map(|name| folder.path().join(name))).args(["--threshold", "900%"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(3) && text.contains("Undecided"), "{text}");
}
