//! Pending requests. Each is counted with all the memory that is kept for it.

use super::floods::frame;
use super::query;
use super::unread::add_texts;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::encrypted::{Doh, TlsStream, tls, trust};
use crate::support::rss::Growth;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::number::Rtype;

/// Memory limit for the node's connections.
const KIB_MAX: u64 = 24 << 10;
/// Concurrent requests of one connection.
const STREAMS: u32 = 100;
/// Fields in the headers of one request, each as short as possible. 16 KiB of headers hold this number (RFC 9113
/// 6.5.2).
const FIELDS: usize = 480;

/// A node with a long idle timeout.
fn node(test: &str) -> Cluster {
    let mut cluster = Cluster::start_encrypted(test, 1);
    cluster.end("TERM");
    cluster.configure(1, "memory_bytes_max = 1073741824", &format!("memory_bytes_max = {}", KIB_MAX << 10));
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 60000");
    cluster.resume_encrypted();
    add_texts(&cluster, "big.example.test.", 200);
    cluster
}

/// The client's first bytes. Its window is zero, so the server may not send any byte of a response body.
fn start() -> Vec<u8> {
    let settings = [&[0, 4][..], &0u32.to_be_bytes()].concat();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &settings)].concat()
}

/// The headers of a POST without its body. The first request of a connection adds the repeated field to the table (RFC
/// 7541 6.2.1), and the others refer to it.
fn post(index: u32) -> Vec<u8> {
    let mut head = vec![0x83, 0x87, 0x04, 10];
    head.extend(b"/dns-query");
    // `content-type`: its number 31 does not fit into four bits.
    head.extend([0x0F, 16, 23]);
    head.extend(b"application/dns-message");
    if index == 0 {
        head.extend([0x40, 1, b'x', 0]);
    }
    head.extend([0x80 | 62].repeat(FIELDS));
    frame(1, 0x4, 2 * index + 1, &head)
}

fn get(index: u32, message: &[u8]) -> Vec<u8> {
    let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(message));
    frame(1, 0x5, 2 * index + 1, &[&[0x82, 0x87, 0x04, target.len() as u8], target.as_bytes()].concat())
}

/// Opens connections that send these bytes. Returns the maximum growth of the node in KiB.
fn growth(cluster: &Cluster, count: usize, bytes: &[u8]) -> u64 {
    let config = Arc::new(trust(cluster, &["h2"]));
    let pid = cluster.pid(1).unwrap();
    let connect = || {
        let mut stream = tls(cluster.doh(1), &config).unwrap();
        // PING (RFC 9113 6.7): its response shows that the server has processed everything before it.
        stream.write_all(&[&start()[..], bytes, &frame(6, 0, 0, &[7; 8])].concat()).unwrap();
        let mut seen = Vec::<u8>::new();
        let begin = Instant::now();
        while !seen.windows(8).any(|window| window == [7; 8]) {
            assert!(begin.elapsed() < Duration::from_secs(10), "no answer to PING");
            let mut bytes = [0; 4_096];
            let count = stream.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "closed");
            seen.extend(&bytes[..count]);
        }
        stream
    };
    // The first connection also has one-time costs.
    drop(connect());
    wait_for("no connection", || (cluster.metric(1, "catamaran_connections_open") == 0).then_some(()));
    let growth = Growth::start(pid);
    let open: Vec<TlsStream> = (0..count).map(|_| connect()).collect();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(cluster.metric(1, "catamaran_connections_open"), count as u64, "they are still open");
    drop(open);
    growth.peak_kib()
}

#[test]
fn request_headers_are_not_kept_in_memory() {
    let cluster = node("parked");
    let posts: Vec<u8> = (0..STREAMS).flat_map(post).collect();
    let waiting = growth(&cluster, 20, &posts);
    println!("20 connections with {STREAMS} requests each whose bodies do not come: {waiting} KiB of {KIB_MAX} KiB");
    assert!(waiting < KIB_MAX, "{waiting} KiB");
}

/// A client that does not read its responses, 1 MiB of them with 50 KiB each, and sends more requests.
#[test]
fn request_headers_are_not_kept_while_responses_wait() {
    let cluster = node("parked-unread");
    let message = query("big.example.test.", Rtype::TXT).build();
    let unread = (0..22).flat_map(|index| get(index + 1, &message));
    let posts = post(0).into_iter().chain(unread).chain((23..STREAMS).flat_map(post));
    let grown = growth(&cluster, 7, &posts.collect::<Vec<u8>>());
    println!("7 connections with requests behind responses that are not read: {grown} KiB of {KIB_MAX} KiB");
    assert!(grown < KIB_MAX, "{grown} KiB");
    let small = query("www.example.test.", Rtype::A).build();
    assert_eq!(Doh::connect(cluster.doh(1), trust(&cluster, &["h2"])).get(&small).unwrap().status, 200);
}
