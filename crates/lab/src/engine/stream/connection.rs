//! One connection of a client.

use super::framing::{Framing, frame};
use super::http::{Ended, HttpClient, HttpPlan};
use super::link::Link;
use crate::engine::Transport;
use crate::engine::connection_pool::{ConnectionState, PooledConnection};
use crate::engine::worker_stats::WorkerStats;
use crate::limits::STREAM_UNSENT_BYTES_MAX;
use crate::measure::Sent;
use rustls::HandshakeKind;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// How messages lie in the bytes.
pub(super) enum Protocol {
    /// After two bytes of length (RFC 1035 4.2.2).
    Framed(Framing),
    /// As bodies of HTTP/2 (RFC 8484).
    Http(Box<HttpClient>),
}

pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) protocol: Protocol,
    pub(super) transport: Transport,
    pub(super) server: SocketAddr,
    /// `Host` of HTTP.
    pub(super) authority: Arc<str>,
    pub(super) state: ConnectionState,
    /// The server's certificate was not good: no other try will be better.
    pub(super) is_certificate_refused: bool,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    GoesOn,
    /// HTTP/2 has ended.
    Ended,
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
    /// Queues a query; gives its number.
    pub(super) fn send(&mut self, sent: Sent, message: &mut [u8], plan: &HttpPlan) -> Result<u64, String> {
        match &mut self.protocol {
            Protocol::Framed(_) => {
                let number = self.state.window.enter(message, sent);
                frame(self.link.outgoing(), message);
                Ok(number)
            }
            Protocol::Http(http) => {
                let number = self.state.window.count();
                message[..2].fill(0);
                http.send(plan, &self.authority, number, message)?;
                Ok(self.state.window.enter_stream(message, sent))
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

    /// Looks whether a TLS handshake has come to its end.
    ///
    /// # Errors
    /// A sentence, when the server does not speak HTTP/2.
    pub(super) fn settle_handshake(&mut self, stats: &mut WorkerStats) -> Result<(), String> {
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
        connections.early_data += u64::from(self.link.settle_early_data());
        Ok(())
    }

    fn opened(&mut self, stats: &mut WorkerStats, now: u64) {
        self.state.opened(now);
        stats.connections(self.transport, now).opened(now.saturating_sub(self.state.began_ns));
    }

    /// Takes plain bytes in that came at `now`: answers are counted in `stats`.
    pub(super) fn take(&mut self, bytes: &[u8], now: u64, stats: &mut WorkerStats) -> Taken {
        let (window, transport) = (&mut self.state.window, self.transport);
        self.state.active_ns = now;
        match &mut self.protocol {
            Protocol::Framed(framing) => {
                framing.take(bytes, |message| {
                    let (arrival, written_ns) = window.arrive(message);
                    stats.arrived(transport, now, message, arrival, written_ns);
                });
                Taken::GoesOn
            }
            Protocol::Http(http) => {
                let mut each = |number: u64, ended: Ended<'_>| match ended {
                    Ended::Message(message) => {
                        let (arrival, written_ns) = window.arrive_on(number, message);
                        stats.arrived(transport, now, message, arrival, written_ns);
                    }
                    // An answer that is none; its query times out.
                    Ended::Refused => stats.queries(transport, now).mismatched += 1,
                    Ended::Reset => {
                        if let Some(sent) = window.lose(number) {
                            stats.lost(transport, sent, now);
                        }
                    }
                };
                if http.take(bytes, &mut each) { Taken::GoesOn } else { Taken::Ended }
            }
        }
    }

    /// Hands the kernel what is queued.
    pub(super) fn flush(&mut self, now: u64) -> io::Result<()> {
        if let Protocol::Http(http) = &mut self.protocol {
            http.drain_into(self.link.outgoing());
        }
        if self.state.is_open {
            self.state.window.written(now);
        }
        self.link.flush()
    }

    /// Whether a part of a message has come.
    pub(super) fn has_partial(&self) -> bool {
        matches!(&self.protocol, Protocol::Framed(framing) if framing.partial_bytes() > 0)
    }
}
