//! Recorded queries to the root zone: `catlab load` reports the same RCODEs as queries that are sent one by one.

use crate::support::{Folder, data, root_zone};
use compare::recorded::read_any;
use report::Run;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testbed::{Kind, Setup, start};
use wire::Rcode;

/// Duration of the run in seconds.
const SECONDS: usize = 5;
/// A busy machine may lose an answer; the query is then sent again.
const TRIES_MAX: usize = 5;
/// At most one in this many queries of a run may be lost. In a stall, the server's sockets overflow.
const LOST_ONE_IN: u64 = 4;

/// The RCODEs of the file's queries, each sent once and awaited.
fn by_hand(server: SocketAddr, queries: &[Vec<u8>]) -> BTreeMap<String, u64> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut rcodes = BTreeMap::new();
    for (index, query) in queries.iter().enumerate() {
        let mut query = query.clone();
        query[..2].copy_from_slice(&(index as u16).to_be_bytes());
        let rcode = (0..TRIES_MAX).find_map(|_| ask(&socket, &query));
        let rcode = rcode.unwrap_or_else(|| panic!("no answer to query {index}: {query:?}"));
        *rcodes.entry(format!("{:?}", Rcode(rcode))).or_default() += 1;
    }
    rcodes
}

fn ask(socket: &UdpSocket, query: &[u8]) -> Option<u16> {
    let mut response = [0u8; 4_096];
    socket.send(query).ok()?;
    loop {
        let length = socket.recv(&mut response).ok()?;
        if length >= 12 && response[..2] == query[..2] && response[2] & 0x80 != 0 {
            return Some(u16::from(response[3] & 0x0F));
        }
    }
}

fn by_catlab(server: SocketAddr, queries: &Path, count: usize, out: &Path) -> BTreeMap<String, u64> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_catlab"));
    command.args(["load", "--quiet", "--workers", "1", "--server", &server.to_string()]);
    command.args(["--rate", &format!("{}", count as f64 / SECONDS as f64), "--duration", &format!("{SECONDS}s")]);
    let output = command.arg("--queries").arg(queries).arg("--out").arg(out).output().unwrap();
    // Exit code 1: a busy machine made the run invalid. Its counts are still right.
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    let summary = Run::read(out).unwrap().summary.unwrap();
    let total = summary.total;
    assert_eq!(total.sent, count as u64, "each query of the file once");
    assert_eq!(total.answered + total.timed_out, count as u64);
    assert!(total.timed_out <= count as u64 / LOST_ONE_IN, "{} timed out", total.timed_out);
    total.rcodes
}

/// Whether a run has the RCODEs of the single queries, without those of queries that a busy machine lost.
fn are_equal_but_for_losses(run: &BTreeMap<String, u64>, single: &BTreeMap<String, u64>) -> bool {
    let lost = single.values().sum::<u64>() - run.values().sum::<u64>();
    let missing = |(rcode, count): (&String, &u64)| count.checked_sub(run.get(rcode).copied().unwrap_or(0));
    single.iter().map(missing).sum::<Option<u64>>() == Some(lost)
}

#[test]
fn rcodes_of_a_run_are_those_of_single_queries() {
    let Some(queries) = data("queries/root-queries-20011009-a.dnsperf.xz") else { return };
    let Some(zone) = data("zones/root-20170821.zone.xz") else { return };
    let folder = Folder::new("root-queries");
    let recorded: Vec<Vec<u8>> = read_any(&queries).unwrap().into_iter().map(|query| query.bytes).collect();
    let zones = root_zone(&folder, &zone);
    let mut seen = Vec::new();
    for kind in [Kind::Catamaran, Kind::Nsd, Kind::Knot] {
        if kind.program().is_none() {
            skip::peer(kind.label());
            continue;
        }
        let address = testbed::free_address().unwrap();
        let own = folder.path().join(kind.label());
        let setup = Setup::new(&own, address, zones.clone());
        let _server = start(kind, &setup).unwrap();
        let plain = by_hand(address, &recorded);
        let ours = by_catlab(address, &queries, recorded.len(), &own.join("run"));
        println!("{}: {} queries: {ours:?}", kind.label(), recorded.len());
        assert!(are_equal_but_for_losses(&ours, &plain), "{}: {ours:?}, single queries {plain:?}", kind.label());
        seen.push(ours);
    }
    // The file has queries for existing and for missing names.
    assert!(seen.iter().all(|rcodes| rcodes["NOERROR"] > 1_000 && rcodes["NXDOMAIN"] > 100), "{seen:?}");
}
