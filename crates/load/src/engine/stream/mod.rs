//! Connections over TCP: plain, with TLS, or with HTTP/2. One thread can have thousands.
//!
//! ```text
//!    send --> Connection (Window: in flight) --> Protocol (Framing | HttpClient) --> Link (TLS, socket)
//!    answer <-- Window <----------------------- Protocol <------------------------- Link <-- events
//! ```

// HTTP/2.
mod http;
// One connection.
mod connection;
// How connections are opened, and from which port.
mod open;
mod ports;

pub use http::HttpPlan;

use super::clock::{Clock, StampClock};
use super::connection_pool::{ConnectionChoice, ConnectionPool, PriorState};
use super::endpoint::{ConnectionPolicy, Endpoint};
use super::matching::Unanswered;
use super::plan::Plan;
use super::port_count::PortCount;
use super::transport_driver::TransportDriver;
use super::worker_stats::WorkerStats;
use connection::{CloseReason, Connection, ConnectionStatus};
use measure::{Sent, Transport};
use mio::event::Event;
use mio::{Events, Poll, Token};
use open::Opener;
use sockets::ReadStatus;
use sockets::limits::{EVENTS_MAX, STREAM_READ_BYTES};
use sockets::system::memory;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// All connections of a worker.
pub(super) struct Streams {
    poll: Poll,
    events: Events,
    /// Pending events, taken from the end.
    ready: Vec<Ready>,
    /// When they were polled.
    polled_ns: u64,
    pool: ConnectionPool<Connection>,
    opener: Opener,
    ports: PortCount,
    stamps: StampClock,
    scratch: Vec<u8>,
    plain: Vec<u8>,
}

/// A socket event.
#[derive(Clone, Copy)]
struct Ready {
    slot: u32,
    is_readable: bool,
    is_writable: bool,
    is_closing: bool,
}

