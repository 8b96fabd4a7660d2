//! What clients receive from a node that is told to stop: the end of the connection, and complete responses.

use super::floods::frame;
use super::query;
use super::unread::{WIDE, gets};
use crate::support::cluster::Cluster;
use crate::support::encrypted::{Doq, QuicError, TlsStream, ask, tls, trust};
use skip::stalls::StallWatch;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::number::Rtype;

/// Frame types (RFC 9113 6).
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// The next HTTP/2 frame: type, flags and payload. `None` when the server has closed the connection properly.
pub(super) fn next_frame(stream: &mut TlsStream) -> std::io::Result<Option<(u8, u8, Vec<u8>)>> {
    let mut head = [0; 9];
    if stream.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[1..])?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(Some((head[3], head[4], payload)))
}

#[test]
fn clients_are_notified_when_a_node_stops() {
    let mut cluster = Cluster::start_encrypted("drain", 1);
    let good = query("www.example.test.", Rtype::A).build();
    let mut dot = tls(cluster.dot(1), &Arc::new(trust(&cluster, &["dot"]))).unwrap();
    ask(&mut dot, &good).unwrap();
    let mut doh = tls(cluster.doh(1), &Arc::new(trust(&cluster, &["h2"]))).unwrap();
    doh.write_all(&gets(&good, 1, WIDE)).unwrap();
    // A DATA frame that ends the response.
    while !matches!(next_frame(&mut doh).unwrap(), Some((0, 1, _))) {}
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    doq.ask(&good).unwrap();

    let https = std::thread::spawn(move || {
        let mut reasons = Vec::new();
        loop {
            match next_frame(&mut doh) {
                // The last stream, and the reason (RFC 9113 6.8).
                Ok(Some((GOAWAY, _, payload))) => reasons.push(payload[4..8].to_vec()),
                // If the node has closed the connection, the next read shows that.
                Ok(Some((PING, 0, payload))) => _ = doh.write_all(&frame(PING, 1, 0, &payload)),
                Ok(Some(_)) => {}
                end => return (reasons, end.map(|_| ()).map_err(|error| error.to_string())),
            }
        }
    });
    // The node waits one second for its clients.
    let watch = StallWatch::with_shortest(Duration::from_millis(500));
    let start = Instant::now();
    cluster.end("TERM");
    println!("it stopped within {:?}", start.elapsed());
    let dot_end = dot.read(&mut [0]).map_err(|error| error.to_string());
    let (reasons, end) = https.join().unwrap();
    let doq_end = QuicError::from(doq.wait_long(doq.connection.closed()));
    if watch.stall("how connections end when a node stops").is_some() {
        return;
    }
    // RFC 8446 6.1: close_notify. The end of TCP alone would be an error in the client's library.
    assert_eq!(dot_end, Ok(0));
    assert!(!reasons.is_empty() && reasons.iter().all(|reason| *reason == [0; 4]), "{reasons:?}");
    assert_eq!(end, Ok(()));
    // DOQ_NO_ERROR (RFC 9250 8.4).
    assert_eq!(doq_end, QuicError::Closed(0, String::new()));
}
