//! Clients that read without a pause, in small segments. Each is served, and none has to wait for an alarm.

use super::query;
use super::unread::{WIDE, add_texts, gets};
use crate::support::cluster::Cluster;
use crate::support::encrypted::{TlsStream, tls_over, trust};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::number::Rtype;

/// Requests of a connection at once: as many as may be.
const COUNT: u32 = 100;
/// Octets that a client reads at once.
const PIECE: usize = 4 << 10;

/// A connection of HTTP/2 over a socket that is made ready before it connects.
fn connect(cluster: &Cluster, ready: impl FnOnce(&Socket)) -> TlsStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    ready(&socket);
    socket.connect(&cluster.doh(1).into()).unwrap();
    tls_over(socket.into(), &Arc::new(trust(cluster, &["h2"]))).unwrap()
}

/// What a client of HTTP/2 has seen.
#[derive(Default)]
struct Seen {
    /// What is not yet a frame.
    octets: Vec<u8>,
    /// Responses that have ended.
    ended: u32,
}

impl Seen {
    /// Reads once; false when the connection has ended.
    fn read(&mut self, stream: &mut TlsStream) -> bool {
        let mut piece = [0; PIECE];
        let count = stream.read(&mut piece).unwrap_or(0);
        self.octets.extend_from_slice(&piece[..count]);
        while let Some(&[a, b, c, kind, flags, ..]) = self.octets.get(..9) {
            let len = u32::from_be_bytes([0, a, b, c]);
            let end = 9 + len as usize;
            if self.octets.len() < end {
                break;
            }
            // DATA and HEADERS may end a stream (RFC 9113 6.1, 6.2).
            self.ended += u32::from(kind <= 1 && flags & 1 == 1);
            self.octets.drain(..end);
        }
        count > 0
    }
}

#[test]
fn responses_over_https_in_small_segments_come_without_a_pause() {
    let cluster = Cluster::start_encrypted("small-segments", 1);
    add_texts(&cluster, "big.example.test.", 58);
    let message = query("big.example.test.", Rtype::TXT).build();
    for turn in 0..5 {
        let mut stream = connect(&cluster, |socket| socket.set_tcp_mss(536).unwrap());
        let (mut seen, start) = (Seen::default(), Instant::now());
        stream.write_all(&gets(&message, COUNT, WIDE)).unwrap();
        while seen.ended < COUNT {
            assert!(seen.read(&mut stream), "turn {turn}: {} came", seen.ended);
        }
        assert!(start.elapsed() < Duration::from_secs(1), "turn {turn}: {:?}", start.elapsed());
    }
}
