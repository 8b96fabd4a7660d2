//! Datagrams of sources that have a socket each, as long as the run lasts.

use super::batch::{self, Incoming};
use super::channel::{SEND_TRIES_MAX, is_passing};
use crate::engine::clock::{Clock, StampClock};
use crate::engine::endpoint::Endpoint;
use crate::engine::matching::{Arrival, Window};
use crate::engine::system::{self, enable_stamps};
use crate::engine::worker_stats::WorkerStats;
use crate::engine::{Plan, Transport, TransportDriver};
use crate::limits::{
    BATCH_COUNT, EVENTS_MAX, QUERY_BYTES_MAX, RESPONSE_BYTES_CHECKED, RESPONSE_BYTES_KEPT, SOURCE_BUFFER_BYTES,
};
use crate::measure::Sent;
use crate::per_query::Parties;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// See the module.
pub(in crate::engine) struct PerSourceSockets {
    poll: Poll,
    events: Events,
    /// Clients to whom something has come; taken from the end.
    ready: Vec<usize>,
    /// By client; those that ask over other transports have none.
    sockets: Vec<Option<SourceSocket>>,
    /// Queries in the order of sending, for their time-outs.
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
    /// Opens a socket for each of the clients.
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
            incoming: Incoming::keeping(bytes_kept),
            stamps,
        })
    }

    /// Sends a message that `fill` writes; `false` when there is no room for it.
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
        let number = entry.window.enter(message, sent);
        if hand_over(&entry.socket, message, &mut stats.totals.refusals)? {
            stats.queries(Transport::Udp, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, length);
            self.sent.push_back(SentQuery { sent_ns: sent.sent_ns, client: sent.client, number });
            self.waiting += 1;
        } else {
            entry.window.lose(number);
            stats.unsent(sent);
            stats.queries(Transport::Udp, sent.sent_ns).send_errors += 1;
        }
        Ok(true)
    }

    /// Takes in up to a batch; gives how many there were.
    fn receive_from(&mut self, client: usize, stats: &mut WorkerStats) -> io::Result<usize> {
        let Some(entry) = self.sockets.get_mut(client).and_then(Option::as_mut) else { return Ok(0) };
        let count = match self.incoming.receive(&entry.socket) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                stats.totals.refusals += 1;
                // There may be answers behind it.
                return Ok(BATCH_COUNT);
            }
            other => other?,
        };
        let now = stats.clock.now_ns();
        for index in 0..count {
            let at = self.stamps.came(self.incoming.stamp(index), now, &mut stats.totals.unstamped);
            let message = self.incoming.message(index);
            let waiting = entry.window.waiting();
            let (mut arrival, written_ns) = entry.window.arrive(message);
            self.waiting -= waiting - entry.window.waiting();
            if let Arrival::Answer { is_first, .. } = &mut arrival {
                // Datagrams have no connection that one of them could be the first of.
                *is_first = false;
            }
            stats.arrived(Transport::Udp, at, message, arrival, written_ns);
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

    /// Reads all that has come.
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
        // Answers that have come are not given up.
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
            entry.window.drain().for_each(|query| stats.left(Transport::Udp, query.sent, is_broken_off));
            stats.totals.dropped += u64::from(batch::dropped(&entry.socket));
            stats.hold_port(Transport::Udp, entry.server);
        }
        self.waiting = 0;
        Ok(())
    }
}

/// A socket that is connected to the server of a client.
fn open(client: Endpoint) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(client.server), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    // As much as the system grants: too little shows as drops, which are counted.
    let _granted = socket.set_recv_buffer_size(SOURCE_BUFFER_BYTES);
    if let Some(source) = client.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect(&client.server.into())?;
    // Without stamps the time of reading counts, and the report says so.
    let _stamped = enable_stamps(&socket);
    Ok(socket.into())
}

/// Hands the kernel a message; `false` when it did not take it.
fn hand_over(socket: &UdpSocket, message: &[u8], refusals: &mut u64) -> io::Result<bool> {
    for _ in 0..SEND_TRIES_MAX {
        match socket.send(message) {
            Ok(_) => return Ok(true),
            // What an earlier datagram met is told to the next call; that one has not been tried then.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => *refusals += 1,
            Err(error) if is_passing(&error) => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
