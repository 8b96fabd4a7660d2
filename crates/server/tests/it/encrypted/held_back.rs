//! Clients that do not finish what they have begun, at each layer below DNS, or do not read. The server counts the
//! memory that it keeps for them, so it stays within its limit. The memory is freed when the clients are gone.

use super::drain::next_frame;
use super::floods::frame;
use super::query;
use super::unread::{WIDE, add_texts, gets};
use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::framed;
use crate::support::encrypted::{Doq, QuicError, TlsStream, ask, tls_from, trust};
use crate::support::rss::{Growth, resident_kib};
use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use wire::number::Rtype;

/// Connections of each kind with something unfinished.
const EACH: usize = 400;
/// Time for the server to read what was sent.
const TAKEN_IN: Duration = Duration::from_secs(1);

/// A node with a long idle timeout, and this much memory for connections.
fn start(test: &str, memory_bytes_max: u64) -> Cluster {
    let mut cluster = Cluster::start_encrypted(test, 1);
    cluster.end("TERM");
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 600000");
    cluster.configure(1, "memory_bytes_max = 1073741824", &format!("memory_bytes_max = {memory_bytes_max}"));
    cluster.resume_encrypted();
    cluster
}

/// Another address for every hundred connections: one client may use half of the memory.
fn from(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 3, 1 + (index / 100) as u8)
}

/// A TLS record of the maximum length that lacks its last byte (RFC 8446 5.1).
fn record_without_end() -> Vec<u8> {
    [&[23, 3, 3, 0x40, 0][..], &[0; 0x3FFF]].concat()
}

/// HEADERS whose block continues in a frame that never comes (RFC 9113 6.10), with as many bytes as the server accepts.
fn headers_without_end() -> Vec<u8> {
    let block = [&[0x82, 0x87, 0x04, 0x7F, 0x80, 0x7E][..], &[b'x'; 15_000]].concat();
    frame(1, 1, 3, &block)
}

/// Waits until all connections are gone and the node has freed most of their memory.
fn given_back(cluster: &Cluster, growth: &Growth, grown_kib: u64) {
    wait_for("no connection", || (cluster.metric(1, "catamaran_connections_open") == 0).then_some(()));
    let pid = cluster.pid(1).unwrap();
    wait_for("memory that is given back", || (resident_kib(pid) < growth.before_kib + grown_kib / 4).then_some(()));
}

#[test]
fn memory_of_transport_buffers_is_counted() {
    let cluster = start("held-back", 1 << 30);
    let message = query("www.example.test.", Rtype::A).build();
    let [dot, h2] = ["dot", "h2"].map(|protocol| Arc::new(trust(&cluster, &[protocol])));
    // Each connection has received a response.
    let over_tls = |index: usize| {
        let mut stream = tls_from(from(index), cluster.dot(1), &dot).unwrap();
        ask(&mut stream, &message).unwrap();
        stream
    };
    let over_https = |index: usize| {
        let mut stream = tls_from(from(index), cluster.doh(1), &h2).unwrap();
        stream.write_all(&gets(&message, 1, 0)).unwrap();
        // DATA (RFC 9113 6.1).
        while next_frame(&mut stream).unwrap().expect("a frame").0 != 0 {}
        stream.write_all(&headers_without_end()).unwrap();
        stream
    };
    costs_no_more(&cluster, "TLS", over_tls, 32);
    costs_no_more(&cluster, "HTTPS", over_https, 92);
}

/// Opens connections that each hold back the end of a record. None uses more memory than is counted for it.
fn costs_no_more(cluster: &Cluster, what: &str, connect: impl Fn(usize) -> TlsStream, counted_kib: u64) {
    // The first connections also have one-time costs.
    drop((0..10).map(&connect).collect::<Vec<_>>());
    wait_for("no connection", || (cluster.metric(1, "catamaran_connections_open") == 0).then_some(()));
    let growth = Growth::start(cluster.pid(1).unwrap());
    let mut open: Vec<TlsStream> = (0..EACH).map(connect).collect();
    open.iter_mut().for_each(|stream| stream.sock.write_all(&record_without_end()).unwrap());
    std::thread::sleep(TAKEN_IN);
    let min = EACH as u64 * counted_kib / 4;
    wait_for("memory that is held back", || (growth.peak_kib() > min).then_some(()));
    let grown = growth.peak_kib();
    println!("{what}: {:.1} of {counted_kib} KiB each", grown as f64 / EACH as f64);
    assert!(grown <= EACH as u64 * counted_kib, "{what}: {grown} KiB for {EACH}");
    drop(open);
    given_back(cluster, &growth, grown);
}

#[test]
fn unread_https_responses_stay_within_the_memory_limit() {
    const MAX_KIB: u64 = 48 << 10;
    let cluster = start("held-unread", MAX_KIB << 10);
    add_texts(&cluster, "big.example.test.", 190);
    let asks = gets(&query("big.example.test.", Rtype::TXT).build(), 100, WIDE);
    let h2 = Arc::new(trust(&cluster, &["h2"]));
    let growth = Growth::start(cluster.pid(1).unwrap());
    // Each connection is from another address. Connections beyond the memory limit are closed.
    let connect = |index: u8| {
        let mut stream = tls_from(Ipv4Addr::new(127, 0, 4, 1 + index), cluster.doh(1), &h2).ok()?;
        stream.write_all(&asks).ok()?;
        Some(stream)
    };
    let open: Vec<TlsStream> = (0..100).filter_map(connect).collect();
    std::thread::sleep(TAKEN_IN);
    let cut = "catamaran_connections_closed_total{transport=\"doh\",reason=\"memory\"}";
    wait_for("a node whose memory is all taken", || (cluster.metric(1, cut) > 0).then_some(()));
    let grown = growth.peak_kib();
    println!("{} connections took {grown} of {MAX_KIB} KiB", open.len());
    assert!(grown <= MAX_KIB * 5 / 4, "{grown} KiB of {MAX_KIB} KiB");
    drop(open);
    given_back(&cluster, &growth, grown);
}

#[test]
fn unfinished_quic_queries_count_as_memory() {
    let cluster = start("held-quic", 4 << 20);
    let message = framed(&query("www.example.test.", Rtype::A).build());
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    let ended = doq.wait(async {
        let mut begun = Vec::new();
        // The maximum number of open streams. QUIC may keep 64 KiB of each, and a client may use 2 MiB.
        for _ in 0..100 {
            let Ok((mut send, receive)) = doq.connection.open_bi().await else { break };
            let _ = send.write_all(&message[..10]).await;
            begun.push((send, receive));
        }
        doq.connection.closed().await
    });
    assert_eq!(QuicError::from(ended), QuicError::Closed(4, String::new()), "DOQ_EXCESSIVE_LOAD");
    let cut = "catamaran_connections_closed_total{transport=\"doq\",reason=\"memory\"}";
    wait_for("the counter", || (cluster.metric(1, cut) == 1).then_some(()));
    // A client that sends complete queries may have as many in flight as before.
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    (0..100).for_each(|_| assert!(doq.stream(&message).is_ok()));
}
