//! One connection of a client.

use super::http::{ExchangeEnd, HttpClient, HttpPlan};
use crate::engine::connection_pool::{ConnectionState, PooledConnection};
use crate::engine::worker_stats::WorkerStats;
use measure::{Sent, Transport};
use rustls::HandshakeKind;
use sockets::limits::STREAM_UNSENT_BYTES_MAX;
use sockets::{Framing, Link, frame};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The framing of messages.
pub(super) enum Protocol {
    /// A length of two bytes before each message (RFC 1035 4.2.2).
    Framed(Framing),
    /// Bodies of HTTP/2 (RFC 8484).
    Http(Box<HttpClient>),
}

pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) protocol: Protocol,
    pub(super) transport: Transport,
    pub(super) server: SocketAddr,
    /// `Host` in HTTP.
    pub(super) authority: Arc<str>,
    pub(super) state: ConnectionState,
    /// The server's certificate was rejected, so retrying is useless.
    pub(super) is_certificate_refused: bool,
}

/// Whether the connection continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionStatus {
    Open,
    /// HTTP/2 has ended.
    Closed,
}

impl PooledConnection for Connection {
    fn state(&self) -> &ConnectionState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ConnectionState {
        &mut self.state
    }

    fn transport(&self) -> Transport {
        self.transport
    }

    fn has_room(&mut self) -> bool {
        self.state.has_room()
            && self.link.unsent_bytes() < STREAM_UNSENT_BYTES_MAX
            && match &mut self.protocol {
                Protocol::Framed(_) => true,
                Protocol::Http(http) => http.has_room(),
            }
    }
}

impl Connection {
    /// Queues a query and returns its number.
    pub(super) fn send(&mut self, sent: Sent, message: &mut [u8], plan: &HttpPlan) -> Result<u64, String> {
        match &mut self.protocol {
            Protocol::Framed(_) => {
                let number = self.state.window.insert(message, sent);
                frame(self.link.outgoing(), message);
                Ok(number)
            }
            Protocol::Http(http) => {
                let number = self.state.window.count();
                message[..2].fill(0);
                http.send(plan, &self.authority, number, message)?;
                Ok(self.state.window.insert_stream(message, sent))
            }
        }
    }

    /// TCP is connected.
    pub(super) fn tcp_connected(&mut self, stats: &mut WorkerStats) {
        let now = stats.clock.now_ns();
        stats.connections(self.transport, now).tcp_connected(now.saturating_sub(self.state.began_ns));
        if self.link.tls().is_none() {
            self.opened(stats, now);
        }
    }

    /// Checks whether the TLS handshake is complete.
    ///
    /// # Errors
    /// If the server does not support HTTP/2.
    pub(super) fn check_handshake(&mut self, stats: &mut WorkerStats) -> Result<(), String> {
        if self.state.is_open || !self.link.is_connected() || self.link.is_handshaking() {
            return Ok(());
        }
        let Some(tls) = self.link.tls() else { return Ok(()) };
        if self.transport == Transport::Doh && tls.alpn_protocol() != Some(b"h2") {
            return Err("it speaks TLS, but no HTTP/2 (RFC 8484 5.2)".into());
        }
        let is_resumed = tls.handshake_kind() == Some(HandshakeKind::Resumed);
        let now = stats.clock.now_ns();
        self.opened(stats, now);
        let connections = stats.connections(self.transport, now);
        connections.resumed += u64::from(is_resumed);
        connections.early_data += u64::from(self.link.finish_early_data());
        Ok(())
    }

    fn opened(&mut self, stats: &mut WorkerStats, now: u64) {
        self.state.opened(now);
        stats.connections(self.transport, now).opened(now.saturating_sub(self.state.began_ns));
    }

    /// Handles decrypted bytes that arrived at `now`, and counts answers in `stats`.
    pub(super) fn take(&mut self, bytes: &[u8], now: u64, stats: &mut WorkerStats) -> ConnectionStatus {
        let (window, transport) = (&mut self.state.window, self.transport);
        self.state.active_ns = now;
        match &mut self.protocol {
            Protocol::Framed(framing) => {
                framing.take(bytes, |message| {
                    let (arrival, written_ns) = window.arrive(message);
                    stats.arrived(transport, now, message, arrival, written_ns);
                });
                ConnectionStatus::Open
            }
            Protocol::Http(http) => {
                let mut handle_exchange = |number: u64, end: ExchangeEnd<'_>| match end {
                    ExchangeEnd::Message(message) => {
                        let (arrival, written_ns) = window.arrive_on(number, message);
                        stats.arrived(transport, now, message, arrival, written_ns);
                    }
                    // Not a valid answer. The query will time out.
                    ExchangeEnd::Refused => stats.queries(transport, now).mismatched += 1,
                    ExchangeEnd::Reset => {
                        if let Some(sent) = window.mark_lost(number) {
                            stats.lost(transport, sent, now);
                        }
                    }
                };
                if http.take(bytes, &mut handle_exchange) { ConnectionStatus::Open } else { ConnectionStatus::Closed }
            }
        }
    }

    /// Writes queued bytes to the socket.
    pub(super) fn flush(&mut self, now: u64) -> io::Result<()> {
        if let Protocol::Http(http) = &mut self.protocol {
            http.drain_into(self.link.outgoing());
        }
        if self.state.is_open {
            self.state.window.written(now);
        }
        self.link.flush()
    }

    /// Whether an incomplete message has arrived.
    pub(super) fn has_partial(&self) -> bool {
        matches!(&self.protocol, Protocol::Framed(framing) if framing.partial_bytes() > 0)
    }
}

/// Why a connection ends.
pub(super) enum CloseReason {
    ByUs,
    ByPeer,
    Failed(String),
}
