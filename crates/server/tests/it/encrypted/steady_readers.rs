//! Clients that read without a pause, in small segments or slowly. Each is served, and none waits for a timer.

use super::floods::frame;
use super::query;
use super::unread::{IDLE, Patience, WIDE, add_texts, gets};
use crate::support::cluster::Cluster;
use crate::support::dns::{framed, read_message};
use crate::support::encrypted::{Doq, TlsStream, tls, tls_over, trust};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wire::number::Rtype;

/// Concurrent requests of a connection: the maximum.
const COUNT: u32 = 100;
/// Bytes that a client reads at once.
const PIECE: usize = 4 << 10;

/// The time that a slow client takes for this many bytes: 1 MB in three seconds. It reads 5 MB.
const fn pace(bytes: u64) -> Duration {
    Duration::from_micros(3 * bytes)
}

/// An HTTP/2 connection over a socket that `ready` configures before it connects.
fn connect(cluster: &Cluster, ready: impl FnOnce(&Socket)) -> TlsStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    ready(&socket);
    socket.connect(&cluster.doh(1).into()).unwrap();
    tls_over(socket.into(), &Arc::new(trust(cluster, &["h2"]))).unwrap()
}

/// What an HTTP/2 client has received.
#[derive(Default)]
struct ReceivedCounts {
    /// The beginning of an incomplete frame.
    bytes: Vec<u8>,
    /// Total bytes.
    count: u64,
    /// Responses that have ended.
    ended: u32,
    /// Bytes of bodies, counted per complete frame.
    body: u32,
}

impl ReceivedCounts {
    /// Reads once. Returns false when the connection has ended.
    fn read(&mut self, stream: &mut TlsStream) -> bool {
        let mut piece = [0; PIECE];
        let count = stream.read(&mut piece).unwrap_or(0);
        self.count += count as u64;
        self.bytes.extend_from_slice(&piece[..count]);
        while let Some(&[a, b, c, kind, flags, ..]) = self.bytes.get(..9) {
            let len = u32::from_be_bytes([0, a, b, c]);
            let end = 9 + len as usize;
            if self.bytes.len() < end {
                break;
            }
            // DATA and HEADERS may end a stream (RFC 9113 6.1, 6.2).
            self.ended += u32::from(kind <= 1 && flags & 1 == 1);
            self.body += if kind == 0 { len } else { 0 };
            self.bytes.drain(..end);
        }
        count > 0
    }
}

#[test]
fn https_responses_in_small_segments_do_not_stall() {
    let cluster = Cluster::start_encrypted("small-segments", 1);
    add_texts(&cluster, "big.example.test.", 58);
    let message = query("big.example.test.", Rtype::TXT).build();
    let mut fastest = Duration::MAX;
    for turn in 0..5 {
        let mut stream = connect(&cluster, |socket| socket.set_tcp_mss(536).unwrap());
        let (mut seen, start) = (ReceivedCounts::default(), Instant::now());
        stream.write_all(&gets(&message, COUNT, WIDE)).unwrap();
        while seen.ended < COUNT {
            assert!(seen.read(&mut stream), "turn {turn}: {} came", seen.ended);
        }
        println!("turn {turn}: {:?}", start.elapsed());
        fastest = fastest.min(start.elapsed());
    }
    // A wait for a timer would be in every turn. A stall of this machine is not.
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}

#[test]
fn a_slow_https_client_is_served() {
    let node = Patience::start("slow-doh");
    // Either its socket buffer is small, or its window is narrow. With segments this small, the kernel buffers little
    // for it. The server cannot see when buffered data leaves the kernel.
    let read_slowly = |window| {
        let mut stream = connect(&node.cluster, |socket| {
            socket.set_tcp_mss(536).unwrap();
            socket.set_recv_buffer_size(16 << 10).unwrap();
        });
        let (mut seen, mut opened, start) = (ReceivedCounts::default(), 0, Instant::now());
        stream.write_all(&gets(&node.message, COUNT, window)).unwrap();
        while seen.ended < COUNT {
            assert!(seen.read(&mut stream), "window {window}: {} after {:?}", seen.ended, start.elapsed());
            std::thread::sleep(pace(seen.count).saturating_sub(start.elapsed()));
            if window == 0 && seen.body > opened {
                stream.write_all(&frame(8, 0, 0, &(seen.body - opened).to_be_bytes())).unwrap();
                opened = seen.body;
            }
        }
        assert!(start.elapsed() > 2 * IDLE, "no slow client: {:?}", start.elapsed());
    };
    std::thread::scope(|scope| {
        for window in [WIDE, 0] {
            scope.spawn(move || read_slowly(window));
        }
    });
    node.cut("doh", 0);
}

