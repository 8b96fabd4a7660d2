//! Clients that do not read, or do not finish what they begin. Their connections are closed, and memory stays bounded.

use super::floods::frame;
use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{Transport, exchange, framed};
use crate::support::encrypted::{Doq, QuicError, TlsStream, WAIT, tls, tls_over, trust};
use crate::support::message::{name, sign};
use crate::support::rss::Growth;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Connections over TLS whose responses are not read.
const UNREAD: u64 = 8;
/// Maximum growth for them: 1 MiB each, and the allocator's overhead.
const GROWTH_KIB_MAX: u64 = 64 << 10;

/// Adds this many texts to a name, each a record of 262 bytes in an answer.
pub(super) fn add_texts(cluster: &Cluster, owner: &str, count: usize) {
    let (key, owner) = (cluster.client_key(), name(owner));
    let texts: Vec<Vec<u8>> = (0..count).map(|index| [&[249], format!("{index:0249}").as_bytes()].concat()).collect();
    for part in texts.chunks(40) {
        let update = MessageBuilder::update(0, name("example.test.").as_ref());
        let update = part.iter().fold(update, |update, text| update.add(owner.as_ref(), Rtype::TXT, 60, text)).build();
        let response = exchange(Transport::Tcp, cluster.dns(1), &sign(&key, update, 0), WAIT).unwrap();
        assert_eq!(response[3] & 0x0F, 0);
    }
}

/// The bytes of an HTTP/2 client that sends `count` requests at once, with a wide window for each response. `window` is
/// added to the window of the connection.
pub(super) fn gets(message: &[u8], count: u32, window: u32) -> Vec<u8> {
    let settings = [&[0, 4][..], &0x7FFF_FFFFu32.to_be_bytes()].concat();
    let mut bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &settings)].concat();
    if window > 0 {
        bytes.extend(frame(8, 0, 0, &window.to_be_bytes()));
    }
    let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(message));
    let headers = [&[0x82, 0x87, 0x04, target.len() as u8], target.as_bytes()].concat();
    for index in 0..count {
        bytes.extend(frame(1, 0x5, 2 * index + 1, &headers));
    }
    bytes
}

/// A window that no test fills.
pub(super) const WIDE: u32 = 0x7FFF_0000;

/// The timeout of [`Patience`]. It is longer than a stall of this machine, which may not end a connection.
pub(super) const IDLE: Duration = Duration::from_secs(5);

/// A node with a short timeout, and a response of 50 KiB.
pub(super) struct Patience {
    pub(super) cluster: Cluster,
    pub(super) message: Vec<u8>,
    growth: Growth,
}

impl Patience {
    pub(super) fn start(test: &str) -> Self {
        let mut cluster = Cluster::start_encrypted(test, 1);
        cluster.end("TERM");
        cluster.configure(1, "idle_ms = 10000", &format!("idle_ms = {}", IDLE.as_millis()));
        cluster.resume_encrypted();
        add_texts(&cluster, "big.example.test.", 200);
        let growth = Growth::start(cluster.pid(1).unwrap());
        Self { cluster, message: query("big.example.test.", Rtype::TXT).build(), growth }
    }

    /// Waits until this many connections of a transport were closed, and checks the peak of the memory.
    pub(super) fn cut(&self, transport: &str, count: u64) {
        let series = format!("catamaran_connections_closed_total{{transport=\"{transport}\",reason=\"slow_reader\"}}");
        wait_for("the cut", || (self.cluster.metric(1, &series) == count).then_some(()));
        let (before, grown) = (self.growth.before_kib, self.growth.peak_kib());
        assert!(grown < GROWTH_KIB_MAX, "{before} KiB grew by {grown} KiB");
    }
}

#[test]
fn tls_clients_that_do_not_read_are_closed() {
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
fn an_https_client_that_does_not_read_is_closed() {
    let node = Patience::start("unread-doh");
    // Its windows are wide, and its socket buffer is small. It sends the maximum number of concurrent requests.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&node.cluster.doh(1).into()).unwrap();
    let mut stream = tls_over(socket.into(), &Arc::new(trust(&node.cluster, &["h2"]))).unwrap();
    stream.write_all(&gets(&node.message, 100, WIDE)).unwrap();
    node.cut("doh", 1);
}

#[test]
fn quic_clients_that_do_not_read_or_finish_are_closed() {
    let node = Patience::start("unread-doq");
    let too_slow = QuicError::Closed(4, "too slow".into());
    let connect = || Doq::connect(node.cluster.dot(1), trust(&node.cluster, &["doq"])).unwrap();
    let doq = connect();
    let ended = doq.wait_long(async {
        let (mut send, _receive) = doq.connection.open_bi().await.unwrap();
        send.write_all(&framed(&node.message)[..10]).await.unwrap();
        doq.connection.closed().await
    });
    assert_eq!(QuicError::from(ended), too_slow, "DOQ_EXCESSIVE_LOAD");
    let doq = connect();
    let ended = doq.wait_long(async {
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
