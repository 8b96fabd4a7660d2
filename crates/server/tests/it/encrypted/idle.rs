//! Very many idle connections over TLS, HTTPS and QUIC. None is closed early, other clients keep their rate, and the
//! connections cost no more memory than is counted for them.

use super::drain::next_frame;
use super::floods::frame;
use super::query;
use crate::support::cluster::Cluster;
use crate::support::dns::framed;
use crate::support::encrypted::{TlsStream, WAIT, ask, tls_from, trust};
use crate::support::legitimate::{Legitimate, Phase, RATE, assert_left, in_turn};
use crate::support::open_files::may_open;
use crate::support::rss::Growth;
use quinn::crypto::rustls::QuicClientConfig;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use wire::number::Rtype;

/// Connections of each kind.
const EACH: usize = 1_000;
/// Files that this process has open then: all QUIC connections share one.
const FILES: u64 = 2 * EACH as u64 + 500;
/// A client address for each kind: a single client may not have all of these connections.
const OVER_TLS: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 1);
const OVER_HTTPS: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 2);
const OVER_QUIC: Ipv4Addr = Ipv4Addr::new(127, 0, 2, 3);
/// Concurrent QUIC handshakes: beyond 64, each client would get a Retry.
const AT_ONCE: usize = 20;
/// Memory counted for one connection of each kind.
const KIB_EACH: u64 = 32 + 92 + 48;
/// How long the other client's rate is measured, before, during and after the test.
const LOOKED_AT: Duration = Duration::from_secs(2);
/// The part of its rate that the other client must keep.
const LEFT_MIN: f64 = 0.9;

/// HTTP/2 connections. The server has sent its first frame, so it has allocated everything that it keeps for each.
fn https(cluster: &Cluster) -> Vec<TlsStream> {
    let config = Arc::new(trust(cluster, &["h2"]));
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    let connect = |_| {
        let mut stream = tls_from(OVER_HTTPS, cluster.doh(1), &config).unwrap();
        stream.write_all(&preface).unwrap();
        next_frame(&mut stream).unwrap().expect("SETTINGS");
        stream
    };
    (0..EACH).map(connect).collect()
}

/// QUIC connections that send nothing, not even keep-alives.
struct Quic {
    runtime: Runtime,
    _endpoint: quinn::Endpoint,
    connections: Vec<quinn::Connection>,
}

impl Quic {
    fn start(cluster: &Cluster) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let crypto = QuicClientConfig::try_from(trust(cluster, &["doq"])).unwrap();
        let to = cluster.dot(1);
        let (endpoint, connections) = runtime.block_on(async {
            let mut endpoint = quinn::Endpoint::client(SocketAddr::from((OVER_QUIC, 0))).unwrap();
            endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
            let mut connections = Vec::new();
            while connections.len() < EACH {
                let connecting: Vec<_> = (0..AT_ONCE).map(|_| endpoint.connect(to, "localhost").unwrap()).collect();
                for connecting in connecting {
                    connections.push(tokio::time::timeout(WAIT, connecting).await.unwrap().unwrap());
                }
            }
            (endpoint, connections)
        });
        Self { runtime, _endpoint: endpoint, connections }
    }

    /// Sends a query over each. Returns the number of answers.
    fn answered(&self, message: &[u8]) -> usize {
        let ask = async |connection: &quinn::Connection| {
            let (mut send, mut receive) = connection.open_bi().await.ok()?;
            send.write_all(&framed(message)).await.ok()?;
            send.finish().ok()?;
            receive.read_to_end(1_000).await.ok().filter(|bytes| bytes.len() > 12)
        };
        self.runtime.block_on(async {
            let mut answered = 0;
            for connection in &self.connections {
                answered +=
                    usize::from(tokio::time::timeout(WAIT, ask(connection)).await.is_ok_and(|got| got.is_some()));
            }
            answered
        })
    }
}

/// Sends a query over an HTTP/2 connection. Returns whether a response with a body comes back.
fn is_answered(stream: &mut TlsStream, message: &[u8]) -> bool {
    let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(message));
    let head = [&[0x82, 0x87, 0x04, target.len() as u8], target.as_bytes()].concat();
    if stream.write_all(&frame(1, 0x5, 1, &head)).is_err() {
        return false;
    }
    loop {
        match next_frame(stream) {
            // A DATA frame that ends the stream.
            Ok(Some((0, 1, payload))) => return payload.len() > 12,
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return false,
        }
    }
}

#[test]
fn udp_is_not_slowed_by_thousands_of_idle_connections() {
    if !may_open(FILES) {
        return;
    }
    let _turn = in_turn();
    let mut cluster = Cluster::start_encrypted("idle", 1);
    cluster.end("TERM");
    // Long enough for the whole test on the slowest machine.
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 120000");
    cluster.resume_encrypted();
    let message = query("www.example.test.", Rtype::A).build();
    let growth = Growth::start(cluster.pid(1).unwrap());
    let legitimate = Legitimate::start(cluster.dns(1), message.clone());
    std::thread::sleep(LOOKED_AT);
    legitimate.next();

    let config = Arc::new(trust(&cluster, &["dot"]));
    let mut over_tls: Vec<TlsStream> =
        (0..EACH).map(|_| tls_from(OVER_TLS, cluster.dot(1), &config).unwrap()).collect();
    let mut over_https = https(&cluster);
    let over_quic = Quic::start(&cluster);
    legitimate.next();
    std::thread::sleep(LOOKED_AT);
    legitimate.next();
    assert!(cluster.metric(1, "catamaran_connections_open") >= 3 * EACH as u64);

    let (before, grown, bound) = (growth.before_kib, growth.peak_kib(), EACH as u64 * KIB_EACH);
    println!("{before} KiB grew by {grown} KiB of {bound} KiB");
    assert!(grown < bound, "{before} KiB grew by {grown} KiB, more than {bound} KiB");

    // The connections still work: each query is answered.
    assert!(over_tls.iter_mut().all(|stream| ask(stream, &message).is_ok()));
    assert!(over_https.iter_mut().all(|stream| is_answered(stream, &message)));
    assert_eq!(over_quic.answered(&message), EACH);
    assert_eq!(cluster.metric(1, "catamaran_connections_closed_total"), 0);
    assert_eq!(cluster.metric(1, "catamaran_panics_total"), 0);

    drop((over_tls, over_https, over_quic));
    legitimate.next();
    std::thread::sleep(LOOKED_AT);
    let phases = legitimate.finish();
    let (quiet, come, idle) = ([phases[0], phases[4]], phases[1], phases[2]);
    let rate = quiet.iter().map(Phase::overall_rate).fold(0.0, f64::max);
    assert!(rate >= RATE / 2.0, "{rate:.0} answers/s are no load: {quiet:?}");
    assert_left("while they come", &quiet, &[come], LEFT_MIN);
    assert_left("while they are idle", &quiet, &[idle], LEFT_MIN);
}
