//! Clients for DNS over TLS, HTTPS and QUIC, built on the libraries so that a test can break every rule.

use super::cluster::Cluster;
use super::dns::{framed, read_message, tcp_from};
use super::unruly::UnrulyQuicConfig;
use bytes::Bytes;
use http::{HeaderMap, Request};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ConnectionError, ReadToEndError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Time limit of a client.
pub(crate) const WAIT: Duration = Duration::from_secs(10);

/// Requests that an HTTPS client may cancel before its connection is closed.
const RESETS_BORNE: usize = 100;

/// A client that trusts the cluster's CA and offers these ALPN names.
pub(crate) fn trust(cluster: &Cluster, protocols: &[&str]) -> ClientConfig {
    trust_with(cluster, protocols, &[&TLS13])
}

/// The same with TLS 1.2 only.
pub(crate) fn trust_tls12(cluster: &Cluster, protocols: &[&str]) -> ClientConfig {
    trust_with(cluster, protocols, &[&TLS12])
}

fn trust_with(
    cluster: &Cluster,
    protocols: &[&str],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let ca = cluster.cluster_json()["ca"].as_str().expect("the certificate to trust").to_owned();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Connects and completes the handshake.
pub(crate) fn tls(to: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
    tls_from(Ipv4Addr::LOCALHOST, to, config)
}

/// The same from another address of this machine.
pub(crate) fn tls_from(from: Ipv4Addr, to: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
    tls_over(tcp_from(from, to)?, config)
}

/// The same over an open connection.
pub(crate) fn tls_over(stream: TcpStream, config: &Arc<ClientConfig>) -> io::Result<TlsStream> {
    stream.set_read_timeout(Some(WAIT))?;
    let connection = ClientConnection::new(config.clone(), server_name()).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

/// Sends a message and reads one.
pub(crate) fn ask(stream: &mut (impl Read + Write), message: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(&framed(message))?;
    read_message(stream)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// An HTTP/2 connection.
pub(crate) struct Doh {
    runtime: Runtime,
    requests: h2::client::SendRequest<Bytes>,
    connection: tokio::task::JoinHandle<Result<(), h2::Error>>,
    authority: String,
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl HttpAnswer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

impl Doh {
    pub(crate) fn connect(to: SocketAddr, config: ClientConfig) -> Self {
        let runtime = runtime();
        let (requests, connection) = runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(to).await.unwrap();
            let tls = tokio_rustls::TlsConnector::from(Arc::new(config));
            let stream = tls.connect(server_name(), stream).await.unwrap();
            h2::client::handshake(stream).await.unwrap()
        });
        let connection = runtime.spawn(connection);
        Self { runtime, requests, connection, authority: format!("localhost:{}", to.port()) }
    }

    /// Sends a request with or without a body.
    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<HttpAnswer, h2::Error> {
        let mut request = Request::builder().method(method).uri(format!("https://{}{target}", self.authority));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let exchange = async {
            let mut requests = self.requests.clone().ready().await?;
            let (response, mut stream) = requests.send_request(request, body.is_none())?;
            if let Some(body) = body {
                // A server that has received enough stops reading.
                let _ = stream.send_data(body.into(), true);
            }
            let response = response.await?;
            let (head, mut body) = response.into_parts();
            let mut bytes = Vec::new();
            while let Some(data) = body.data().await {
                let data = data?;
                bytes.extend_from_slice(&data);
                body.flow_control().release_capacity(data.len())?;
            }
            Ok(HttpAnswer { status: head.status.as_u16(), headers: head.headers, body: bytes })
        };
        self.runtime.block_on(async { tokio::time::timeout(WAIT, exchange).await.expect("a response in time") })
    }

    /// Sends a message with POST (RFC 8484).
    pub(crate) fn post(&mut self, message: &[u8]) -> Result<HttpAnswer, h2::Error> {
        self.request("POST", "/dns-query", &[("content-type", "application/dns-message")], Some(message.to_vec()))
    }

    /// Sends a message with GET (RFC 8484).
    pub(crate) fn get(&mut self, message: &[u8]) -> Result<HttpAnswer, h2::Error> {
        let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(message));
        self.request("GET", &target, &[], None)
    }

    /// Sends a message `count` times, a hundred at once. Returns how many responses were equal to the first.
    pub(crate) fn repeat(&mut self, count: usize, message: &[u8]) -> Result<usize, h2::Error> {
        let target = format!("/dns-query?dns={}", data_encoding::BASE64URL_NOPAD.encode(message));
        let uri = format!("https://{}{target}", self.authority);
        let Self { runtime, requests, .. } = self;
        runtime.block_on(async {
            let (mut first, mut same) = (None, 0);
            for _ in 0..count.div_ceil(100) {
                let mut responses = Vec::new();
                for _ in 0..100 {
                    let mut ready = requests.clone().ready().await?;
                    let request = Request::get(&uri).body(()).unwrap();
                    responses.push(ready.send_request(request, true)?.0);
                }
                for response in responses {
                    let mut body = response.await?.into_body();
                    let mut bytes = Vec::new();
                    while let Some(data) = body.data().await {
                        let data = data?;
                        bytes.extend_from_slice(&data);
                        body.flow_control().release_capacity(data.len())?;
                    }
                    same += usize::from(*first.get_or_insert_with(|| bytes.clone()) == bytes);
                }
            }
            Ok(same)
        })
    }

    /// Sends `count` requests and cancels each. Returns the error that ended the connection.
    pub(crate) fn reset(&mut self, count: usize, message: &[u8]) -> Option<h2::Error> {
        let request = || {
            let uri = format!("https://{}/dns-query", self.authority);
            let request = Request::post(uri).header("content-type", "application/dns-message");
            request.body(()).unwrap()
        };
        let Self { runtime, requests, connection, .. } = self;
        runtime.block_on(async {
            for turn in 0..count {
                let Ok(mut ready) = requests.clone().ready().await else { break };
                let Ok((_response, mut stream)) = ready.send_request(request(), false) else { break };
                let _ = stream.send_data(Bytes::copy_from_slice(message), false);
                // Let the request reach the server before it is canceled.
                tokio::time::sleep(Duration::from_millis(1)).await;
                stream.send_reset(h2::Reason::CANCEL);
                if turn >= RESETS_BORNE {
                    // If the server closes a connection with unread bytes, the kernel resets it, and the server's last
                    // frame is lost.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            tokio::time::timeout(WAIT, connection).await.expect("the connection ends").unwrap().err()
        })
    }
}

/// A QUIC connection.
pub(crate) struct Doq {
    runtime: Runtime,
    _endpoint: quinn::Endpoint,
    pub(crate) connection: quinn::Connection,
}

/// An error of an exchange over QUIC.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum QuicError {
    /// The connection was closed with this application error.
    Closed(u64, String),
    /// The connection was closed with this QUIC error, or by a TLS alert, which is 256 plus its number.
    Transport(u64),
    /// The stream was reset.
    Reset(u64),
    Other(String),
}

impl From<ConnectionError> for QuicError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => {
                Self::Closed(close.error_code.into(), String::from_utf8_lossy(&close.reason).into_owned())
            }
            ConnectionError::ConnectionClosed(close) => Self::Transport(close.error_code.into()),
            error => Self::Other(error.to_string()),
        }
    }
}

