//! Datagrams with one socket per source for the whole run.

use super::channel::{SEND_TRIES_MAX, is_transient};
use crate::engine::clock::{Clock, StampClock};
use crate::engine::endpoint::Endpoint;
use crate::engine::matching::{Arrival, Window};
use crate::engine::plan::Plan;
use crate::engine::transport_driver::TransportDriver;
use crate::engine::worker_stats::WorkerStats;
use crate::limits::{QUERY_BYTES_MAX, RESPONSE_BYTES_CHECKED, SOURCE_BUFFER_BYTES};
use crate::per_query::Parties;
use measure::{Sent, Transport};
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};
use sockets::batch::{self, Incoming};
use sockets::limits::{BATCH_COUNT, EVENTS_MAX, RESPONSE_BYTES_KEPT};
use sockets::system::{self, enable_stamps};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// One socket per source.
pub(in crate::engine) struct PerSourceSockets {
    poll: Poll,
    events: Events,
    /// Clients with pending datagrams, taken from the end.
    ready: Vec<usize>,
    /// By client. Clients with other transports have none.
    sockets: Vec<Option<SourceSocket>>,
    /// Queries in the order of sending, for timeouts.
    sent: VecDeque<SentQuery>,
    waiting: usize,
    scratch: Vec<u8>,
    incoming: Incoming,
    stamps: StampClock,
}

/// A client and its socket.
struct SourceSocket {
    socket: UdpSocket,
    server: SocketAddr,
    window: Window,
}

/// A query that may time out.
struct SentQuery {
    sent_ns: u64,
    client: u32,
    number: u64,
}

impl PerSourceSockets {
    /// Opens a socket for each client.
    pub(in crate::engine) fn open(plan: &Plan, clients: &[Endpoint], stamps: StampClock) -> io::Result<Self> {
        let poll = Poll::new()?;
        let entry = |(index, client): (usize, &Endpoint)| -> io::Result<Option<SourceSocket>> {
            if client.transport != Transport::Udp {
                return Ok(None);
            }
            let mut socket = UdpSocket::from_std(open(*client)?);
            poll.registry().register(&mut socket, Token(index), Interest::READABLE)?;
            Ok(Some(SourceSocket { socket, server: client.server, window: Window::default() }))
        };
        let sockets = clients.iter().enumerate().map(entry).collect::<io::Result<_>>()?;
        let bytes_kept = if plan.checking.is_some() { RESPONSE_BYTES_CHECKED } else { RESPONSE_BYTES_KEPT };
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            ready: Vec::new(),
            sockets,
            sent: VecDeque::new(),
            waiting: 0,
            scratch: system::memory(QUERY_BYTES_MAX),
            incoming: Incoming::with_buffer_bytes(bytes_kept),
            stamps,
        })
    }

    /// Sends a message that `fill` writes. Returns `false` if there is no room.
    pub(in crate::engine) fn send(
        &mut self,
        stats: &mut WorkerStats,
        mut sent: Sent,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> io::Result<bool> {
        let Some(entry) = self.sockets.get_mut(sent.client as usize).and_then(Option::as_mut) else {
            return Ok(false);
        };
        if !entry.window.has_room() {
            return Ok(false);
        }
        let length = fill(&mut self.scratch);
        let message = &mut self.scratch[..length];
        let parties = Parties { transport: Transport::Udp, server: entry.server, client: Some(sent.client) };
        sent.row = stats.begin(sent, parties, message);
        let number = entry.window.insert(message, sent);
        if hand_over(&entry.socket, message, &mut stats.totals.refusals)? {
            stats.queries(Transport::Udp, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, length);
            self.sent.push_back(SentQuery { sent_ns: sent.sent_ns, client: sent.client, number });
            self.waiting += 1;
        } else {
            entry.window.mark_lost(number);
            stats.unsent(sent);
            stats.queries(Transport::Udp, sent.sent_ns).send_errors += 1;
        }
        Ok(true)
    }

    /// Receives up to a batch. Returns the number of datagrams.
    fn receive_from(&mut self, client: usize, stats: &mut WorkerStats) -> io::Result<usize> {
        let Some(entry) = self.sockets.get_mut(client).and_then(Option::as_mut) else { return Ok(0) };
        let count = match self.incoming.receive(&entry.socket) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                stats.totals.refusals += 1;
                // There may be answers after an ICMP error.
                return Ok(BATCH_COUNT);
            }
            other => other?,
        };
        let now = stats.clock.now_ns();
        for index in 0..count {
            let at = self.stamps.arrival_ns(self.incoming.stamp(index), now, &mut stats.totals.unstamped);
            let message = self.incoming.message(index);
            let waiting = entry.window.waiting();
            let (mut arrival, written_ns) = entry.window.arrive(message);
            self.waiting -= waiting - entry.window.waiting();
            if let Arrival::Answer { is_first, .. } = &mut arrival {
                // Datagrams have no connection, so none is its first query.
                *is_first = false;
            }
            stats.arrived(Transport::Udp, at, message, arrival, written_ns);
            stats.count_cut_bytes(Transport::Udp, at, self.incoming.cut_bytes(index));
        }
        Ok(count)
    }

    fn poll_ready(&mut self) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        self.ready.extend(self.events.iter().map(|event| event.token().0));
        Ok(())
    }

    /// Reads all pending datagrams.
    fn drain(&mut self, stats: &mut WorkerStats) -> io::Result<()> {
        loop {
            self.poll_ready()?;
            if self.ready.is_empty() {
                return Ok(());
            }
            while let Some(client) = self.ready.pop() {
                while self.receive_from(client, stats)? == BATCH_COUNT {}
            }
        }
    }
}

