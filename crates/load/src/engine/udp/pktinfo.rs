//! Datagrams from any number of source addresses, on one socket per server.
//!
//! Each message carries its source address. All sources share a port, so IDs are per source: each address maps to one
//! of a few ID tables, and an answer is matched in the table of its destination address.

use super::channel::{SEND_TRIES_MAX, is_segmentation_error, is_source_error, is_transient, open_to_all};
use crate::byte_hash;
use crate::engine::clock::{Clock, StampClock};
use crate::engine::endpoint::Endpoint;
use crate::engine::matching::{Arrival, InFlight};
use crate::engine::plan::Plan;
use crate::engine::transport_driver::{RECEIVE_NS, TransportDriver};
use crate::engine::worker_stats::WorkerStats;
use crate::limits::RESPONSE_BYTES_CHECKED;
use crate::per_query::Parties;
use measure::{Second, Sent, Transport};
use sockets::batch::{self, Incoming, Outgoing};
use sockets::limits::{BATCH_COUNT, RESPONSE_BYTES_KEPT, UNFRAGMENTED_BYTES_MAX};
use sockets::system::set_fragmentation;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// One socket per server, with a source address for each message.
pub(in crate::engine) struct PktinfoSockets {
    sockets: Vec<ServerSocket>,
    incoming: Incoming,
    stamps: StampClock,
}

/// A socket to one server.
struct ServerSocket {
    socket: UdpSocket,
    server: SocketAddr,
    tables: Vec<InFlight>,
    outgoing: Outgoing,
    /// For each message of `outgoing`: its table and its send lag.
    queued: Vec<(usize, u64)>,
    /// Whether datagrams may be fragmented. Only set if a message of the batch may not fit a link.
    may_fragment: bool,
    /// Whether to use segmented sends for queries of equal length and source. Only used if times do not matter, because
    /// captures on loopback or between namespaces show one packet. Off once the kernel has refused one.
    segments: bool,
}