impl Doq {
    pub(crate) fn connect(to: SocketAddr, tls: ClientConfig) -> Result<Self, QuicError> {
        Self::connect_with(to, Arc::new(QuicClientConfig::try_from(tls).unwrap()))
    }

    /// A client that can open unidirectional streams, although no server here allows them.
    pub(crate) fn connect_unruly(to: SocketAddr, tls: ClientConfig) -> Result<Self, QuicError> {
        Self::connect_with(to, Arc::new(UnrulyQuicConfig(Arc::new(QuicClientConfig::try_from(tls).unwrap()))))
    }

    fn connect_with(to: SocketAddr, crypto: Arc<dyn quinn::crypto::ClientConfig>) -> Result<Self, QuicError> {
        let runtime = runtime();
        let (endpoint, connection) = runtime.block_on(async {
            let endpoint = Self::endpoint(crypto);
            let connecting = endpoint.connect(to, "localhost").unwrap();
            let connection = tokio::time::timeout(WAIT, connecting).await.expect("a handshake in time")?;
            Ok::<_, QuicError>((endpoint, connection))
        })?;
        Ok(Self { runtime, _endpoint: endpoint, connection })
    }

    /// Resumes a session, and sends bytes on a stream before the handshake is complete. Returns whether the server
    /// accepted them.
    pub(crate) fn connect_early(to: SocketAddr, tls: ClientConfig, bytes: &[u8]) -> (Self, bool) {
        let runtime = runtime();
        let (endpoint, connection, is_accepted) = runtime.block_on(async {
            let endpoint = Self::endpoint(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
            let connecting = endpoint.connect(to, "localhost").unwrap();
            let (connection, accepted) = connecting.into_0rtt().expect("the client believes that it may");
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            send.write_all(bytes).await.unwrap();
            let _ = send.finish();
            let is_accepted = tokio::time::timeout(WAIT, accepted).await.expect("a handshake in time");
            (endpoint, connection, is_accepted)
        });
        (Self { runtime, _endpoint: endpoint, connection }, is_accepted)
    }

    fn endpoint(crypto: Arc<dyn quinn::crypto::ClientConfig>) -> quinn::Endpoint {
        let mut endpoint = quinn::Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let mut config = quinn::ClientConfig::new(crypto);
        let mut transport = quinn::TransportConfig::default();
        transport.keep_alive_interval(Some(Duration::from_secs(1)));
        // The tests read data as soon as it arrives.
        transport.receive_window((1u32 << 20).into());
        config.transport_config(Arc::new(transport));
        endpoint.set_default_client_config(config);
        endpoint
    }

    /// Sends bytes on a new stream. Returns everything that comes back.
    pub(crate) fn stream(&self, bytes: &[u8]) -> Result<Vec<u8>, QuicError> {
        self.wait(async {
            let (mut send, mut receive) = self.connection.open_bi().await?;
            // Both fail when the server has closed the stream.
            let _ = send.write_all(bytes).await;
            let _ = send.finish();
            match receive.read_to_end(1 << 20).await {
                Ok(bytes) => Ok(bytes),
                Err(ReadToEndError::Read(quinn::ReadError::Reset(code))) => Err(QuicError::Reset(code.into())),
                Err(ReadToEndError::Read(quinn::ReadError::ConnectionLost(error))) => Err(error.into()),
                Err(error) => Err(QuicError::Other(error.to_string())),
            }
        })
    }

    /// Sends a message. Returns the response.
    pub(crate) fn ask(&self, message: &[u8]) -> Result<Vec<u8>, QuicError> {
        let bytes = self.stream(&framed(message))?;
        let len = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
        assert_eq!(bytes.len(), 2 + len, "one message, and the end of the stream");
        Ok(bytes[2..].to_vec())
    }

    /// Runs a future that takes as long as a server's timeout.
    pub(crate) fn wait_long<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { tokio::time::timeout(3 * WAIT, future).await.expect("done in time") })
    }

    /// Runs a future that needs the connection's runtime, with a time limit.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { tokio::time::timeout(WAIT, future).await.expect("done in time") })
    }
}