impl TransportDriver for PerSourceSockets {
    fn waiting(&self) -> usize {
        self.waiting
    }

    fn flush(&mut self, _: &mut WorkerStats, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, stats: &mut WorkerStats, until: u64) -> io::Result<bool> {
        if self.ready.is_empty() {
            self.poll_ready()?;
        }
        let has_worked = !self.ready.is_empty();
        while let Some(client) = self.ready.pop() {
            while self.receive_from(client, stats)? == BATCH_COUNT {}
            if stats.clock.now_ns() >= until {
                break;
            }
        }
        Ok(has_worked)
    }

    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        let before = now.saturating_sub(stats.timeout_ns());
        if self.sent.front().is_none_or(|front| front.sent_ns >= before) {
            return Ok(());
        }
        // Reads pending answers before timing out queries.
        if self.waiting > 0 {
            self.drain(stats)?;
        }
        while let Some(SentQuery { client, number, .. }) = self.sent.pop_front_if(|front| front.sent_ns < before) {
            let entry = self.sockets[client as usize].as_mut();
            if let Some(query) = entry.and_then(|entry| entry.window.time_out(number)) {
                self.waiting -= 1;
                stats.timed_out(Transport::Udp, query.sent);
            }
        }
        Ok(())
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.push(libc::pollfd { fd: self.poll.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    }

    fn restart(&mut self, clock: Clock) {
        self.stamps = StampClock::new(clock);
    }

    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()> {
        self.drain(stats)?;
        for entry in self.sockets.iter_mut().flatten() {
            entry.window.drain().for_each(|query| stats.unanswered_at_end(Transport::Udp, query.sent, is_broken_off));
            stats.totals.dropped += u64::from(batch::dropped(&entry.socket));
            stats.count_port(Transport::Udp, entry.server);
        }
        self.waiting = 0;
        Ok(())
    }
}

/// A socket connected to the server of a client.
fn open(client: Endpoint) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(client.server), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    // The system may grant less. Resulting drops are counted.
    let _granted = socket.set_recv_buffer_size(SOURCE_BUFFER_BYTES);
    if let Some(source) = client.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect(&client.server.into())?;
    // Without timestamps, the time of reading counts, and the report says so.
    let _stamped = enable_stamps(&socket);
    Ok(socket.into())
}

/// Sends a message. Returns `false` if the kernel did not accept it.
fn hand_over(socket: &UdpSocket, message: &[u8], refusals: &mut u64) -> io::Result<bool> {
    for _ in 0..SEND_TRIES_MAX {
        match socket.send(message) {
            Ok(_) => return Ok(true),
            // An ICMP error for an earlier datagram. This one has not been sent.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => *refusals += 1,
            Err(error) if is_transient(&error) => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
