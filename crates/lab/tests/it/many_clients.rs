//! Many clients with a connection each, and how many the server counts. With `CATAMARAN_TEST_FULL=1`, 15,000 clients
//! for a minute after all have connected; otherwise 60 for some seconds.
#![cfg(target_os = "linux")]

use crate::support::Folder;
use crate::support::echo_process::EchoProcess;
use crate::support::program::CATLAB;
use measure::Transport;
use report::Run;
use std::path::Path;
use std::process::{Command, Stdio};

/// Each client gets an answer at least this often, in seconds.
const GAP_S_MAX: f64 = 10.0;

fn measured(transport: Transport) {
    // Clients join one after another, as fast as a busy machine can do the handshakes.
    let (count, rate, ramp, seconds) = if skip::is_full_run() { (15_000, 0.187, 15, 75) } else { (60, 1.0, 1, 5) };
    let folder = Folder::new(&format!("many-{transport}"));
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (ca, population, out) = (path("ca.pem"), path("clients.toml"), path("run"));
    // The echo is a separate process: one process may not open enough files for both sides.
    let echo = EchoProcess::start(transport, Path::new(&ca));
    let port = echo.port;
    let text = format!(
        "[queries]\npattern = \"q{{n}}.example\"\nnames = 1000\ntypes = {{ A = 1.0 }}\n\
         [ports]\n{transport} = {port}\n\
         [[clients]]\ncount = {count}\ntransports = {{ {transport} = 1.0 }}\n\
         rate = {{ distribution = \"constant\", mean = {rate}, arrivals = \"even\" }}\n\
         active = {{ ramp_s = {ramp}.0 }}\n"
    );
    std::fs::write(&population, text).unwrap();
    let status = Command::new(CATLAB)
        .args(["load", "--quiet", "--server", "127.0.0.1", "--workers", "1", "--timeout", "5s"])
        .args(["--population", &population, "--ca", &ca, "--duration", &format!("{seconds}s"), "--out", &out])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    // A run that was late on a busy machine is INVALID and exits with 1. Its counts per client still hold.
    assert!(matches!(status.code(), Some(0 | 1)), "{transport}: {status}");
    let (queries, connections) = echo.end();
    let run = Run::read(Path::new(&out)).unwrap();
    let clients = &run.recording.clients;
    let longest_s = clients.iter().map(|client| client.longest_gap_s).fold(0.0, f64::max);
    println!("{transport}: {count} clients, {queries} queries, longest wait for an answer {longest_s:.2} s");
    assert_eq!(clients.len(), count, "{transport}");
    assert!(clients.iter().all(|client| client.answered > 0), "{transport}");
    // The gap between two answers is almost the interval between two queries.
    assert!(longest_s > 0.0 && longest_s <= GAP_S_MAX, "{transport}: {longest_s} s");
    let total = &run.summary.as_ref().unwrap().transports[&transport];
    let opened = total.connections.as_ref().unwrap();
    assert_eq!((opened.opened, opened.failed, opened.open_max), (connections, 0, count as u64), "{transport}");
    assert_eq!((opened.opened, total.sent), (count as u64, queries), "{transport}");
}

#[test]
fn each_of_many_clients_is_answered_and_the_server_counts_them_all() {
    for transport in [Transport::Tcp, Transport::Dot, Transport::Doq] {
        measured(transport);
    }
}
