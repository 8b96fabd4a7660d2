//! Balancers, proxies and forwarders before NSD: queries reach it over each of their transports.

use crate::support::Folder;
use crate::support::engines::engine_permit;
use crate::support::program::{CATLAB, until};
use measure::Transport;
use report::{Run, TransportSummary};
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::echo::Certificate;
use testbed::{Encryption, Kind, Peer, ServedZone, Setup, answers_for, free_address, start};

const APEX: &str = "example.test.";
/// A cache keeps its records for longer than any test takes.
const ZONE: &str = "$TTL 3600\n$ORIGIN example.test.\n@ SOA ns h 1 3600 600 86400 3600\n@ NS ns\nns A 192.0.2.53\n";
/// Number of queries of a load. Half of their names exist.
const QUERIES: u64 = 200;
/// Queries that may be lost with their connection. On a busy machine, a proxy may close a connection that it takes for
/// idle while a query is on its way.
const LOST_MAX: u64 = 2;
/// Time until a proxy closes an idle connection.
const IDLE_SECONDS: u32 = 4;
/// After this many answers in a row, the proxy is known to send no query to the server that is down.
const ANSWERS_IN_A_ROW: usize = 20;

/// Whether a program is missing. Prints a skip then.
fn is_missing(kinds: &[Kind]) -> bool {
    let missing: Vec<_> = kinds.iter().filter(|kind| kind.program().is_none()).collect();
    missing.iter().for_each(|kind| skip::peer(kind.label()));
    !missing.is_empty()
}

fn nsd(folder: &Path, name: &str) -> Setup {
    let file = folder.join("zone");
    std::fs::write(&file, ZONE).unwrap();
    Setup::new(folder.join(name), free_address().unwrap(), vec![ServedZone::new(APEX, file)])
}

/// A proxy with two threads. Its CA certificate is `ca.pem` in the folder.
fn proxy(folder: &Path, kind: Kind, backends: Vec<SocketAddr>) -> Setup {
    let certificate = Certificate::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    file("ca.pem", certificate.authority_pem());
    let encryption = Encryption {
        certificate: file("cert.pem", certificate.certificate_pem()),
        key: file("key.pem", certificate.key_pem()),
        dot: Some(free_address().unwrap().port()),
        doh: (kind != Kind::HaProxy).then(|| free_address().unwrap().port()),
    };
    let folder = folder.join(kind.label());
    let setup = Setup::new(folder, free_address().unwrap(), Vec::new());
    Setup { backends, threads: Some(2), encryption: Some(encryption), ..setup }
}

/// What became of the queries of a load over this transport.
fn load(folder: &Path, setup: &Setup, transport: Transport) -> TransportSummary {
    let encryption = setup.encryption.as_ref().unwrap();
    let port = match transport {
        Transport::Dot => encryption.dot.unwrap(),
        Transport::Doh => encryption.doh.unwrap(),
        _ => setup.address.port(),
    };
    let (out, queries) = (folder.join(transport.to_string()), folder.join("queries"));
    std::fs::write(&queries, "ns.example.test. A\nnone.example.test. A\n").unwrap();
    let mut command = Command::new(CATLAB);
    command.args(["load", "--quiet", "--transport", &transport.to_string(), "--workers", "1", "--timeout", "30s"]);
    command.args(["--server", &SocketAddr::new(setup.address.ip(), port).to_string()]);
    command.args(["--rate", &QUERIES.to_string(), "--duration", "1s"]);
    command.arg("--queries").arg(&queries).arg("--force").arg("--out").arg(&out);
    if matches!(transport, Transport::Dot | Transport::Doh) {
        command.arg("--ca").arg(folder.join("ca.pem"));
    }
    let output = command.output().unwrap();
    // Exit code 1: a busy machine made the run invalid. Its counts are still right.
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    Run::read(&out).unwrap().summary.unwrap().transports[&transport].clone()
}

#[track_caller]
fn assert_answers(folder: &Path, setup: &Setup, transport: Transport) {
    let _permit = engine_permit();
    let found = load(folder, setup, transport);
    let rcodes: Vec<(&str, u64)> = found.rcodes.iter().map(|(rcode, &count)| (rcode.as_str(), count)).collect();
    let [("NOERROR", existing), ("NXDOMAIN", absent)] = rcodes[..] else { panic!("{transport}: {found:?}") };
    assert!(existing <= QUERIES / 2 && absent <= QUERIES / 2, "{transport}: {found:?}");
    assert_eq!(existing + absent + found.connection_lost, QUERIES, "{transport}: {found:?}");
    assert!(found.connection_lost <= LOST_MAX, "{transport}: {found:?}");
}

