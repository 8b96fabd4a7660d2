//! A client port: a socket with a QUIC endpoint for its connections. The socket is connected, unless clients have their
//! own addresses; then each datagram carries its source address.

use super::connection::Connection;
use crate::engine::clock::StampClock;
use crate::engine::connection_pool::ConnectionPool;
use crate::engine::tls::TlsConfigs;
use crate::engine::udp::channel;
use crate::engine::worker_stats::WorkerStats;
use bytes::BytesMut;
use measure::Transport::Doq;
use quinn_proto::{
    ClientConfig, Connection as QuicConnection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
    EndpointEvent,
};
use sockets::batch::{self, Incoming, Outgoing};
use sockets::limits::BATCH_COUNT;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

/// Number of attempts to send on a full socket. Then the datagram is dropped, as a network may, and QUIC sends it
/// again.
const SEND_TRIES_MAX: usize = 100;

/// Datagrams handled per step if queries are due at planned times.
const TAKE_COUNT: usize = 16;

pub(super) struct Port {
    socket: UdpSocket,
    server: SocketAddr,
    endpoint: Endpoint,
    /// The slot of each connection by its handle.
    slots: Vec<u32>,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Number of datagrams in `incoming`, and how many of them were handled.
    filled: usize,
    next: usize,
    buffer: Vec<u8>,
}

impl Port {
    /// Opens a port whose connections have one source address.
    pub(super) fn open(server: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        Ok(Self::with_socket(channel::open(server, source)?, server, Outgoing::new(), Incoming::new()))
    }

    /// Opens a port whose connections have their own source addresses.
    pub(super) fn open_to_all(server: SocketAddr) -> io::Result<Self> {
        let socket = channel::open_to_all(server)?;
        Ok(Self::with_socket(socket, server, Outgoing::to(server), Incoming::new().with_senders()))
    }

    fn with_socket(socket: UdpSocket, server: SocketAddr, outgoing: Outgoing, incoming: Incoming) -> Self {
        Self {
            socket,
            server,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
            slots: Vec::new(),
            outgoing,
            incoming,
            filled: 0,
            next: 0,
            buffer: Vec::new(),
        }
    }

    pub(super) const fn server(&self) -> SocketAddr {
        self.server
    }

    pub(super) fn connect(
        &mut self,
        config: ClientConfig,
        name: &str,
    ) -> Result<(ConnectionHandle, QuicConnection), String> {
        self.endpoint.connect(Instant::now(), config, self.server, name).map_err(|error| error.to_string())
    }

    /// Registers the slot of a handle.
    pub(super) fn set_slot(&mut self, handle: ConnectionHandle, slot: u32) {
        if self.slots.len() <= handle.0 {
            self.slots.resize(handle.0 + 1, u32::MAX);
        }
        self.slots[handle.0] = slot;
    }