impl Streams {
    /// Starts without connections.
    ///
    /// # Errors
    /// If epoll is not available, or a file of the plan cannot be read.
    pub(super) fn new(
        plan: &Plan,
        index: usize,
        clients: Arc<[Endpoint]>,
        policies: Arc<[ConnectionPolicy]>,
        clock: Clock,
    ) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_MAX),
            ready: Vec::new(),
            polled_ns: 0,
            opener: Opener::new(plan, index, &clients)?,
            pool: ConnectionPool::new(plan, clients, policies),
            ports: PortCount::default(),
            stamps: StampClock::new(clock),
            scratch: memory(STREAM_READ_BYTES),
            plain: Vec::new(),
        })
    }

    /// Makes every client open its connection.
    pub(super) fn open_all(&mut self, stats: &mut WorkerStats) -> io::Result<()> {
        self.pool.open_all();
        self.open_more(stats)
    }

    fn open_more(&mut self, stats: &mut WorkerStats) -> io::Result<()> {
        while let Some(client) = self.pool.next_to_open() {
            let transport = self.pool.endpoint(client).transport;
            self.open(stats, client, transport)?;
        }
        Ok(())
    }

    /// The next client in rotation with room for a query. A client without a connection has room.
    pub(super) fn next_with_room(&mut self) -> Option<u32> {
        self.pool.next_with_room()
    }

    /// Whether a query of this client would start a handshake while this thread has fallen behind.
    pub(super) fn would_overload(&mut self, client: u32) -> bool {
        self.pool.would_overload(client)
    }

    /// Queues a query on its client's connection, and opens one if needed.
    pub(super) fn send(
        &mut self,
        stats: &mut WorkerStats,
        sent: Sent,
        transport: Transport,
        message: &mut [u8],
    ) -> io::Result<()> {
        stats.queries(transport, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, message.len());
        let opener = &mut self.opener;
        let slot = match self.pool.choose_connection(sent, |share| opener.draws(share)) {
            ConnectionChoice::Reuse(slot) => Some(slot),
            ConnectionChoice::Open => self.open(stats, sent.client, transport)?,
            ConnectionChoice::Unavailable => None,
        };
        let Some((slot, connection)) = slot.and_then(|slot| self.pool.get(slot).map(|connection| (slot, connection)))
        else {
            stats.lost(transport, Unanswered { sent, is_first: true }, sent.sent_ns);
            return Ok(());
        };
        let is_first = connection.state.window.count() == 0;
        match connection.send(sent, message, &self.opener.http) {
            Ok(number) => self.pool.queued(slot, sent, number),
            // HTTP/2 has ended. The connection will report it.
            Err(_) => stats.lost(transport, Unanswered { sent, is_first }, sent.sent_ns),
        }
        stats.connections(transport, sent.sent_ns).reused_queries += u64::from(!is_first);
        Ok(())
    }

    /// Opens a connection for a client. `None` if it failed at once.
    fn open(&mut self, stats: &mut WorkerStats, client: u32, transport: Transport) -> io::Result<Option<u32>> {
        let endpoint = Endpoint { transport, ..self.pool.endpoint(client) };
        let slot = self.pool.reserve_slot();
        let now = stats.clock.now_ns();
        let (policy, registry) = (self.pool.policy(client), self.poll.registry());
        match self.opener.open(endpoint, policy, client, registry, Token(slot as usize)) {
            Ok(connection) => {
                self.ports.acquire(transport, endpoint.server);
                self.pool.add(slot, connection, now);
                Ok(Some(slot))
            }
            Err(open::OpenError::Fatal(error)) => Err(error),
            Err(open::OpenError::Failed(reason)) => {
                self.pool.release_slot(slot);
                self.pool.handle_failure(stats, transport, client, &reason, now);
                Ok(None)
            }
        }
    }

    fn events(&mut self) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        self.ready.extend(self.events.iter().map(Ready::of));
        self.ready.reverse();
        Ok(())
    }

    /// Reads, writes and closes as an event requires.
    fn serve(&mut self, ready: Ready, stats: &mut WorkerStats) {
        let Some(mut connection) = self.pool.take(ready.slot) else { return };
        let before = PriorState::of(&connection.state);
        let reason = self.advance(&mut connection, ready, stats);
        self.pool.update_after_work(ready.slot, &mut connection.state, &before);
        match reason {
            None => self.pool.put(ready.slot, connection),
            Some(reason) => self.end(*connection, ready.slot, reason, stats),
        }
    }

    fn advance(&mut self, connection: &mut Connection, ready: Ready, stats: &mut WorkerStats) -> Option<CloseReason> {
        if ready.is_writable || ready.is_closing {
            match connection.link.writable() {
                Ok(true) => connection.tcp_connected(stats),
                Ok(false) => {}
                Err(error) => return Some(self.opener.reason(connection, &error)),
            }
        }
        let mut end = None;
        if ready.is_readable || ready.is_closing {
            self.plain.clear();
            let (read_before, read_ns) = (connection.link.read_count(), stats.clock.now_ns());
            let read = connection.link.read(&mut self.scratch, &mut self.plain, ready.is_closing);
            end = match read {
                Ok(ReadStatus::Open) => None,
                Ok(ReadStatus::Closed) => Some(self.opener.closed(connection)),
                Err(error) => Some(self.opener.reason(connection, &error)),
            };
            if !connection.state.is_open && connection.link.read_count() > read_before {
                // Without a timestamp, use the time of the poll.
                let arrived_ns =
                    connection.link.arrival_stamp().map_or(self.polled_ns, |stamp| self.stamps.at(stamp, read_ns));
                stats.handshake_step(arrived_ns, read_ns);
            }
        }
        if let Err(reason) = connection.check_handshake(stats) {
            return Some(CloseReason::Failed(reason));
        }
        if !self.plain.is_empty() {
            // Several answers in one read get the time of the last one, which is never after the read.
            let now = stats.clock.now_ns();
            let arrived_ns = connection.link.arrival_stamp().map_or(now, |stamp| self.stamps.at(stamp, now));
            if connection.take(&self.plain, arrived_ns, stats) == ConnectionStatus::Closed && end.is_none() {
                end = Some(CloseReason::ByPeer);
            }
        }
        self.plain.clear();
        if end.is_none()
            && let Err(error) = connection.flush(stats.clock.now_ns())
        {
            end = Some(self.opener.reason(connection, &error));
        }
        if end.is_none() && connection.state.is_done() {
            end = Some(CloseReason::ByUs);
        }
        end
    }

    /// Ends a connection and its queries.
    fn end(&mut self, mut connection: Connection, slot: u32, reason: CloseReason, stats: &mut WorkerStats) {
        let now = stats.clock.now_ns();
        let transport = connection.transport;
        self.ports.release(transport, connection.server);
        self.pool.handle_closed(slot, &mut connection, stats, now);
        let lifetime = now.saturating_sub(connection.state.opened_ns);
        match reason {
            CloseReason::Failed(reason) => {
                self.pool.handle_failure(stats, transport, connection.state.client, &reason, now);
                stats.must_abort |= connection.is_certificate_refused && !self.pool.has_opened();
            }
            CloseReason::ByPeer => {
                stats.queries(transport, now).stray += u64::from(connection.has_partial());
                stats.connections(transport, now).closed(true, lifetime);
            }
            CloseReason::ByUs => {
                connection.link.close();
                stats.connections(transport, now).closed(false, lifetime);
            }
        }
        // Closing the socket also removes it from epoll.
        let _removed = self.poll.registry().deregister(connection.link.socket());
    }
}

