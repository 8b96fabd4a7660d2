//! Connections over TCP: plain, with TLS, or with HTTP/2 within it; many thousands in one thread.
//!
//! ```text
//!   send --> Connection (Window: who waits) --> Protocol (Framing | HttpClient) --> Link (TLS, socket)
//!   answer <-- Window <----------------------- Protocol <------------------------- Link <-- events
//! ```

// Octets in and out.
pub(crate) mod link;
// Messages in octets.
pub(crate) mod framing;
// HTTP/2.
mod http;
pub(crate) mod pipe;
// One connection.
mod connection;
// When connections are given up or closed.
pub(super) mod timers;
// How they begin.
mod open;

pub use http::HttpPlan;

use super::book::Book;
use super::endpoint::{Endpoint, Habits};
use super::{Plan, Transport};
use crate::limits::{EVENTS_MAX, STREAM_READ_OCTETS};
use crate::measure::Sent;
use connection::{Connection, Taken};
use mio::event::Event;
use mio::{Events, Poll, Token};
use open::Opener;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;
use timers::Timers;

/// How long nothing is tried after a connection has failed.
const RETRY_NS: u64 = 100_000_000;
/// A run whose every connection failed for so long is given up.
const HOPELESS_NS: u64 = 5_000_000_000;
/// Handshakes at once, when all connections are opened before the run.
const OPENING_MAX: usize = 128;
/// No connection.
const NONE: u32 = u32::MAX;

/// All connections of a worker.
pub(super) struct Streams {
    poll: Poll,
    events: Events,
    ready: Vec<Ready>,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    generation: u32,
    /// The connection of each client.
    current: Vec<u32>,
    /// Until when a client whose connection failed tries no other.
    retry_ns: Vec<u64>,
    clients: Arc<[Endpoint]>,
    habits: Arc<[Habits]>,
    opener: Opener,
    timers: Timers,
    /// Queries in the order of sending, for their time-outs.
    sent: VecDeque<Waiting>,
    dirty: Vec<u32>,
    waiting: usize,
    /// Connections that are being opened, and clients that are to open one before the run.
    opening: usize,
    to_open: Vec<u32>,
    has_opened: bool,
    first_failure_ns: Option<u64>,
    next_client: u32,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    handshake_timeout_ns: u64,
}

/// A query that may time out.
struct Waiting {
    sent_ns: u64,
    slot: u32,
    generation: u32,
    number: u64,
}

/// What an event said.
#[derive(Clone, Copy)]
struct Ready {
    slot: u32,
    is_readable: bool,
    is_writable: bool,
    is_closing: bool,
}

/// Why a connection ends.
enum Ending {
    ByUs,
    ByPeer,
    Failed(String),
}