/// The kernel buffers megabytes for a fast client. When the client becomes slow, it seems to stand still until these
/// are sent.
#[test]
fn a_client_that_slows_down_is_still_served() {
    let node = Patience::start("slow-tcp");
    // The receive buffer is bounded: the kernel opens the window again after a sixteenth of it is read. By default it
    // could hold 32 MB.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(1 << 20).unwrap();
    socket.connect(&node.cluster.dns(1).into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let (mut sends, requests) = (stream.try_clone().unwrap(), framed(&node.message).repeat(3_000));
    // More requests than the test reads. The thread ends with the test.
    std::thread::spawn(move || drop(sends.write_all(&requests)));
    let mut piece = vec![0; 64 << 10];
    let mut quick = 0;
    while quick < 40_000_000 {
        quick += stream.read(&mut piece).unwrap();
    }
    // 0.18 MB a second: a third of 4 MB takes longer than the server's timeout.
    let (mut slow, start) = (0, Instant::now());
    while start.elapsed() < 5 * IDLE {
        let count = stream.read(&mut piece[..PIECE]).unwrap_or(0);
        assert!(count > 0, "it was cut off after {:?}, {slow} bytes", start.elapsed());
        slow += count;
        std::thread::sleep(Duration::from_micros(slow as u64 * 100 / 18).saturating_sub(start.elapsed()));
    }
    node.cut("tcp", 0);
}

/// The client sends nothing more. Only TCP shows that, without a TLS alert before. Its requests are still answered.
#[test]
fn a_half_closed_tls_client_gets_all_responses() {
    let node = Patience::start("half-dot");
    for turn in 0..5 {
        let mut stream = tls(node.cluster.dot(1), &Arc::new(trust(&node.cluster, &["dot"]))).unwrap();
        stream.write_all(&framed(&node.message).repeat(COUNT as usize)).unwrap();
        stream.sock.shutdown(Shutdown::Write).unwrap();
        for count in 0..COUNT {
            // Responses that the client has not read when its end is seen wait at the server.
            std::thread::sleep(Duration::from_millis(2));
            let message = read_message(&mut stream);
            assert!(message.as_ref().is_ok_and(|message| message.len() > 50_000), "turn {turn}: {count}: {message:?}");
        }
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server sent more data");
    }
}

#[test]
fn an_https_client_that_opens_no_window_is_closed() {
    let node = Patience::start("shut-doh");
    let mut stream = connect(&node.cluster, |_| {});
    stream.write_all(&gets(&node.message, COUNT, 0)).unwrap();
    let (mut seen, start) = (ReceivedCounts::default(), Instant::now());
    while stream.write_all(&frame(6, 0, 0, &[0; 8])).is_ok() && seen.read(&mut stream) {
        assert!(start.elapsed() < 6 * IDLE, "the connection is still open");
        std::thread::sleep(Duration::from_millis(100));
    }
    node.cut("doh", 1);
}

#[test]
fn a_slow_quic_client_is_served() {
    let node = Patience::start("slow-doq");
    let doq = Doq::connect(node.cluster.dot(1), trust(&node.cluster, &["doq"])).unwrap();
    let start = Instant::now();
    doq.wait_long(async {
        let read = Arc::new(AtomicU64::new(0));
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..90 {
            let (mut send, mut receive) = doq.connection.open_bi().await.unwrap();
            send.write_all(&framed(&node.message)).await.unwrap();
            send.finish().unwrap();
            let read = read.clone();
            all.spawn(async move {
                let mut bytes = 0;
                while let Some(chunk) = receive.read_chunk(PIECE, true).await? {
                    bytes += chunk.bytes.len();
                    let count = read.fetch_add(chunk.bytes.len() as u64, Relaxed);
                    tokio::time::sleep(pace(count).saturating_sub(start.elapsed())).await;
                }
                Ok::<_, quinn::ReadError>(bytes)
            });
        }
        while let Some(bytes) = all.join_next().await {
            let bytes = bytes.unwrap();
            assert!(bytes.as_ref().is_ok_and(|bytes| *bytes > 50_000), "{bytes:?} after {:?}", start.elapsed());
        }
    });
    assert!(start.elapsed() > 2 * IDLE, "no slow client: {:?}", start.elapsed());
    node.cut("doq", 0);
}
