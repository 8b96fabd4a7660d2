//! TLS handshakes on TCP connections. Their time, number and rate are limited, and each outcome is counted.

use super::counters::HandshakeFailure;
use super::handler::TransportHandler;
use super::handshake_rate::Address;
use crate::limits::TLS_WRITE_BUFFER_BYTES;
use rustls::{Error, HandshakeKind, ProtocolVersion, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Runs the TLS handshakes of one listener.
pub(crate) struct Handshake {
    acceptor: TlsAcceptor,
    /// Whether the client must name the protocol (ALPN).
    is_name_needed: bool,
}

/// What client and server agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Protocol {
    /// The client named the protocol.
    pub(crate) is_named: bool,
    pub(crate) is_tls13: bool,
}

impl Handshake {
    /// DNS over TLS. A client need not name a protocol: RFC 7858 is older than the ALPN name `dot`. A client that names
    /// only other protocols gets the alert no_application_protocol (RFC 7301 3.2).
    pub(crate) fn dot(config: Arc<ServerConfig>) -> Self {
        Self { acceptor: config.into(), is_name_needed: false }
    }

    /// HTTP/2, which must be named (RFC 9113 3.2).
    pub(crate) fn http(config: Arc<ServerConfig>) -> Self {
        Self { acceptor: config.into(), is_name_needed: true }
    }

    /// Runs the server side. `None` if the handshake failed; the failure has been counted.
    pub(crate) async fn run<R>(
        &self,
        handler: &TransportHandler<R>,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Option<(TlsStream<TcpStream>, Protocol)> {
        let counters = &handler.connections;
        let failed = |why, error: &dyn std::fmt::Display| {
            tracing::debug!(%peer, %error, transport = handler.transport.label(), "handshake failed");
            counters.handshake_failed(why);
        };
        // TCP has shown that the address is the client's.
        if !handler.limits.handshake_rate.take(peer.ip(), Address::Validated) {
            failed(HandshakeFailure::OverRate, &"over the rate limit");
            return None;
        }
        let Some(permit) = handler.limits.handshakes.acquire(peer.ip()) else {
            failed(HandshakeFailure::OverLimit, &"too many at once");
            return None;
        };
        let accepting = pin!(handler.limits.with_handshake_timeout(self.acceptor.accept(stream)));
        let mut stream = match permit.unless_evicted(accepting).await {
            Some(Some(Ok(stream))) => stream,
            Some(Some(Err(error))) => {
                failed(reason(&error), &error);
                return None;
            }
            Some(None) => {
                failed(HandshakeFailure::TimedOut, &"too slow");
                return None;
            }
            None => {
                failed(HandshakeFailure::Evicted, &"evicted for another client");
                return None;
            }
        };
        let session = stream.get_mut().1;
        let protocol = Protocol {
            is_named: session.alpn_protocol().is_some(),
            is_tls13: session.protocol_version() == Some(ProtocolVersion::TLSv1_3),
        };
        if self.is_name_needed && !protocol.is_named {
            failed(HandshakeFailure::Alpn, &"the client offered no protocol (ALPN)");
            return None;
        }
        session.set_buffer_limit(Some(TLS_WRITE_BUFFER_BYTES));
        counters.handshakes.one_shared();
        if session.handshake_kind() == Some(HandshakeKind::Resumed) {
            counters.resumed.one_shared();
        }
        Some((stream, protocol))
    }
}

fn reason(error: &io::Error) -> HandshakeFailure {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::NoApplicationProtocol) => HandshakeFailure::Alpn,
        Some(Error::AlertReceived(_)) => HandshakeFailure::Broken,
        Some(_) => HandshakeFailure::Unacceptable,
        // Reset, or closed half-way.
        None => HandshakeFailure::Broken,
    }
}
