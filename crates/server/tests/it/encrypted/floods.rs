//! Clients that attack. Each gets the response that the rules require. Meanwhile other clients are answered, and memory
//! stays bounded.

use super::query;
use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::{Transport, exchange, tcp_from};
use crate::support::encrypted::{Doh, Doq, TlsStream, WAIT, ask, tls, tls_from, trust};
use crate::support::legitimate::{Legitimate, Phase, RATE, assert_left, in_turn};
use crate::support::open_files::may_open;
use crate::support::rss::Growth;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::number::Rtype;

/// Idle connections of each kind.
const IDLE_TCP: usize = 10_000;
const IDLE_TLS: usize = 300;
/// Handshakes that begin and are never finished. More than one client may have.
const HALF_OPEN: usize = 600;
/// All of them, if the server is slow.
const HALF_OPEN_MAX: usize = 1_200;
/// First packets of QUIC whose senders never send again.
const FORGED: usize = 200;
/// How long the other client's rate is measured before and after the attack.
const STILL: Duration = Duration::from_secs(1);
/// The part of its rate that the other client must keep.
const LEFT_MIN: f64 = 0.9;
/// Files that this process has open then.
const FILES: u64 = 12_000;
/// Memory that connections may cost the node, set in its configuration: room for all of these.
const MEMORY_KIB_MAX: u64 = 160 << 10;

/// First packets of QUIC handshakes, each of another connection.
fn first_packets(cluster: &Cluster) -> Vec<Vec<u8>> {
    let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    sink.set_read_timeout(Some(WAIT)).unwrap();
    let to = sink.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(trust(cluster, &["doq"])).unwrap();
    let endpoint = runtime.block_on(async {
        let mut endpoint = quinn::Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
        endpoint
    });
    let mut packets = std::collections::BTreeMap::new();
    while packets.len() < FORGED {
        // No more at once than the socket holds. Otherwise all clients would resend at the same time, and the same
        // packets would be lost.
        let wanted = FORGED.min(packets.len() + 20);
        let connect = |_| endpoint.connect(to, "localhost").unwrap();
        let _connecting: Vec<_> = runtime.block_on(async { (packets.len()..wanted).map(connect).collect() });
        while packets.len() < wanted {
            let mut bytes = vec![0; 2_048];
            let len = sink.recv(&mut bytes).unwrap();
            bytes.truncate(len);
            // After flags and version: the length of the client's connection ID, and the ID.
            let id = bytes[6..6 + usize::from(bytes[5])].to_vec();
            packets.entry(id).or_insert(bytes);
        }
    }
    packets.into_values().collect()
}

/// Begins handshakes that never end, from one address, until the server refuses some.
fn begin_handshakes(cluster: &Cluster) -> Vec<TcpStream> {
    let begin = |index: usize| {
        let to = if index.is_multiple_of(2) { cluster.dot(1) } else { cluster.doh(1) };
        let mut stream = tcp_from(Ipv4Addr::new(127, 0, 0, 4), to).unwrap();
        // Only the header of a record with a ClientHello.
        let _ = stream.write_all(&[0x16, 3, 1, 1, 0, 1, 0]);
        stream
    };
    let mut half_open: Vec<TcpStream> = (0..HALF_OPEN).map(begin).collect();
    let over = "catamaran_handshakes_failed_total{transport=\"";
    let refused = |transport| cluster.metric(1, &format!("{over}{transport}\",reason=\"over_limit\"}}"));
    wait_for("refusals", || {
        // A slow server times out handshakes before it has accepted the last ones.
        if half_open.len() < HALF_OPEN_MAX {
            half_open.extend((0..40).map(begin));
        }
        (refused("dot") + refused("doh") >= 88).then_some(())
    });
    half_open
}

/// Sends forged first packets until the server has answered many of them with Retry. Returns their sockets.
fn send_first_packets(cluster: &Cluster) -> Vec<UdpSocket> {
    let packets = first_packets(cluster);
    let socket = |_| UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 5), 0)).unwrap();
    let sockets: Vec<UdpSocket> = packets.iter().map(socket).collect();
    wait_for("Retry", || {
        // The socket of a slow server has no room for all of them at once.
        for (socket, packet) in sockets.iter().zip(&packets) {
            socket.send_to(packet, cluster.dot(1)).unwrap();
        }
        (cluster.metric(1, "catamaran_quic_retries_total") > 50).then_some(())
    });
    sockets
}

/// A node whose connections may use this much memory.
fn with_memory(test: &str, kib: u64) -> Cluster {
    let mut cluster = Cluster::start_encrypted(test, 1);
    cluster.end("TERM");
    cluster.configure(1, "memory_bytes_max = 1073741824", &format!("memory_bytes_max = {}", kib << 10));
    cluster.resume_encrypted();
    cluster
}