impl PktinfoSockets {
    /// Opens a socket to each server of the clients.
    pub(in crate::engine) fn open(
        plan: &Plan,
        clients: &[Endpoint],
        stamps: StampClock,
        is_fast: bool,
    ) -> io::Result<Self> {
        let queried = clients.iter().filter(|client| client.transport == Transport::Udp);
        let mut servers: Vec<_> = queried.map(|client| client.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let bytes_kept = if plan.checking.is_some() { RESPONSE_BYTES_CHECKED } else { RESPONSE_BYTES_KEPT };
        let sockets = servers.into_iter().map(|server| ServerSocket::open(server, plan.socket_count, is_fast));
        let incoming = Incoming::with_buffer_bytes(bytes_kept).with_senders();
        Ok(Self { sockets: sockets.collect::<io::Result<_>>()?, incoming, stamps })
    }

    /// Queues a message that `fill` writes. Returns `false` if there is no room.
    pub(in crate::engine) fn push(
        &mut self,
        stats: &mut WorkerStats,
        mut sent: Sent,
        client: Endpoint,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> bool {
        let Some(socket) = self.sockets.iter_mut().find(|socket| socket.server == client.server) else { return false };
        let table = socket.table_of(client.source);
        if socket.outgoing.count() == BATCH_COUNT || socket.tables[table].free_ids() == 0 {
            return false;
        }
        let message = socket.outgoing.push(fill);
        let parties = Parties { transport: Transport::Udp, server: socket.server, client: Some(sent.client) };
        sent.row = stats.begin(sent, parties, message);
        socket.tables[table].insert(message, sent);
        socket.outgoing.set_source(client.source);
        socket.queued.push((table, sent.sent_ns - sent.planned_ns));
        true
    }

    fn receive_from(&mut self, index: usize, stats: &mut WorkerStats) -> io::Result<usize> {
        let socket = &mut self.sockets[index];
        let count = self.incoming.receive(&socket.socket)?;
        if count == 0 {
            return Ok(0);
        }
        let now = stats.clock.now_ns();
        for index in 0..count {
            let at = self.stamps.arrival_ns(self.incoming.stamp(index), now, &mut stats.totals.unstamped);
            let sender = self.incoming.sender(index);
            if sender.is_none_or(|sender| (sender.ip(), sender.port()) != (socket.server.ip(), socket.server.port())) {
                stats.queries(Transport::Udp, at).other_address += 1;
                let queried = socket.server;
                stats.totals.other_address = stats.totals.other_address.or(sender.map(|sender| (queried, sender)));
                continue;
            }
            let message = self.incoming.message(index);
            let table = socket.table_of(self.incoming.destination(index));
            let arrival = socket.tables[table].arrive(message);
            let written_ns = match arrival {
                Arrival::Answer { sent, .. } | Arrival::Late { sent } => sent.sent_ns,
                _ => 0,
            };
            stats.arrived(Transport::Udp, at, message, arrival, written_ns);
            stats.count_cut_bytes(Transport::Udp, at, self.incoming.cut_bytes(index));
        }
        Ok(count)
    }
}

impl TransportDriver for PktinfoSockets {
    fn waiting(&self) -> usize {
        self.sockets.iter().flat_map(|socket| &socket.tables).map(InFlight::waiting).sum()
    }

    fn flush(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        self.sockets.iter_mut().try_for_each(|socket| socket.send(stats, now))
    }

    fn receive(&mut self, stats: &mut WorkerStats, until: u64) -> io::Result<bool> {
        let mut has_received = false;
        for index in 0..self.sockets.len() {
            while self.receive_from(index, stats)? > 0 {
                has_received = true;
                if stats.clock.now_ns().saturating_add(RECEIVE_NS) > until {
                    return Ok(true);
                }
            }
        }
        Ok(has_received)
    }

    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        let before = now.saturating_sub(stats.timeout_ns());
        for index in 0..self.sockets.len() {
            let mut tables = self.sockets[index].tables.iter_mut();
            if !tables.any(|table| table.oldest_sent_ns().is_some_and(|sent| sent < before)) {
                continue;
            }
            // Reads pending answers before timing out queries.
            while self.receive_from(index, stats)? == BATCH_COUNT {}
            for table in &mut self.sockets[index].tables {
                while let Some(sent) = table.expire(before) {
                    stats.timed_out(Transport::Udp, sent);
                }
            }
        }
        Ok(())
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.extend(self.sockets.iter().map(|socket| batch::watch(&socket.socket)));
    }

    fn warm_up(&mut self) -> io::Result<()> {
        for socket in &mut self.sockets {
            socket.outgoing.send(&socket.socket, 0, false)?;
            self.incoming.receive(&socket.socket)?;
        }
        Ok(())
    }

    fn restart(&mut self, clock: Clock) {
        self.stamps = StampClock::new(clock);
    }

    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()> {
        for index in 0..self.sockets.len() {
            while self.receive_from(index, stats)? == BATCH_COUNT {}
            let socket = &mut self.sockets[index];
            for table in &mut socket.tables {
                while let Some(sent) = table.expire(u64::MAX) {
                    stats.unanswered_at_end(Transport::Udp, sent, is_broken_off);
                }
            }
            stats.totals.dropped += u64::from(batch::dropped(&socket.socket));
        }
        Ok(())
    }
}

impl ServerSocket {
    fn open(server: SocketAddr, table_count: usize, segments: bool) -> io::Result<Self> {
        Ok(Self {
            socket: open_to_all(server)?,
            server,
            tables: (0..table_count.max(1)).map(|_| InFlight::new()).collect(),
            outgoing: Outgoing::to(server),
            queued: Vec::with_capacity(BATCH_COUNT),
            // The kernel's default.
            may_fragment: true,
            segments,
        })
    }

    /// The ID table of an address.
    fn table_of(&self, address: Option<IpAddr>) -> usize {
        let hash = match address {
            None => 0,
            Some(IpAddr::V4(address)) => byte_hash::of(&address.octets()),
            Some(IpAddr::V6(address)) => byte_hash::of(&address.octets()),
        };
        // Uses the upper half: the lower bits of a product depend only on the lower bits of the factors.
        (hash >> 32) as usize % self.tables.len()
    }