    /// Receives a batch of datagrams, unless one is pending. Returns whether there are any.
    pub(super) fn fill(&mut self, refusals: &mut u64) -> io::Result<bool> {
        if self.next == self.filled {
            self.next = 0;
            self.filled = match self.incoming.receive(&self.socket) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    *refusals += 1;
                    0
                }
                other => other?,
            };
        }
        Ok(self.next < self.filled)
    }

    /// Passes datagrams of the batch to their connections, which are marked, until the time is up. Returns whether
    /// there were any.
    pub(super) fn take(
        &mut self,
        pool: &mut ConnectionPool<Connection>,
        tls: &TlsConfigs,
        stamps: &mut StampClock,
        stats: &mut WorkerStats,
        until_ns: u64,
    ) -> io::Result<bool> {
        let most = if until_ns == u64::MAX { BATCH_COUNT } else { TAKE_COUNT };
        let batch = self.next..self.filled.min(self.next + most);
        let has_any = !batch.is_empty();
        for index in batch {
            self.next = index + 1;
            let now_ns = stats.clock.now_ns();
            let at_ns = stamps.arrival_ns(self.incoming.stamp(index), now_ns, &mut stats.totals.unstamped);
            self.deliver(index, (at_ns, now_ns), pool, tls, stats)?;
            if now_ns >= until_ns {
                break;
            }
        }
        Ok(has_any)
    }

    fn deliver(
        &mut self,
        index: usize,
        (at_ns, now_ns): (u64, u64),
        pool: &mut ConnectionPool<Connection>,
        tls: &TlsConfigs,
        stats: &mut WorkerStats,
    ) -> io::Result<()> {
        let is_another = |sender: &SocketAddr| (sender.ip(), sender.port()) != (self.server.ip(), self.server.port());
        if let Some(sender) = self.incoming.sender(index).filter(is_another) {
            stats.queries(Doq, at_ns).other_address += 1;
            stats.totals.other_address.get_or_insert((self.server, sender));
            return Ok(());
        }
        let datagram = BytesMut::from(self.incoming.message(index));
        self.buffer.clear();
        match self.endpoint.handle(Instant::now(), self.server, None, None, datagram, &mut self.buffer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let slot = self.slots.get(handle.0).copied().unwrap_or(u32::MAX);
                if let Some(connection) = pool.get(slot) {
                    if !connection.state.is_open {
                        stats.handshake_step(at_ns, now_ns);
                    }
                    let verified = tls.verified();
                    connection.handle_datagram(event, at_ns);
                    if tls.verified() != verified {
                        connection.is_verified = true;
                        connection.refusal = tls.take_refusal();
                    }
                    pool.mark(slot);
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                let bytes = std::mem::take(&mut self.buffer);
                let source = self.incoming.destination(index);
                self.push(&bytes[..transmit.size], source, &mut stats.totals.refusals)?;
                self.buffer = bytes;
            }
            // Clients do not accept connections.
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            None => {}
        }
        Ok(())
    }

    /// Exchanges events between a connection and the endpoint.
    pub(super) fn exchange_events(&mut self, handle: ConnectionHandle, connection: &mut QuicConnection) {
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(answer);
            }
        }
    }

    /// Removes an ended connection.
    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        self.endpoint.handle_event(handle, EndpointEvent::drained());
        if let Some(slot) = self.slots.get_mut(handle.0) {
            *slot = u32::MAX;
        }
    }

    /// Queues the datagrams of a connection, from its client's address.
    pub(super) fn transmit(
        &mut self,
        connection: &mut QuicConnection,
        source: Option<IpAddr>,
        now: Instant,
        refusals: &mut u64,
    ) {
        loop {
            let mut bytes = std::mem::take(&mut self.buffer);
            bytes.clear();
            let transmit = connection.poll_transmit(now, 1, &mut bytes);
            // The next flush returns the error of a failed socket.
            let _queued = transmit.as_ref().map(|transmit| self.push(&bytes[..transmit.size], source, refusals));
            self.buffer = bytes;
            if transmit.is_none() {
                return;
            }
        }
    }

    fn push(&mut self, bytes: &[u8], source: Option<IpAddr>, refusals: &mut u64) -> io::Result<()> {
        if self.outgoing.count() == BATCH_COUNT {
            self.flush(refusals)?;
        }
        self.outgoing.push(|slot| {
            slot[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        });
        self.outgoing.set_source(source);
        Ok(())
    }

    /// Sends the queued datagrams.
    pub(super) fn flush(&mut self, refusals: &mut u64) -> io::Result<()> {
        let (mut sent, mut tries) = (0, 0);
        while sent < self.outgoing.count() && tries < SEND_TRIES_MAX {
            tries += 1;
            match self.outgoing.send(&self.socket, sent, false) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => *refusals += 1,
                Err(error) if channel::is_transient(&error) => std::thread::yield_now(),
                // The affected connection will time out.
                Err(error) if channel::is_source_error(&error) && self.outgoing.source(sent).is_some() => sent += 1,
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        Ok(())
    }

    pub(super) fn watch(&self) -> libc::pollfd {
        batch::watch(&self.socket)
    }

    pub(super) fn dropped(&self) -> u64 {
        u64::from(batch::dropped(&self.socket))
    }
}