#[test]
fn connections_use_no_more_memory_than_configured() {
    const KIB_MAX: u64 = 24 << 10;
    /// Far more connections of each kind than there is room for.
    const EACH: usize = 500;
    let mut cluster = with_memory("memory", KIB_MAX);
    // No idle connection is closed, even with little room left.
    cluster.end("TERM");
    cluster.configure(1, "idle_ms = 10000", "idle_ms = 600000");
    cluster.resume_encrypted();
    let (message, pid) = (query("www.example.test.", Rtype::A).build(), cluster.pid(1).unwrap());
    let config = Arc::new(trust(&cluster, &["h2"]));
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    let connect = || {
        let mut stream = tls(cluster.doh(1), &config)?;
        stream.write_all(&preface)?;
        // Its first frame means that the server has allocated everything that it keeps for a connection.
        stream.read_exact(&mut [0; 9])?;
        Ok::<TlsStream, std::io::Error>(stream)
    };
    // The first connection also has one-time costs.
    drop(connect().unwrap());
    wait_for("no connection", || (cluster.metric(1, "catamaran_connections_open") == 0).then_some(()));
    let growth = Growth::start(pid);
    let open: Vec<TlsStream> = (0..EACH).filter_map(|_| connect().ok()).collect();
    let cut = |transport| {
        cluster.metric(1, &format!("catamaran_connections_closed_total{{transport=\"{transport}\",reason=\"memory\"}}"))
    };
    let (before, grown) = (growth.before_kib, growth.peak_kib());
    println!("{} of {EACH} connections took {grown} KiB of {KIB_MAX} KiB", open.len());
    assert!(grown < KIB_MAX, "{before} KiB grew by {grown} KiB");
    // One client may use at most half of the memory. Connections beyond that were counted.
    let room = KIB_MAX / 2 / 92;
    assert_eq!((open.len() as u64, cut("doh")), (room, EACH as u64 - room));
    // The client has no room over another transport either, once it has used the rest. TCP still has room, and UDP
    // works as before.
    let dot = Arc::new(trust(&cluster, &["dot"]));
    let more: Vec<TlsStream> = std::iter::from_fn(|| tls(cluster.dot(1), &dot).ok()).collect();
    assert!(Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).is_err());
    wait_for("the counter", || (cut("doq") == 1).then_some(()));
    // Another client is served, over TCP, TLS and HTTPS.
    let another = Ipv4Addr::new(127, 0, 0, 2);
    assert!(ask(&mut tls_from(another, cluster.dot(1), &dot).unwrap(), &message).is_ok());
    assert!(ask(&mut tcp_from(another, cluster.dns(1)).unwrap(), &message).is_ok());
    tls_from(another, cluster.doh(1), &config).unwrap();
    drop(more);
    assert!(exchange(Transport::Udp, cluster.dns(1), &message, WAIT).is_some());
    wait_for("room for TCP", || exchange(Transport::Tcp, cluster.dns(1), &message, WAIT));
    drop(open);
    wait_for("room", || Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).ok()?.ask(&message).ok());
}

#[test]
fn floods_slow_no_other_client() {
    if !may_open(FILES) {
        return;
    }
    let _turn = in_turn();
    let cluster = with_memory("floods", MEMORY_KIB_MAX);
    let pid = cluster.pid(1).unwrap();
    let message = query("www.example.test.", Rtype::A).build();
    let config = Arc::new(trust(&cluster, &["dot"]));
    let growth = Growth::start(pid);
    let legitimate = Legitimate::start(cluster.dns(1), message.clone());
    std::thread::sleep(STILL);
    legitimate.next();

    // Idle connections from six clients: a single one may not have this many.
    let address = |index: usize| Ipv4Addr::new(127, 0, 1, (index % 6) as u8);
    let idle: Vec<TcpStream> = (0..IDLE_TCP).map(|index| tcp_from(address(index), cluster.dns(1)).unwrap()).collect();
    let idle_tls: Vec<TlsStream> =
        (0..IDLE_TLS).map(|index| tls_from(address(index), cluster.dot(1), &config).unwrap()).collect();
    let half_open = begin_handshakes(&cluster);
    // From the 65th forged first packet on, the server sends Retry. A client that answers it is served.
    let sockets = send_first_packets(&cluster);
    let doq = Doq::connect(cluster.dot(1), trust(&cluster, &["doq"])).unwrap();
    assert!(doq.ask(&message).is_ok());

    // Another client is served, over TCP, TLS and HTTPS, throughout.
    let mut fine = tls(cluster.dot(1), &config).unwrap();
    assert!(ask(&mut fine, &message).is_ok());
    assert_eq!(Doh::connect(cluster.doh(1), trust(&cluster, &["h2"])).get(&message).unwrap().status, 200);
    // The attack is over. The wait that follows is a phase of its own.
    legitimate.next();
    // The client closes a third of all connections now. The server closes the rest.
    drop((half_open, sockets));
    wait_for("the end of idle connections", || (cluster.metric(1, "catamaran_connections_open") <= 10).then_some(()));
    drop((idle, idle_tls));
    legitimate.next();
    std::thread::sleep(STILL);
    let phases = legitimate.finish();
    let (quiet, phase) = ([phases[0], phases[3]], phases[1]);
    let rate = quiet.iter().map(Phase::overall_rate).fold(0.0, f64::max);
    assert!(rate >= RATE / 2.0, "{rate:.0} answers/s are no load: {quiet:?}");
    // On a fast machine all of it takes less than half a second.
    assert!(phase.queried >= 2_000, "{phase:?}");
    assert_left("floods", &quiet, &[phase], LEFT_MIN);
    // Peak during the floods, and while their connections are closed.
    let (before, grown) = (growth.before_kib, growth.peak_kib());
    assert!(grown < MEMORY_KIB_MAX, "{before} KiB grew by {grown} KiB");
    println!("{before} KiB, {grown} KiB more with {IDLE_TCP} + {IDLE_TLS} idle connections and the floods");
    assert_eq!(cluster.metric(1, "catamaran_panics_total"), 0);
}

