//! DNS over QUIC beside a flooding connection, with slow clients, and across a restart.

use super::*;
use crate::listen::echo::{Echo, LARGE, LATE, LATE_AFTER, Server};
use crate::listen::{Transport, flood};
use crate::tls::client_secrets::ClientSecrets;
use crate::tls::public::PublicTls;
use config::Tcp;
use config::tls::{Tls, Version};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

type Certificate = rcgen::CertifiedKey<rcgen::KeyPair>;

async fn serve_all(certificate: &Certificate, handler: TransportHandler<Echo>, listens: oneshot::Sender<SocketAddr>) {
    serve_at("127.0.0.1:0".parse().unwrap(), 0, certificate, handler, listens).await;
}

/// Serves `address` as the endpoint with this number.
async fn serve_at(
    address: SocketAddr,
    number: usize,
    certificate: &Certificate,
    handler: TransportHandler<Echo>,
    listens: oneshot::Sender<SocketAddr>,
) {
    let dir = process::testing::test_dir(&format!("doq-{:?}", std::thread::current().id()));
    let (cert_file, key_file) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert_file, certificate.cert.pem()).unwrap();
    std::fs::write(&key_file, certificate.signing_key.serialize_pem()).unwrap();
    let tls = Tls { cert_file, key_file, dot: vec![], doh: vec![], doq: vec![], versions: vec![Version::Tls13] };
    let tls = PublicTls::load(&tls, &ClientSecrets::of_key(&[7; 32]), handler.limits.idle, Arc::default()).unwrap();
    let socket = std::net::UdpSocket::bind(address).unwrap();
    let config = tls.endpoint(1, socket.local_addr().unwrap(), number);
    let endpoint = Endpoint::new(config, Some(tls.doq), socket, Arc::new(quinn::TokioRuntime)).unwrap();
    listens.send(endpoint.local_addr().unwrap()).unwrap();
    DoqService::new(handler).accept(endpoint).await;
}

async fn connect(certificate: CertificateDer<'static>, address: SocketAddr) -> Connection {
    connect_with(quinn::TransportConfig::default(), certificate, address).await
}

async fn connect_with(
    transport: quinn::TransportConfig,
    certificate: CertificateDer<'static>,
    address: SocketAddr,
) -> Connection {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let mut tls = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"doq".to_vec()];
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.connect_with(config, address, "localhost").unwrap().await.unwrap()
}

async fn ask(connection: Connection, message: Vec<u8>) -> Option<Vec<u8>> {
    let (mut send, mut receive) = connection.open_bi().await.ok()?;
    let mut framed = Vec::new();
    stream::frame(&message, &mut framed);
    send.write_all(&framed).await.ok()?;
    // The end of the stream arrives later, so the server answers the query in a separate task.
    tokio::task::yield_now().await;
    send.finish().ok()?;
    let response = receive.read_to_end(framed.len()).await.ok()?;
    Some(response[2..].to_vec())
}

#[test]
fn a_flooding_connection_does_not_starve_others() {
    let certificate = Arc::new(rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap());
    let shown = certificate.cert.der().clone();
    let serve = async move |handler, listens| serve_all(&certificate, handler, listens).await;
    flood::check(Transport::Doq, serve, move |address| connect(shown.clone(), address), ask);
}

/// A client that waits for a response sends no packets and is not idle. After the response it is.
#[test]
fn a_client_that_waits_for_a_response_is_not_idle() {
    const IDLE: Duration = Duration::from_millis(150);
    let certificate = Arc::new(rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap());
    let shown = certificate.cert.der().clone();
    let serve = async move |handler, listens| serve_all(&certificate, handler, listens).await;
    let idle_ms = IDLE.as_millis() as u64;
    let server = Server::start(Transport::Doq, &Tcp { idle_ms, ..Tcp::default() }, serve);
    let cuts = || server.connections.of(Transport::Doq).closed(CloseReason::Idle);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let connection = connect(shown, server.address).await;
        let start = Instant::now();
        let message = vec![0, 0, LATE];
        assert_eq!(ask(connection.clone(), message.clone()).await, Some(message));
        assert!(start.elapsed() >= LATE_AFTER && cuts() == 0);
        let ended = connection.closed().await;
        assert!(matches!(ended, ConnectionError::ApplicationClosed(_)), "{ended}");
        assert!(start.elapsed() < LATE_AFTER + Duration::from_secs(3), "after {:?}", start.elapsed());
    });
    assert_eq!(cuts(), 1);
}