impl Streams {
    /// No connection yet.
    ///
    /// # Errors
    /// When the system gives no epoll, or the plan names files that cannot be read.
    pub(super) fn new(plan: &Plan, index: usize, clients: Arc<[Endpoint]>, habits: Arc<[Habits]>) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS_MAX),
            ready: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            generation: 0,
            current: vec![NONE; clients.len()],
            retry_ns: vec![0; clients.len()],
            opener: Opener::new(plan, index, &clients)?,
            clients,
            habits,
            timers: Timers::default(),
            sent: VecDeque::new(),
            dirty: Vec::new(),
            waiting: 0,
            opening: 0,
            to_open: Vec::new(),
            has_opened: false,
            first_failure_ns: None,
            next_client: 0,
            scratch: vec![0; STREAM_READ_OCTETS],
            plain: Vec::new(),
            handshake_timeout_ns: plan.handshake_timeout.as_nanos() as u64,
        })
    }

    /// Every client opens its connection.
    pub(super) fn open_all(&mut self, book: &mut Book) -> io::Result<()> {
        self.to_open = (0..self.clients.len() as u32).rev().collect();
        self.open_more(book)
    }

    fn open_more(&mut self, book: &mut Book) -> io::Result<()> {
        while self.opening < OPENING_MAX
            && let Some(client) = self.to_open.pop()
        {
            let transport = self.clients[client as usize].transport;
            self.open(book, client, transport)?;
        }
        Ok(())
    }

    /// The next client, in turn, that has room; one that has no connection has.
    pub(super) fn next_with_room(&mut self) -> Option<u32> {
        let count = self.clients.len() as u32;
        for step in 0..count {
            let client = (self.next_client + step) % count;
            let slot = self.current[client as usize];
            let has_room = match self.slots.get_mut(slot as usize) {
                Some(Some(connection)) => connection.has_room(),
                _ => true,
            };
            if has_room {
                self.next_client = (client + 1) % count;
                return Some(client);
            }
        }
        None
    }

    /// Queues a query on its client's connection, which is opened where there is none.
    pub(super) fn send(
        &mut self,
        book: &mut Book,
        sent: Sent,
        transport: Transport,
        message: &mut [u8],
    ) -> io::Result<()> {
        book.queries(transport, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, message.len());
        let slot = match self.usable(sent.client) {
            Some(slot) => slot,
            None if sent.sent_ns < self.retry_ns[sent.client as usize] => {
                book.lost(transport, sent, sent.sent_ns);
                return Ok(());
            }
            None => match self.open(book, sent.client, transport)? {
                Some(slot) => slot,
                None => {
                    book.lost(transport, sent, sent.sent_ns);
                    return Ok(());
                }
            },
        };
        let Some(connection) = self.slots[slot as usize].as_mut() else { return Ok(()) };
        if connection.window.count() > 0 {
            book.connections(transport, sent.sent_ns).reused_queries += 1;
        }
        match connection.send(sent, message, &self.opener.http) {
            Ok(number) => {
                let generation = connection.generation;
                self.sent.push_back(Waiting { sent_ns: sent.sent_ns, slot, generation, number });
                self.waiting += 1;
            }
            Err(_) => {
                // HTTP/2 has ended; its connection will tell.
                book.lost(transport, sent, sent.sent_ns);
                return Ok(());
            }
        }
        if !std::mem::replace(&mut connection.is_dirty, true) {
            self.dirty.push(slot);
        }
        let habits = &self.habits[usize::from(self.clients[sent.client as usize].habits)];
        if habits.queries_max.is_some_and(|most| connection.window.count() >= most) {
            connection.is_retiring = true;
            self.current[sent.client as usize] = NONE;
        }
        Ok(())
    }

    /// The client's connection, if it has one that it would use again.
    fn usable(&mut self, client: u32) -> Option<u32> {
        let slot = self.current[client as usize];
        let connection = self.slots.get_mut(slot as usize)?.as_mut()?;
        let reuse = self.habits[usize::from(self.clients[client as usize].habits)].reuse;
        let is_first = connection.window.count() == 0;
        if connection.has_room() && (is_first || self.opener.draws(reuse)) {
            return Some(slot);
        }
        connection.is_retiring = true;
        self.current[client as usize] = NONE;
        if connection.window.waiting() == 0 && !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(slot);
        }
        None
    }

    /// Opens a connection for a client; `None` when it failed at once.
    fn open(&mut self, book: &mut Book, client: u32, transport: Transport) -> io::Result<Option<u32>> {
        let endpoint = Endpoint { transport, ..self.clients[client as usize] };
        let habits = &self.habits[usize::from(endpoint.habits)];
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.generation = self.generation.wrapping_add(1);
        let now = book.clock.now_ns();
        let opened = self.opener.open(endpoint, habits, client, self.poll.registry(), Token(slot as usize));
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(open::OpenError::Fatal(error)) => return Err(error),
            Err(open::OpenError::Failed(reason)) => {
                self.free.push(slot);
                self.failed(book, transport, client, reason, now);
                return Ok(None);
            }
        };
        connection.generation = self.generation;
        connection.began_ns = now;
        connection.timer_ns = now + self.handshake_timeout_ns;
        self.timers.push(connection.timer_ns, slot, connection.generation);
        self.slots[slot as usize] = Some(Box::new(connection));
        self.current[client as usize] = slot;
        self.opening += 1;
        Ok(Some(slot))
    }

    fn failed(&mut self, book: &mut Book, transport: Transport, client: u32, reason: String, now: u64) {
        book.connections(transport, now).failed += 1;
        self.retry_ns[client as usize] = now + RETRY_NS;
        let since = *self.first_failure_ns.get_or_insert(now);
        book.failure = Some(format!("{} over {transport}: {reason}", self.clients[client as usize].server));
        book.is_hopeless |= !self.has_opened && now.saturating_sub(since) >= HOPELESS_NS;
    }

    fn events(&mut self) -> io::Result<()> {
        self.ready.clear();
        match self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        self.ready.extend(self.events.iter().map(Ready::of));
        Ok(())
    }

    /// Reads, writes and ends what an event asks for.
    fn serve(&mut self, ready: Ready, book: &mut Book) {
        let Some(mut connection) = self.slots.get_mut(ready.slot as usize).and_then(Option::take) else { return };
        let was_open = connection.is_open;
        let was_waiting = connection.window.waiting();
        let ending = self.advance(&mut connection, ready, book);
        self.waiting -= was_waiting - connection.window.waiting();
        if connection.is_open && !was_open {
            self.opening -= 1;
            self.has_opened = true;
            self.arm_idle(&mut connection, ready.slot);
        }
        match ending {
            None => self.slots[ready.slot as usize] = Some(connection),
            Some(ending) => self.end(*connection, ready.slot, ending, book),
        }
    }

    fn advance(&mut self, connection: &mut Connection, ready: Ready, book: &mut Book) -> Option<Ending> {
        if ready.is_writable || ready.is_closing {
            match connection.link.writable() {
                Ok(true) => connection.tcp_connected(book),
                Ok(false) => {}
                Err(error) => return Some(self.opener.reason(connection, &error)),
            }
        }
        let mut end = None;
        if ready.is_readable || ready.is_closing {
            self.plain.clear();
            let read = connection.link.read(&mut self.scratch, &mut self.plain, ready.is_closing);
            end = match read {
                Ok(link::End::Open) => None,
                Ok(link::End::Closed) => Some(self.opener.closed(connection)),
                Err(error) => Some(self.opener.reason(connection, &error)),
            };
        }
        if let Err(reason) = connection.settle_handshake(book) {
            return Some(Ending::Failed(reason));
        }
        if !self.plain.is_empty() && connection.take(&self.plain, book) == Taken::Ended && end.is_none() {
            end = Some(Ending::ByPeer);
        }
        self.plain.clear();
        if end.is_none()
            && let Err(error) = connection.flush(book.clock.now_ns())
        {
            end = Some(self.opener.reason(connection, &error));
        }
        if end.is_none() && connection.is_retiring && connection.window.waiting() == 0 && connection.is_open {
            end = Some(Ending::ByUs);
        }
        end
    }

    fn arm_idle(&mut self, connection: &mut Connection, slot: u32) {
        let habits = &self.habits[usize::from(self.clients[connection.client as usize].habits)];
        if let Some(idle) = habits.idle_timeout {
            connection.timer_ns = connection.active_ns + idle.as_nanos() as u64;
            self.timers.push(connection.timer_ns, slot, connection.generation);
        }
    }

    /// A connection ends, and its queries with it.
    fn end(&mut self, mut connection: Connection, slot: u32, ending: Ending, book: &mut Book) {
        let now = book.clock.now_ns();
        let (transport, client) = (connection.transport, connection.client);
        self.waiting -= connection.window.waiting();
        connection.window.drain().for_each(|sent| book.lost(transport, sent, now));
        if self.current[client as usize] == slot {
            self.current[client as usize] = NONE;
        }
        if !connection.is_open {
            self.opening -= 1;
        }
        match ending {
            Ending::Failed(reason) => {
                self.failed(book, transport, client, reason, now);
                book.is_hopeless |= connection.is_certificate_refused && !self.has_opened;
            }
            Ending::ByPeer => {
                book.queries(transport, now).stray += u64::from(connection.has_partial());
                book.connections(transport, now).closed(true, now.saturating_sub(connection.opened_ns));
            }
            Ending::ByUs => {
                connection.link.close();
                book.connections(transport, now).closed(false, now.saturating_sub(connection.opened_ns));
            }
        }
        // The socket closes with the connection; epoll forgets it then in any case.
        let _gone = self.poll.registry().deregister(connection.link.socket());
        self.free.push(slot);
    }

    fn expire_queries(&mut self, book: &mut Book, before: u64) {
        while let Some(front) = self.sent.front().filter(|front| front.sent_ns < before) {
            if let Some(Some(connection)) = self.slots.get_mut(front.slot as usize)
                && connection.generation == front.generation
                && let Some(sent) = connection.window.time_out(front.number)
            {
                self.waiting -= 1;
                book.timed_out(connection.transport, sent);
            }
            self.sent.pop_front();
        }
    }

    fn expire_connections(&mut self, book: &mut Book, now: u64) {
        while let Some((due, slot, generation)) = self.timers.pop(now) {
            let Some(connection) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else { continue };
            if connection.generation != generation || connection.timer_ns != due {
                continue;
            }
            let ending = if connection.is_open {
                let habits = &self.habits[usize::from(self.clients[connection.client as usize].habits)];
                let Some(idle) = habits.idle_timeout else { continue };
                let due = connection.active_ns + idle.as_nanos() as u64;
                if connection.window.waiting() > 0 || due > now {
                    connection.timer_ns = due.max(now + 1_000_000);
                    self.timers.push(connection.timer_ns, slot, generation);
                    continue;
                }
                Ending::ByUs
            } else {
                let seconds = Duration::from_nanos(self.handshake_timeout_ns).as_secs_f64();
                Ending::Failed(format!("it did not finish a handshake within {seconds} s"))
            };
            if let Some(connection) = self.slots[slot as usize].take() {
                self.end(*connection, slot, ending, book);
            }
        }
    }
}

