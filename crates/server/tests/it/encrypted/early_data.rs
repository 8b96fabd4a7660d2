//! Clients that send a query before the handshake is complete (0-RTT), although no ticket of the server allows it. An
//! attacker can replay such data, so the server ignores it (RFC 8446 8, RFC 9250 4.5).

use super::floods::frame;
use super::query;
use crate::support::cluster::Cluster;
use crate::support::dns::framed;
use crate::support::encrypted::{Doh, Doq, TlsStream, ask, server_name, tls, trust};
use rustls::client::Tls13ClientSessionValue;
use rustls::client::{ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, NamedGroup, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use wire::number::Rtype;

/// A session store that marks every ticket as allowing early data.
#[derive(Debug)]
struct Forged {
    inner: ClientSessionMemoryCache,
    size: u32,
    /// The real early data limit of the newest ticket.
    max_early_data: AtomicU32,
}

impl ClientSessionStore for Forged {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.inner.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.inner.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.inner.set_tls12_session(server, session);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.inner.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.inner.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, mut ticket: Tls13ClientSessionValue) {
        self.max_early_data.store(ticket.max_early_data_size(), Ordering::SeqCst);
        ticket._private_set_max_early_data_size(self.size);
        self.inner.insert_tls13_ticket(server, ticket);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.inner.take_tls13_ticket(server)
    }
}

fn forging(cluster: &Cluster, protocol: &str, size: u32) -> (ClientConfig, Arc<Forged>) {
    let store =
        Arc::new(Forged { inner: ClientSessionMemoryCache::new(8), size, max_early_data: AtomicU32::new(u32::MAX) });
    let mut config = trust(cluster, &[protocol]);
    config.enable_early_data = true;
    config.resumption = Resumption::store(store.clone());
    (config, store)
}

#[test]
fn early_data_is_ignored() {
    let cluster = Cluster::start_encrypted("early-data", 1);
    let message = query("www.example.test.", Rtype::A).build();
    let request_count =
        |transport| cluster.metric(1, &format!("catamaran_requests_total{{transport=\"{transport}\"}}"));

    let (config, store) = forging(&cluster, "dot", 16_384);
    let config = Arc::new(config);
    let mut stream = tls(cluster.dot(1), &config).unwrap();
    assert!(ask(&mut stream, &message).is_ok());
    assert_eq!(store.max_early_data.load(Ordering::SeqCst), 0, "the ticket allows early data");
    drop(stream);
    let mut connection = ClientConnection::new(config, server_name()).unwrap();
    connection.early_data().expect("the client believes that it may").write_all(&framed(&message)).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(cluster.dot(1)).unwrap());
    stream.conn.complete_io(&mut stream.sock).unwrap();
    assert_eq!(stream.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(!stream.conn.is_early_data_accepted());
    // The connection continues as usual. Only the query after the handshake was counted.
    assert_eq!(request_count("dot"), 1);
    assert!(ask(&mut stream, &message).is_ok());
    assert_eq!(request_count("dot"), 2);

    // Over QUIC a ticket allows all early data or none (RFC 9001 4.6.1).
    let (config, store) = forging(&cluster, "doq", u32::MAX);
    assert!(Doq::connect(cluster.dot(1), config.clone()).unwrap().ask(&message).is_ok());
    assert_eq!(store.max_early_data.load(Ordering::SeqCst), 0);
    let (doq, is_accepted) = Doq::connect_early(cluster.dot(1), config, &framed(&message));
    assert!(!is_accepted);
    assert_eq!(request_count("doq"), 1);
    assert!(doq.ask(&message).is_ok());
    assert_eq!(request_count("doq"), 2);
    assert_eq!(cluster.metric(1, "catamaran_handshakes_resumed_total{transport=\"doq\"}"), 1);
}

/// The start of an HTTP/2 connection, and a query with GET on its first stream (RFC 9113 3.4, RFC 7541 6).
fn get(message: &[u8]) -> Vec<u8> {
    let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(message));
    // `:method: GET`, `:scheme: https`, `:path:`.
    let headers = [&[0x82, 0x87, 0x04, target.len() as u8], target.as_bytes()].concat();
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[]), &frame(1, 0x5, 1, &headers)].concat()
}

/// The first byte of the response headers on the first stream, and the body.
fn got(stream: &mut TlsStream) -> (u8, Vec<u8>) {
    let (mut status, mut body) = (0, Vec::new());
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).unwrap();
        match (head[3], head[8]) {
            (1, 1) => status = payload[0],
            (0, 1) => body.extend(payload),
            _ => continue,
        }
        if head[4] & 1 != 0 {
            return (status, body);
        }
    }
}

/// RFC 8470 5.2: 425 (Too Early) is for a server that accepts early data. With any other server, the client repeats its
/// request after the handshake, and gets the usual response.
#[test]
fn an_early_https_request_is_ignored_and_sent_again() {
    /// `:status: 200` (RFC 7541, appendix A).
    const OK: u8 = 0x88;
    let cluster = Cluster::start_encrypted("early-https", 1);
    let message = query("www.example.test.", Rtype::A).build();
    let request_count = || cluster.metric(1, "catamaran_requests_total{transport=\"doh\"}");

    let (config, store) = forging(&cluster, "h2", 16_384);
    let want = Doh::connect(cluster.doh(1), config.clone()).get(&message).unwrap();
    assert_eq!((want.status, store.max_early_data.load(Ordering::SeqCst)), (200, 0), "the ticket allows early data");
    assert_eq!(request_count(), 1);
    let mut connection = ClientConnection::new(Arc::new(config), server_name()).unwrap();
    connection.early_data().expect("the client believes that it may").write_all(&get(&message)).unwrap();
    let mut stream = StreamOwned::new(connection, TcpStream::connect(cluster.doh(1)).unwrap());
    stream.conn.complete_io(&mut stream.sock).unwrap();
    assert_eq!(stream.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(!stream.conn.is_early_data_accepted());
    stream.write_all(&get(&message)).unwrap();
    assert_eq!(got(&mut stream), (OK, want.body));
    // One query was counted each time.
    assert_eq!(request_count(), 2);
    assert_eq!(cluster.metric(1, "catamaran_http_bad_requests_total"), 0);
    assert_eq!(cluster.metric(1, "catamaran_handshakes_resumed_total{transport=\"doh\"}"), 1);
}
