//! What `catlab load` counts is what real servers count: answered queries and RCODEs, over each transport that a server
//! has.
mod choice;
mod cookies;
mod servers;
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
#[path = "../support/mod.rs"]
mod support;

use lab::engine::Transport;
use lab::report::{Run, Summary, TransportSummary};
use servers::{Brand, Counted, Running};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::Folder;

/// Counts that differ by more than this share are not the same.
const DIFFERENCE_MAX: f64 = 0.001;
/// Of a run.
const RATE: u64 = 4_000;
const SECONDS: u64 = 3;

/// One run at a time: each spins on a core.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Six names that are there, two that are not, one without such a record, one of another zone.
fn queries(folder: &Path) {
    let line = |number: u32| match number % 10 {
        6 | 7 => format!("none{number}.example.test. A\n"),
        8 => format!("h{number}.example.test. AAAA\n"),
        9 => format!("h{number}.outside. A\n"),
        _ => format!("h{number}.example.test. A\n"),
    };
    std::fs::write(folder.join("queries"), (0..1_000).map(line).collect::<String>()).unwrap();
}

fn load(server: &Running, transport: Transport, folder: &Path) -> TransportSummary {
    let out = folder.join(transport.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--transport", &transport.to_string(), "--workers", "1"]);
    command.args(["--server", &server.address(transport).to_string()]);
    command.args(["--rate", &RATE.to_string(), "--duration", &format!("{SECONDS}s")]);
    command.arg("--queries").arg(folder.join("queries")).arg("--force").arg("--out").arg(&out);
    if !matches!(transport, Transport::Udp | Transport::Tcp) {
        command.arg("--ca").arg(server.authority());
    }
    measured(command, &out).transports[&transport].clone()
}

/// What the run says that this command leaves in `out`.
fn measured(mut command: Command, out: &Path) -> Summary {
    let output = command.output().unwrap();
    // 1 is a run that is not valid, on a machine that does other things too; its counts are true all the same.
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    Run::read(out).unwrap().summary.unwrap()
}

/// Both sides side by side; the difference of each count is held against the queries sent.
fn agree(brand: Brand, transport: Transport, ours: &TransportSummary, theirs: &Counted) {
    let label = format!("{} {transport}", brand.label());
    println!(
        "{label}: sent {}, answered {}, timed out {} (late {}); {:?}; the server: {:?} queries, {:?}",
        ours.sent, ours.answered, ours.timed_out, ours.late, ours.rcodes, theirs.queries, theirs.rcodes
    );
    assert_eq!(ours.sent, RATE * SECONDS, "{label}");
    assert_eq!(ours.answered + ours.timed_out, ours.sent, "{label}: every query is answered or has timed out");
    let close = |what: &str, own: u64, other: u64| {
        let difference = own.abs_diff(other) as f64 / ours.sent as f64;
        assert!(difference <= DIFFERENCE_MAX, "{label}: {what}: catlab {own}, the server {other}");
    };
    // Drops apart: what the server did not get, or what was lost on its way back, is nobody's answer.
    if let Some(queries) = theirs.queries {
        close("queries", ours.answered + ours.late, queries);
    }
    let all: BTreeMap<&String, ()> = ours.rcodes.keys().chain(theirs.rcodes.keys()).map(|rcode| (rcode, ())).collect();
    for rcode in all.into_keys() {
        let of = |counts: &BTreeMap<String, u64>| counts.get(rcode).copied().unwrap_or_default();
        close(rcode, of(&ours.rcodes), of(&theirs.rcodes));
    }
    assert!(ours.rcodes.len() == 3 && ours.rcodes.values().sum::<u64>() == ours.answered, "{label}: {:?}", ours.rcodes);
}

fn check(brand: Brand) {
    let _turn = turn();
    let folder = Folder::new(&format!("real-{}", brand.label()));
    let Some(server) = Running::start(brand, folder.path()) else { return };
    queries(folder.path());
    for &transport in brand.transports() {
        let before = server.counted(transport);
        let ours = load(&server, transport, folder.path());
        agree(brand, transport, &ours, &server.counted(transport).since(&before));
    }
}

#[test]
fn ours_counts_the_same() {
    check(Brand::Catamaran);
}

#[test]
fn bind_counts_the_same() {
    check(Brand::Bind);
}

#[test]
fn knot_counts_the_same() {
    check(Brand::Knot);
}

#[test]
fn nsd_counts_the_same() {
    check(Brand::Nsd);
}

#[test]
fn unbound_counts_the_same() {
    check(Brand::Unbound);
}
