//! `catlab load` and real servers count the same: answered queries and RCODEs, over each transport of the server.
mod choice;
mod cookies;
mod servers;

use crate::support::Folder;
use crate::support::engines::engine_permit;
use measure::Transport;
use report::{Run, Summary, TransportSummary};
use servers::{Counted, RunningServer};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use testbed::Kind;

/// Counts that differ by more than this share are not the same.
const DIFFERENCE_MAX: f64 = 0.001;
/// Queries per second and duration of a run.
const RATE: u64 = 4_000;
const SECONDS: u64 = 3;

/// Six names that exist, two that do not, one without the type, and one outside the zone.
fn queries(folder: &Path) {
    let line = |number: u32| match number % 10 {
        6 | 7 => format!("none{number}.example.test. A\n"),
        8 => format!("h{number}.example.test. AAAA\n"),
        9 => format!("h{number}.outside. A\n"),
        _ => format!("h{number}.example.test. A\n"),
    };
    std::fs::write(folder.join("queries"), (0..1_000).map(line).collect::<String>()).unwrap();
}

fn load(server: &RunningServer, transport: Transport, folder: &Path) -> TransportSummary {
    let out = folder.join(transport.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--transport", &transport.to_string(), "--workers", "1"]);
    command.args(["--server", &server.address(transport).to_string()]);
    command.args(["--rate", &RATE.to_string(), "--duration", &format!("{SECONDS}s")]);
    // On a busy machine, answers take long. The RCODEs of late answers are not counted.
    command.args(["--timeout", "30s"]);
    command.arg("--queries").arg(folder.join("queries")).arg("--force").arg("--out").arg(&out);
    if !matches!(transport, Transport::Udp | Transport::Tcp) {
        command.arg("--ca").arg(server.authority());
    }
    measured(command, &out).transports[&transport].clone()
}

/// Runs the command and reads the summary in `out`.
fn measured(mut command: Command, out: &Path) -> Summary {
    let output = command.output().unwrap();
    // Exit code 1: a busy machine made the run invalid. Its counts are still right.
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    Run::read(out).unwrap().summary.unwrap()
}

/// Prints both counts and compares them: the server has counted all answered queries, and maybe some that timed out.
/// Differences are relative to the queries sent.
fn agree(kind: Kind, transport: Transport, ours: &TransportSummary, theirs: &Counted) {
    let label = format!("{} {transport}", kind.label());
    println!(
        "{label}: sent {}, answered {}, timed out {} (late {}); {:?}; the server: {:?} queries, {:?}",
        ours.sent, ours.answered, ours.timed_out, ours.late, ours.rcodes, theirs.queries, theirs.rcodes
    );
    assert_eq!(ours.sent, RATE * SECONDS, "{label}");
    assert_eq!(ours.answered + ours.timed_out, ours.sent, "{label}: every query is answered or has timed out");
    assert!(ours.answered * 10 >= ours.sent * 9, "{label}: {} queries timed out", ours.timed_out);
    // Of queries that timed out, either they or their answers were lost on the way.
    let close = |what: &str, own: u64, other: u64| {
        let difference = own.saturating_sub(other).max(other.saturating_sub(own + ours.timed_out)) as f64;
        let is_close = difference <= DIFFERENCE_MAX * ours.sent as f64;
        assert!(is_close, "{label}: {what}: catlab {own}, the server {other}");
    };
    if let Some(queries) = theirs.queries {
        close("queries", ours.answered, queries);
    }
    let all: BTreeMap<&String, ()> = ours.rcodes.keys().chain(theirs.rcodes.keys()).map(|rcode| (rcode, ())).collect();
    for rcode in all.into_keys() {
        let of = |counts: &BTreeMap<String, u64>| counts.get(rcode).copied().unwrap_or_default();
        close(rcode, of(&ours.rcodes), of(&theirs.rcodes));
    }
    assert!(ours.rcodes.len() == 3 && ours.rcodes.values().sum::<u64>() == ours.answered, "{label}: {:?}", ours.rcodes);
}

fn check(kind: Kind) {
    let _permit = engine_permit();
    let folder = Folder::new(&format!("real-{}", kind.label()));
    let Some(server) = RunningServer::start(kind, folder.path()) else { return };
    queries(folder.path());
    for &transport in kind.transports() {
        let before = server.counted(transport);
        let ours = load(&server, transport, folder.path());
        agree(kind, transport, &ours, &server.counted(transport).since(&before));
    }
}

#[test]
fn catamaran_counts_the_same() {
    check(Kind::Catamaran);
}

#[test]
fn bind_counts_the_same() {
    check(Kind::Bind);
}

#[test]
fn knot_counts_the_same() {
    check(Kind::Knot);
}

#[test]
fn nsd_counts_the_same() {
    check(Kind::Nsd);
}

#[test]
fn unbound_counts_the_same() {
    check(Kind::Unbound);
}