impl super::Lane for Streams {
    fn waiting(&self) -> usize {
        self.waiting
    }

    fn is_opening(&self) -> bool {
        self.opening > 0 || !self.to_open.is_empty()
    }

    fn has_only_failed(&self) -> bool {
        self.first_failure_ns.is_some() && !self.has_opened
    }

    fn flush(&mut self, book: &mut Book, _: u64) -> io::Result<()> {
        while let Some(slot) = self.dirty.pop() {
            if let Some(Some(connection)) = self.slots.get_mut(slot as usize) {
                connection.is_dirty = false;
                self.serve(Ready { slot, is_readable: false, is_writable: false, is_closing: false }, book);
            }
        }
        Ok(())
    }

    fn receive(&mut self, book: &mut Book) -> io::Result<bool> {
        self.events()?;
        for index in 0..self.ready.len() {
            let ready = self.ready[index];
            self.serve(ready, book);
        }
        if !self.to_open.is_empty() {
            self.open_more(book)?;
        }
        Ok(!self.ready.is_empty())
    }

    fn tick(&mut self, book: &mut Book, now: u64) -> io::Result<()> {
        self.expire_queries(book, now.saturating_sub(book.timeout_ns()));
        self.expire_connections(book, now);
        Ok(())
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.push(libc::pollfd { fd: self.poll.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    }

    fn restart(&mut self) {
        self.timers = Timers::default();
        for slot in 0..self.slots.len() {
            let Some(mut connection) = self.slots[slot].take() else { continue };
            (connection.began_ns, connection.opened_ns, connection.active_ns) = (0, 0, 0);
            if connection.is_open {
                self.arm_idle(&mut connection, slot as u32);
            } else {
                connection.timer_ns = self.handshake_timeout_ns;
                self.timers.push(connection.timer_ns, slot as u32, connection.generation);
            }
            self.slots[slot] = Some(connection);
        }
        self.retry_ns.fill(0);
        self.first_failure_ns = None;
    }

    fn finish(&mut self, book: &mut Book, is_broken_off: bool) -> io::Result<()> {
        for connection in self.slots.iter_mut().flatten() {
            let transport = connection.transport;
            connection.window.drain().for_each(|sent| book.left(transport, sent, is_broken_off));
            connection.link.close();
        }
        self.waiting = 0;
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