    fn send(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        self.choose_fragmentation()?;
        let (mut next, mut tries) = (0, 0);
        while next < self.outgoing.count() && tries < SEND_TRIES_MAX {
            tries += 1;
            match self.outgoing.send(&self.socket, next, self.segments) {
                Ok(count) => {
                    self.note_sent(next, count, stats.queries(Transport::Udp, now));
                    next += count;
                }
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => stats.totals.refusals += 1,
                Err(error) if is_transient(&error) => std::thread::yield_now(),
                // Sending a single message shows whether segmentation or the source was the reason.
                Err(error) if self.segments && is_segmentation_error(&error) => self.segments = false,
                Err(error) if is_source_error(&error) => {
                    self.take_back(next, stats, now);
                    next += 1;
                }
                Err(error) => return Err(error),
            }
        }
        for index in next..self.outgoing.count() {
            self.take_back(index, stats, now);
        }
        self.outgoing.clear();
        self.queued.clear();
        Ok(())
    }

    /// Counts sent messages. Messages with equal lag are recorded together.
    fn note_sent(&self, first: usize, count: usize, second: &mut Second) {
        let mut at = first;
        for alike in self.queued[first..first + count].chunk_by(|(_, one), (_, other)| one == other) {
            let bytes = (at..at + alike.len()).map(|index| self.outgoing.bytes_of(index)).sum();
            second.record_sent_batch(alike[0].1, alike.len(), bytes);
            at += alike.len();
        }
    }

    /// Over IPv6, only the sender fragments, and unfragmented datagrams have no identification (RFC 8200 4.5).
    fn choose_fragmentation(&mut self) -> io::Result<()> {
        if self.server.is_ipv6() {
            return Ok(());
        }
        let is_long = |index| self.outgoing.bytes_of(index) > UNFRAGMENTED_BYTES_MAX;
        let may_fragment = (0..self.outgoing.count()).any(is_long);
        if may_fragment != self.may_fragment {
            set_fragmentation(&self.socket, may_fragment)?;
            self.may_fragment = may_fragment;
        }
        Ok(())
    }

    /// A message was not sent.
    fn take_back(&mut self, index: usize, stats: &mut WorkerStats, now: u64) {
        let message = self.outgoing.message(index);
        let id = u16::from_be_bytes([message[0], message[1]]);
        if let Some(sent) = self.tables[self.queued[index].0].forget(id) {
            stats.unsent(sent);
        }
        stats.queries(Transport::Udp, now).send_errors += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Protocol, Socket, Type};
    use std::net::Ipv4Addr;

    /// The source of the test's datagrams. No other test uses it.
    const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 93, 81, 77);

    /// Sends a message of this size from `SOURCE`. Returns the received IP header.
    fn packet_of(socket: &mut ServerSocket, bytes: usize, raw: &Socket) -> Vec<u8> {
        socket.outgoing.push(|slot| {
            slot[..bytes].fill(0);
            bytes
        });
        socket.outgoing.set_source(Some(SOURCE.into()));
        socket.choose_fragmentation().unwrap();
        assert_eq!(socket.outgoing.send(&socket.socket, 0, false).unwrap(), 1);
        socket.outgoing.clear();
        let port = socket.socket.local_addr().unwrap().port().to_be_bytes();
        let mut packet = [0; 2_048];
        loop {
            let count = io::Read::read(&mut &*raw, &mut packet).unwrap();
            if packet[..count].get(20..22) == Some(&port) {
                return packet[..20].to_vec();
            }
        }
    }

    #[test]
    fn only_long_datagrams_have_an_ip_identification() {
        let Ok(raw) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) else {
            skip::permission("a raw socket");
            return;
        };
        // Without it, the datagrams of everything else on this machine fill the socket's buffer.
        raw.connect(&SocketAddr::from((SOURCE, 0)).into()).unwrap();
        raw.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut socket = ServerSocket::open(far.local_addr().unwrap(), 1, false).unwrap();
        for (bytes, has_identification) in [(12, false), (UNFRAGMENTED_BYTES_MAX, false), (1_233, true), (40, false)] {
            let header = packet_of(&mut socket, bytes, &raw);
            // Identification (RFC 791 3.1).
            assert_eq!(header[4..6] != [0, 0], has_identification, "{bytes}: {header:?}");
        }
    }
}
