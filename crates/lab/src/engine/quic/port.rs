//! A client port: a socket, and a QUIC endpoint for the connections on it. The socket is connected, or where clients
//! have addresses of their own it is not, and the address goes with each datagram.

use super::connection::Connection;
use crate::engine::Transport::Doq;
use crate::engine::clock::StampClock;
use crate::engine::connection_pool::ConnectionPool;
use crate::engine::tls::TlsConfigs;
use crate::engine::udp::batch::{self, Incoming, Outgoing};
use crate::engine::udp::channel;
use crate::engine::worker_stats::WorkerStats;
use crate::limits::BATCH_COUNT;
use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection as QuicConnection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
    EndpointEvent,
};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;

/// How often a full socket is tried; what it does not take then is lost, as on the way, and sent again by QUIC.
const SEND_TRIES_MAX: usize = 100;

/// Datagrams that are taken before what follows from them is done, where queries are due at planned times.
const TAKE_COUNT: usize = 16;

pub(super) struct Port {
    socket: UdpSocket,
    server: SocketAddr,
    endpoint: Endpoint,
    /// The slot of each connection, by its handle.
    slots: Vec<u32>,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Datagrams of `incoming`, and those of them that their connections have.
    filled: usize,
    taken: usize,
    buffer: Vec<u8>,
}

impl Port {
    /// All connections are from one address.
    pub(super) fn open(server: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        Ok(Self::on(channel::open(server, source)?, server, Outgoing::new(), Incoming::new()))
    }

    /// Each is from its own.
    pub(super) fn open_to_all(server: SocketAddr) -> io::Result<Self> {
        let socket = channel::open_to_all(server)?;
        Ok(Self::on(socket, server, Outgoing::to(server), Incoming::new().with_senders()))
    }

    fn on(socket: UdpSocket, server: SocketAddr, outgoing: Outgoing, incoming: Incoming) -> Self {
        Self {
            socket,
            server,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None),
            slots: Vec::new(),
            outgoing,
            incoming,
            filled: 0,
            taken: 0,
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

    /// Notes whose a handle is.
    pub(super) fn owns(&mut self, handle: ConnectionHandle, slot: u32) {
        if self.slots.len() <= handle.0 {
            self.slots.resize(handle.0 + 1, u32::MAX);
        }
        self.slots[handle.0] = slot;
    }

    /// Has a batch of datagrams at hand; gives whether there are any.
    pub(super) fn fill(&mut self, refusals: &mut u64) -> io::Result<bool> {
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = match self.incoming.receive(&self.socket) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    *refusals += 1;
                    0
                }
                other => other?,
            };
        }
        Ok(self.taken < self.filled)
    }

    /// Gives some datagrams of the batch to their connections, which are marked, and stops when the time is up; gives
    /// whether there were any.
    pub(super) fn take(
        &mut self,
        pool: &mut ConnectionPool<Connection>,
        tls: &TlsConfigs,
        stamps: &mut StampClock,
        stats: &mut WorkerStats,
        until_ns: u64,
    ) -> io::Result<bool> {
        let most = if until_ns == u64::MAX { BATCH_COUNT } else { TAKE_COUNT };
        let batch = self.taken..self.filled.min(self.taken + most);
        let has_any = !batch.is_empty();
        for index in batch {
            self.taken = index + 1;
            let now_ns = stats.clock.now_ns();
            let at_ns = stamps.came(self.incoming.stamp(index), now_ns, &mut stats.totals.unstamped);
            self.give(index, (at_ns, now_ns), pool, tls, stats)?;
            if now_ns >= until_ns {
                break;
            }
        }
        Ok(has_any)
    }

    fn give(
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
            // Nobody is served here.
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            None => {}
        }
        Ok(())
    }

    /// Events of a connection that the endpoint wants to know, and its answers.
    pub(super) fn exchange_events(&mut self, handle: ConnectionHandle, connection: &mut QuicConnection) {
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(answer);
            }
        }
    }

    /// The connection is no more.
    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        self.endpoint.handle_event(handle, EndpointEvent::drained());
        if let Some(slot) = self.slots.get_mut(handle.0) {
            *slot = u32::MAX;
        }
    }

    /// Queues what a connection wants to send, from its client's address.
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
            // A socket that fails is seen by the next flush, which returns its error.
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
        self.outgoing.go_from(source);
        Ok(())
    }

    /// Hands the kernel what is queued.
    pub(super) fn flush(&mut self, refusals: &mut u64) -> io::Result<()> {
        let (mut taken, mut tries) = (0, 0);
        while taken < self.outgoing.count() && tries < SEND_TRIES_MAX {
            tries += 1;
            match self.outgoing.send(&self.socket, taken, false) {
                Ok(count) => taken += count,
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => *refusals += 1,
                Err(error) if channel::is_passing(&error) => std::thread::yield_now(),
                // Its connection does not come about, and says so.
                Err(error) if channel::is_of_its_source(&error) && self.outgoing.source(taken).is_some() => taken += 1,
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