#[test]
fn a_client_that_reads_too_slowly_is_closed() {
    let certificate = Arc::new(rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap());
    // Bytes that are read every 50 ms: 160 and 16,000 bytes/s.
    for (bytes, is_cut) in [(8u32, true), (800, false)] {
        let (theirs, shown) = (certificate.clone(), certificate.cert.der().clone());
        let serve = async move |handler, listens| serve_all(&theirs, handler, listens).await;
        let server = Server::start(Transport::Doq, &Tcp { idle_ms: 200, ..Tcp::default() }, serve);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut transport = quinn::TransportConfig::default();
            transport.stream_receive_window(bytes.into());
            let connection = connect_with(transport, shown, server.address).await;
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(&[0, 3, 0, 0, LARGE]).await.unwrap();
            send.finish().unwrap();
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(2) && receive.read_chunk(bytes as usize, true).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let cuts = server.connections.of(Transport::Doq).closed(CloseReason::SlowReader);
            assert_eq!((connection.close_reason().is_some(), cuts), (is_cut, u64::from(is_cut)), "{bytes} bytes");
        });
    }
}

/// RFC 9000 10.3: the restarted server answers packets of the old connection with a stateless reset.
#[test]
fn a_client_gets_a_stateless_reset_after_a_restart() {
    let certificate = Arc::new(rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap());
    let start = |address: SocketAddr, number: usize| {
        let certificate = certificate.clone();
        let serve = async move |handler, listens| serve_at(address, number, &certificate, handler, listens).await;
        Server::start(Transport::Doq, &Tcp::default(), serve)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // RFC 9000 21.11: each endpoint has its own key. With a shared key, anyone who sees a connection could reset it
    // through another endpoint.
    for (number, is_reset) in [(3, true), (4, false)] {
        let server = start("127.0.0.1:0".parse().unwrap(), 3);
        let address = server.address;
        let connection = runtime.block_on(connect(certificate.cert.der().clone(), address));
        let message = vec![0, 0, 7];
        assert_eq!(runtime.block_on(ask(connection.clone(), message.clone())), Some(message.clone()));
        // The server ends as by `kill -9`, without closing connections.
        drop(server);
        let _server = start(address, number);
        let ended = runtime.block_on(async {
            let _response = tokio::time::timeout(Duration::from_millis(300), ask(connection.clone(), message)).await;
            connection.close_reason()
        });
        assert_eq!(ended == Some(ConnectionError::Reset), is_reset, "{number}: {ended:?}");
    }
}

/// QUIC keeps responses until they are acknowledged. They count as memory of the connection.
#[test]
fn unacknowledged_responses_count_as_memory() {
    const COUNT: usize = 3;
    let certificate = Arc::new(rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap());
    let shown = certificate.cert.der().clone();
    let serve = async move |handler, listens| serve_all(&certificate, handler, listens).await;
    let server = Server::start(Transport::Doq, &Tcp::default(), serve);
    // The client only acts while this runtime runs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connection = runtime.block_on(connect(shown, server.address));
    let before = server.limits.memory_used();
    let most = before + COUNT * 60_000;
    let mut streams = runtime.block_on(async {
        let mut streams = Vec::new();
        for _ in 0..COUNT {
            let (mut send, receive) = connection.open_bi().await.unwrap();
            send.write_all(&[0, 3, 0, 0, LARGE]).await.unwrap();
            send.finish().unwrap();
            streams.push(receive);
        }
        // Runs the client until its queries are answered.
        let start = Instant::now();
        while server.limits.memory_used() < most && start.elapsed() < Duration::from_secs(5) {
            tokio::task::yield_now().await;
        }
        streams
    });
    std::thread::sleep(Duration::from_millis(200));
    assert!(server.limits.memory_used() >= most, "{} bytes of {most}", server.limits.memory_used());
    runtime.block_on(async {
        for receive in &mut streams {
            assert_eq!(receive.read_to_end(70_000).await.unwrap().len(), 65_537);
        }
        // The client sends its acknowledgements.
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    let start = Instant::now();
    while server.limits.memory_used() > before {
        assert!(start.elapsed() < Duration::from_secs(5), "{} bytes are kept", server.limits.memory_used());
        std::thread::sleep(Duration::from_millis(10));
    }
}
