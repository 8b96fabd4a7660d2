//! Real queries at a real zone: what catlab says of the RCODEs is what comes out when each query is asked by hand.
#[expect(dead_code, reason = "it is shared with tests that use more of it")]
mod support;

use lab::peers::{Kind, Setup, start};
use lab::report::Run;
use lab::trace::read_any;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::{Folder, data, root_zone};
use wire::Rcode;

/// How long the queries of the file take.
const SECONDS: usize = 5;
/// An answer that is lost, on a machine that does other things too, is asked for again.
const TRIES_MAX: usize = 5;

/// The RCODEs of the file's queries, each sent once and waited for.
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
    // 1 is a run that is not valid, on a machine that does other things too; its counts are true all the same.
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    let summary = Run::read(out).unwrap().summary.unwrap();
    assert_eq!(summary.total.sent, count as u64, "each query of the file once");
    assert_eq!(summary.total.answered, count as u64, "{} timed out", summary.total.timed_out);
    summary.total.rcodes
}

#[test]
fn shares_of_rcodes_are_those_of_the_file() {
    let Some(queries) = data("queries/root-queries-20011009-a.dnsperf.xz") else { return };
    let Some(zone) = data("zones/root-20170821.zone.xz") else { return };
    let folder = Folder::new("root-queries");
    let recorded: Vec<Vec<u8>> = read_any(&queries).unwrap().into_iter().map(|query| query.bytes).collect();
    let zones = root_zone(&folder, &zone);
    let mut seen = Vec::new();
    for (index, kind) in [Kind::Catamaran, Kind::Nsd, Kind::Knot].into_iter().enumerate() {
        if kind.program().is_none() {
            println!("skipped: {} is not installed", kind.label());
            assert!(std::env::var("CI").as_deref() != Ok("true"), "under CI=true no peer may be missing");
            continue;
        }
        let address = (Ipv4Addr::LOCALHOST, 24_300 + 10 * index as u16).into();
        let own = folder.path().join(kind.label());
        let setup = Setup { zones: zones.clone(), key: None, address, folder: own.clone() };
        let _server = start(kind, &setup).unwrap();
        let plain = by_hand(address, &recorded);
        let ours = by_catlab(address, &queries, recorded.len(), &own.join("run"));
        println!("{}: {} queries: {ours:?}", kind.label(), recorded.len());
        assert_eq!(ours, plain, "{}", kind.label());
        seen.push(ours);
    }
    // The queries tell something: names that are there and names that are not.
    assert!(seen.iter().all(|rcodes| rcodes["NOERROR"] > 1_000 && rcodes["NXDOMAIN"] > 100), "{seen:?}");
}