#[test]
fn repeated_resets_close_the_connection() {
    let cluster = Cluster::start_encrypted("resets", 1);
    let message = query("www.example.test.", Rtype::A).build();
    let error = Doh::connect(cluster.doh(1), trust(&cluster, &["h2"])).reset(1_000, &message).expect("an error");
    // On a busy machine, the kernel may reset the connection before the client reads the reason.
    assert!(error.is_io() || error.reason() == Some(h2::Reason::ENHANCE_YOUR_CALM), "{error:?}");
    let cut = "catamaran_connections_closed_total{transport=\"doh\",reason=\"excess\"}";
    wait_for("the counter", || (cluster.metric(1, cut) == 1).then_some(()));
    assert_eq!(Doh::connect(cluster.doh(1), trust(&cluster, &["h2"])).get(&message).unwrap().status, 200);
}

/// An HTTP/2 frame (RFC 9113 4.1).
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn endless_frames_close_the_connection() {
    let cluster = Cluster::start_encrypted("frames", 1);
    let config = Arc::new(trust(&cluster, &["h2"]));
    let growth = Growth::start(cluster.pid(1).unwrap());
    let start = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    // `:method: POST`, `:scheme: https`, `:path: /dns-query`, `content-type: application/dns-message` (RFC 7541).
    let literal = |name: u8, value: &[u8]| [&[name, value.len() as u8], value].concat();
    let headers = [vec![0x83, 0x87], literal(0x04, b"/dns-query"), literal(0x0F, b"application/dns-message")].concat();
    let mut headers = headers;
    // 31 does not fit into four bits: 15 and a rest of 16.
    let at = headers.iter().position(|byte| *byte == 0x0F).unwrap();
    headers.insert(at + 1, 16);
    let open = frame(1, 0x4, 1, &headers);
    for (what, first, again) in [
        ("CONTINUATION", frame(1, 0, 1, &headers), frame(9, 0, 1, &literal(0x40, b"")[..1])),
        ("CONTINUATION with much in it", frame(1, 0, 1, &headers), frame(9, 0, 1, &vec![0x82; 16_000])),
        ("empty DATA", open.clone(), frame(0, 0, 1, &[])),
        ("PRIORITY of itself", open.clone(), frame(2, 0, 1, &[0, 0, 0, 1, 0])),
        ("a frame that is too long", open.clone(), frame(0, 0, 1, &vec![0; 16_385])),
        ("WINDOW_UPDATE of nothing", open, frame(8, 0, 0, &[0, 0, 0, 0])),
    ] {
        let mut stream = tls(cluster.doh(1), &config).unwrap();
        stream.write_all(&[&start[..], &first].concat()).unwrap();
        // The server may send GOAWAY, or just close the connection. The test reads only after the connection has ended.
        stream.sock.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (begin, mut is_over) = (Instant::now(), false);
        while !is_over && begin.elapsed() < WAIT {
            let many: Vec<u8> = again.repeat((16_000 / again.len()).max(1));
            is_over = stream.write_all(&many).is_err();
            match stream.read(&mut [0; 4_096]) {
                Ok(0) => is_over = true,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => is_over = true,
                _ => {}
            }
        }
        assert!(is_over, "{what} went on for {:?}", begin.elapsed());
    }
    let (before, grown) = (growth.before_kib, growth.peak_kib());
    println!("{before} KiB grew by {grown} KiB");
    assert!(grown < (32 << 10), "{before} KiB grew by {grown} KiB");
    let message = query("www.example.test.", Rtype::A).build();
    assert_eq!(Doh::connect(cluster.doh(1), trust(&cluster, &["h2"])).get(&message).unwrap().status, 200);
}
