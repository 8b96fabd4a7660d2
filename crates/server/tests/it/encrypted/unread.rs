//! Clients that do not read, or do not end what they begin. Each is cut off, and memory stays bounded.

use super::floods::frame;
use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::encrypted::{Doq, QuicError, TlsStream, WAIT, framed, tls, tls_over, trust};
use crate::support::message::{name, sign};
use crate::support::nodes::resident_kib;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Connections over TLS whose responses are not read.
const UNREAD: u64 = 8;
/// What they may cost: 1 MiB each, and what the allocator keeps.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// A node that has patience for a second and a half, and a response of 50 KiB.
struct Patience {
    cluster: Cluster,
    message: Vec<u8>,
    before_kib: u64,
}

impl Patience {
    fn start(test: &str) -> Self {
        let mut cluster = Cluster::start_encrypted(test, 1);
        cluster.end("TERM");
        cluster.configure(1, "idle_ms = 10000", "idle_ms = 1500");
        cluster.resume_encrypted();
        let key = cluster.client_key();
        for part in 0..5 {
            let texts = (0..40).map(|index| [&[249], format!("{:0249}", 100 * part + index).as_bytes()].concat());
            let update = MessageBuilder::update(0, name("example.test.").as_ref());
            let big = name("big.example.test.");
            let update = texts.fold(update, |update, text| update.add(big.as_ref(), Rtype::TXT, 60, &text)).build();
            let response = exchange(Transport::Tcp, cluster.dns(1), &sign(&key, update, 0), WAIT).unwrap();
            assert_eq!(response[3] & 0x0F, 0);
        }
        let before_kib = resident_kib(cluster.pid(1).unwrap());
        Self { cluster, message: query("big.example.test.", Rtype::TXT).build(), before_kib }
    }

    /// Waits until so many connections of a transport were cut off, and looks at memory.
    fn cut(&self, transport: &str, count: u64) {
        let series = format!("catamaran_connections_cut_total{{transport=\"{transport}\",reason=\"slow_reader\"}}");
        wait_for("the cut", || (self.cluster.metric(1, &series) == count).then_some(()));
        let (before, after) = (self.before_kib, resident_kib(self.cluster.pid(1).unwrap()));
        assert!(after < before + GROWTH_KIB_MAX, "{before} KiB grew to {after} KiB");
    }
}

#[test]
fn clients_of_tls_that_do_not_read_are_cut_off() {
    let node = Patience::start("unread-dot");
    let many = framed(&node.message).repeat(64);
    let config = Arc::new(trust(&node.cluster, &["dot"]));
    let _unread: Vec<TlsStream> = (0..UNREAD)
        .map(|_| {
            let mut stream = tls(node.cluster.dot(1), &config).unwrap();
            stream.sock.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            let start = Instant::now();
            while stream.write_all(&many).is_ok() && start.elapsed() < Duration::from_secs(1) {}
            stream
        })
        .collect();
    node.cut("dot", UNREAD);
}

#[test]
fn a_client_of_https_that_does_not_read_is_cut_off() {
    let node = Patience::start("unread-doh");
    // Its windows are open wide, its socket takes next to nothing. As many requests as may be open.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&node.cluster.doh(1).into()).unwrap();
    let mut stream = tls_over(socket.into(), &Arc::new(trust(&node.cluster, &["h2"]))).unwrap();
    let settings = [&[0, 4][..], &0x7FFF_FFFFu32.to_be_bytes()].concat();
    let window = frame(8, 0, 0, &0x7FFF_0000u32.to_be_bytes());
    let start = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &settings), window].concat();
    stream.write_all(&start).unwrap();
    let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(&node.message));
    let headers = [&[0x82, 0x87, 0x04, target.len() as u8], target.as_bytes()].concat();
    for id in (1..200).step_by(2) {
        stream.write_all(&frame(1, 0x5, id, &headers)).unwrap();
    }
    node.cut("doh", 1);
}

#[test]
fn clients_of_quic_that_do_not_read_or_do_not_end_are_cut_off() {
    let node = Patience::start("unread-doq");
    let too_slow = QuicError::Closed(4, "too slow".into());
    let connect = || Doq::connect(node.cluster.dot(1), trust(&node.cluster, &["doq"])).unwrap();
    let doq = connect();
    let ended = doq.wait(async {
        let (mut send, _receive) = doq.connection.open_bi().await.unwrap();
        send.write_all(&framed(&node.message)[..10]).await.unwrap();
        doq.connection.closed().await
    });
    assert_eq!(QuicError::from(ended), too_slow, "DOQ_EXCESSIVE_LOAD");
    let doq = connect();
    let ended = doq.wait(async {
        let mut unread = Vec::new();
        for _ in 0..90 {
            let (mut send, receive) = doq.connection.open_bi().await.unwrap();
            send.write_all(&framed(&node.message)).await.unwrap();
            send.finish().unwrap();
            unread.push(receive);
        }
        doq.connection.closed().await
    });
    assert_eq!(QuicError::from(ended), too_slow, "DOQ_EXCESSIVE_LOAD");
    node.cut("doq", 2);
}