impl TransportDriver for Streams {
    fn waiting(&self) -> usize {
        self.pool.waiting()
    }

    fn is_opening(&self) -> bool {
        self.pool.is_opening()
    }

    fn has_only_failed(&self) -> bool {
        self.pool.has_only_failed()
    }

    fn flush(&mut self, stats: &mut WorkerStats, _: u64) -> io::Result<()> {
        while let Some(slot) = self.pool.next_marked() {
            self.serve(Ready { slot, is_readable: false, is_writable: false, is_closing: false }, stats);
        }
        Ok(())
    }

    fn receive(&mut self, stats: &mut WorkerStats, until_ns: u64) -> io::Result<bool> {
        if self.ready.is_empty() {
            self.events()?;
            self.polled_ns = stats.clock.now_ns();
        }
        let has_worked = !self.ready.is_empty();
        // A handshake step takes 0.25 ms. Many steps at once would delay the next query.
        while let Some(ready) = self.ready.pop() {
            self.serve(ready, stats);
            if stats.clock.now_ns() >= until_ns {
                break;
            }
        }
        self.open_more(stats)?;
        Ok(has_worked)
    }

    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        self.pool.expire_queries(stats, now.saturating_sub(stats.timeout_ns()));
        while let Some((slot, connection)) = self.pool.next_overdue(now) {
            let reason = if connection.state.is_open {
                CloseReason::ByUs
            } else {
                let seconds = self.pool.handshake_timeout().as_secs_f64();
                CloseReason::Failed(format!("it did not finish a handshake within {seconds} s"))
            };
            self.end(*connection, slot, reason, stats);
        }
        Ok(())
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.push(libc::pollfd { fd: self.poll.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    }

    fn restart(&mut self, clock: Clock) {
        self.stamps = StampClock::new(clock);
        self.pool.restart();
    }

    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()> {
        self.pool.finish(stats, is_broken_off, |connection| connection.link.close());
        stats.totals.ports.extend(self.ports.most());
        Ok(())
    }
}

impl Ready {
    fn of(event: &Event) -> Self {
        Self {
            slot: event.token().0 as u32,
            is_readable: event.is_readable(),
            is_writable: event.is_writable(),
            is_closing: event.is_read_closed() || event.is_error(),
        }
    }
}