/// A proxy before NSD.
struct Pair {
    folder: Folder,
    backend: Peer,
    setup: Setup,
    proxy: Peer,
}

/// Starts a proxy before NSD and checks its answers. `None` if a program is missing.
fn checked(kind: Kind, transports: &[Transport]) -> Option<Pair> {
    if is_missing(&[kind, Kind::Nsd]) {
        return None;
    }
    let folder = Folder::new(kind.label());
    let backend = start(Kind::Nsd, &nsd(folder.path(), "nsd")).unwrap();
    let setup = proxy(folder.path(), kind, vec![backend.address]);
    let proxy = start(kind, &setup).unwrap();
    assert!(!kind.version(&kind.program().unwrap()).is_empty() && !proxy.configuration().is_empty());
    for &transport in transports {
        assert_answers(folder.path(), &setup, transport);
    }
    Some(Pair { folder, backend, setup, proxy })
}

fn answers(address: SocketAddr) -> bool {
    answers_for(address, &APEX.parse().unwrap())
}

#[test]
fn dnsdist_passes_queries_on_and_has_no_cache() {
    let transports = [Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doh];
    let Some(Pair { folder: _folder, backend, setup, proxy: _proxy }) = checked(Kind::Dnsdist, &transports) else {
        return;
    };
    until("an answer", || answers(setup.address));
    drop(backend);
    assert!(!answers(setup.address));
}

#[test]
fn haproxy_passes_queries_over_tcp_and_tls_on() {
    let transports = [Transport::Tcp, Transport::Dot];
    let Some(pair) = checked(Kind::HaProxy, &transports) else { return };
    assert!(!answers(pair.setup.address), "it has no UDP");
}

#[test]
fn knot_resolver_forwards_queries_and_answers_from_its_cache() {
    let transports = [Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doh];
    let Some(Pair { folder, backend, setup, proxy }) = checked(Kind::KnotResolver, &transports) else { return };
    drop(backend);
    assert_answers(folder.path(), &setup, Transport::Udp);
    // All of its processes.
    drop(proxy);
    assert!(TcpStream::connect(setup.address).is_err());
}

#[test]
fn unbound_forwards_queries_for_other_zones() {
    let transports = [Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doh];
    let _pair = checked(Kind::Unbound, &transports);
}

#[test]
fn dnsdist_uses_the_servers_that_answer_its_checks() {
    if is_missing(&[Kind::Dnsdist, Kind::Nsd]) {
        return;
    }
    let folder = Folder::new("balancer");
    let setups = ["nsd1", "nsd2"].map(|name| nsd(folder.path(), name));
    let mut backends = setups.each_ref().map(|setup| Some(start(Kind::Nsd, setup).unwrap()));
    let addresses = setups.each_ref().map(|setup| setup.address);
    let balancer = start(Kind::Dnsdist, &proxy(folder.path(), Kind::Dnsdist, addresses.into())).unwrap();
    let all_are_answered = || (0..ANSWERS_IN_A_ROW).all(|_| answers(balancer.address));
    for index in 0..2 {
        until("both servers are up", all_are_answered);
        drop(backends[index].take());
        until("the other server gets the queries", all_are_answered);
        // In the next round, only this one is left.
        backends[index] = Some(start(Kind::Nsd, &setups[index]).unwrap());
    }
}

#[test]
fn idle_connections_are_closed_in_time() {
    for kind in [Kind::Dnsdist, Kind::HaProxy] {
        if is_missing(&[kind, Kind::Nsd]) {
            continue;
        }
        let folder = Folder::new(kind.label());
        let backend = start(Kind::Nsd, &nsd(folder.path(), "nsd")).unwrap();
        let setup = Setup { idle_s: Some(IDLE_SECONDS), ..proxy(folder.path(), kind, vec![backend.address]) };
        let proxy = start(kind, &setup).unwrap();
        let mut connection = TcpStream::connect(proxy.address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let began = Instant::now();
        assert_eq!(connection.read(&mut [0]).unwrap(), 0, "{kind:?} closes it");
        // By default, dnsdist waits 2 s, and HAProxy 50 s.
        let seconds = began.elapsed().as_secs_f64();
        assert!((3.5..30.0).contains(&seconds), "{kind:?}: {seconds} s");
    }
}
