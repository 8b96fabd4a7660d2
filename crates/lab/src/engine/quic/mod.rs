//! DNS over QUIC (RFC 9250): a stream for each query, many connections on a few client ports.

// One connection.
mod connection;
// A client port, and the QUIC endpoint on it.
mod port;

use super::book::Book;
use super::endpoint::{Endpoint, Habits};
use super::stream::timers::Timers;
use super::tls::{Session, TlsConfigs, TlsPlan, explain};
use super::{Plan, Transport::Doq};
use crate::measure::Sent;
use connection::{Connection, Step};
use port::Port;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, TransportConfig};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long nothing is tried after a connection has failed.
const RETRY_NS: u64 = 100_000_000;
/// A run whose every connection failed for so long is given up.
const HOPELESS_NS: u64 = 5_000_000_000;
/// Handshakes at once, when all connections are opened before the run.
const OPENING_MAX: usize = 128;
/// No connection.
const NONE: u32 = u32::MAX;

/// All QUIC connections of a worker.
pub(super) struct Quic {
    ports: Vec<Port>,
    slots: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    generation: u32,
    current: Vec<u32>,
    retry_ns: Vec<u64>,
    clients: Arc<[Endpoint]>,
    habits: Arc<[Habits]>,
    tls: TlsPlan,
    configs: TlsConfigs,
    /// For each kind of session.
    quic_configs: [ClientConfig; 3],
    /// When QUIC itself wants to be called.
    wakes: BinaryHeap<Reverse<(Instant, u32, u32)>>,
    timers: Timers,
    sent: VecDeque<(u64, u32, u32, u64)>,
    dirty: Vec<u32>,
    waiting: usize,
    opening: usize,
    to_open: Vec<u32>,
    has_opened: bool,
    first_failure_ns: Option<u64>,
    next_client: u32,
    handshake_timeout_ns: u64,
    rng: ChaCha8Rng,
}

impl Quic {
    /// Ports, and no connection yet.
    ///
    /// # Errors
    /// When sockets cannot be opened, or the plan names files that cannot be read.
    pub(super) fn new(plan: &Plan, index: usize, clients: Arc<[Endpoint]>, habits: Arc<[Habits]>) -> io::Result<Self> {
        let mut servers: Vec<_> =
            clients.iter().filter(|client| client.transport == Doq).map(|client| client.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let mut ports = Vec::new();
        for at in 0..plan.socket_count {
            for &server in &servers {
                let source = plan.sources.get(at % plan.sources.len().max(1)).copied();
                ports.push(Port::open(server, source)?);
            }
        }
        let mut transport = TransportConfig::default();
        // DNS messages are small: probes for larger datagrams would only cost.
        transport.mtu_discovery_config(None);
        // The server's idle time-out rules, and ours by our own clock.
        transport
            .max_idle_timeout(None)
            .max_concurrent_bidi_streams(0u32.into())
            .max_concurrent_uni_streams(0u32.into());
        let transport = Arc::new(transport);
        let configs = TlsConfigs::new(&plan.tls, Doq).map_err(io::Error::other)?;
        let config = |session| {
            let crypto = QuicClientConfig::try_from(configs.of(session)).map_err(io::Error::other)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(Arc::clone(&transport));
            Ok::<_, io::Error>(config)
        };
        let quic_configs = [config(Session::Fresh)?, config(Session::Resumed)?, config(Session::Early)?];
        let mut rng = ChaCha8Rng::seed_from_u64(plan.seed);
        rng.set_stream(2_000 + index as u64);
        Ok(Self {
            ports,
            slots: Vec::new(),
            free: Vec::new(),
            generation: 0,
            current: vec![NONE; clients.len()],
            retry_ns: vec![0; clients.len()],
            clients,
            habits,
            tls: plan.tls.clone(),
            quic_configs,
            configs,
            wakes: BinaryHeap::new(),
            timers: Timers::default(),
            sent: VecDeque::new(),
            dirty: Vec::new(),
            waiting: 0,
            opening: 0,
            to_open: Vec::new(),
            has_opened: false,
            first_failure_ns: None,
            next_client: 0,
            handshake_timeout_ns: plan.handshake_timeout.as_nanos() as u64,
            rng,
        })
    }

    /// Every client opens its connection.
    pub(super) fn open_all(&mut self, book: &mut Book) -> io::Result<()> {
        self.to_open = (0..self.clients.len() as u32).rev().collect();
        self.open_more(book);
        self.flush_ports(book)
    }

    fn open_more(&mut self, book: &mut Book) {
        while self.opening < OPENING_MAX
            && let Some(client) = self.to_open.pop()
        {
            if let Some(slot) = self.open(book, client) {
                self.drive(slot, book);
            }
        }
    }

    /// The next client, in turn, that has room; one that has no connection has.
    pub(super) fn next_with_room(&mut self) -> Option<u32> {
        let count = self.clients.len() as u32;
        let found = (0..count).map(|step| (self.next_client + step) % count).find(|&client| {
            let slot = self.current[client as usize];
            self.slots.get(slot as usize).and_then(Option::as_ref).is_none_or(|connection| connection.has_room())
        })?;
        self.next_client = (found + 1) % count;
        Some(found)
    }

    /// Queues a query on its client's connection, which is opened where there is none.
    pub(super) fn send(&mut self, book: &mut Book, sent: Sent, message: &mut [u8]) -> io::Result<()> {
        book.queries(Doq, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, message.len());
        let slot = match self.usable(sent.client) {
            Some(slot) => Some(slot),
            None if sent.sent_ns < self.retry_ns[sent.client as usize] => None,
            None => self.open(book, sent.client),
        };
        let Some((slot, connection)) =
            slot.and_then(|slot| self.slots[slot as usize].as_mut().map(|connection| (slot, connection)))
        else {
            book.lost(Doq, sent, sent.sent_ns);
            return Ok(());
        };
        if connection.window.count() > 0 {
            book.connections(Doq, sent.sent_ns).reused_queries += 1;
        }
        let number = connection.queue(sent, message);
        self.sent.push_back((sent.sent_ns, slot, connection.generation, number));
        self.waiting += 1;
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

    fn usable(&mut self, client: u32) -> Option<u32> {
        let slot = self.current[client as usize];
        let connection = self.slots.get_mut(slot as usize)?.as_mut()?;
        let reuse = self.habits[usize::from(self.clients[client as usize].habits)].reuse;
        let is_first = connection.window.count() == 0;
        if connection.has_room() && (is_first || reuse >= 1.0 || self.rng.random::<f64>() < reuse) {
            return Some(slot);
        }
        connection.is_retiring = true;
        self.current[client as usize] = NONE;
        if !std::mem::replace(&mut connection.is_dirty, true) {
            self.dirty.push(slot);
        }
        None
    }

    fn open(&mut self, book: &mut Book, client: u32) -> Option<u32> {
        let endpoint = self.clients[client as usize];
        let habits = self.habits[usize::from(endpoint.habits)];
        let now = book.clock.now_ns();
        // Each server has as many ports as every other, in turns.
        let start = client as usize % self.ports.len();
        let mut turns = (start..self.ports.len()).chain(0..start);
        let port = turns.find(|&port| self.ports[port].server() == endpoint.server)?;
        let session = habits.session(&mut self.rng);
        let name = self.tls.name.clone().unwrap_or_else(|| endpoint.server.ip().to_string());
        let (handle, state) = match self.ports[port].connect(self.quic_configs[session as usize].clone(), &name) {
            Ok(connected) => connected,
            Err(reason) => {
                self.failed(book, client, reason, now);
                return None;
            }
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.generation = self.generation.wrapping_add(1);
        self.ports[port].owns(handle, slot);
        let mut connection = Connection::new(state, handle, port, client, self.generation, habits.in_flight_max);
        connection.began_ns = now;
        connection.timer_ns = now + self.handshake_timeout_ns;
        self.timers.push(connection.timer_ns, slot, connection.generation);
        connection.is_dirty = true;
        self.dirty.push(slot);
        self.slots[slot as usize] = Some(Box::new(connection));
        self.current[client as usize] = slot;
        self.opening += 1;
        Some(slot)
    }

    fn failed(&mut self, book: &mut Book, client: u32, reason: String, now: u64) {
        book.connections(Doq, now).failed += 1;
        self.retry_ns[client as usize] = now + RETRY_NS;
        let since = *self.first_failure_ns.get_or_insert(now);
        book.failure = Some(format!("{} over doq: {reason}", self.clients[client as usize].server));
        book.is_hopeless |= !self.has_opened && now.saturating_sub(since) >= HOPELESS_NS;
    }

    /// Lets a connection do all that it can do.
    fn drive(&mut self, slot: u32, book: &mut Book) {
        let Some(mut connection) = self.slots.get_mut(slot as usize).and_then(Option::take) else { return };
        connection.is_dirty = false;
        let (was_open, was_waiting) = (connection.is_open, connection.window.waiting());
        let now = Instant::now();
        let step = connection.advance(&mut self.ports[connection.port], book, now);
        self.waiting -= was_waiting - connection.window.waiting();
        if connection.is_open && !was_open {
            self.opening -= 1;
            self.has_opened = true;
            let connections = book.connections(Doq, connection.opened_ns);
            // A certificate is looked at in every handshake in full, and in no other (RFC 8446 2.2).
            connections.resumed += u64::from(!connection.is_verified);
            connections.early_data += u64::from(connection.took_early_data());
            self.arm_idle(&mut connection, slot);
        }
        match step {
            Step::GoesOn if connection.is_retiring && connection.is_open && connection.window.waiting() == 0 => {
                self.end(*connection, slot, None, book);
            }
            Step::GoesOn => {
                if let Some(wake) = connection.next_wake() {
                    self.wakes.push(Reverse((wake, slot, connection.generation)));
                }
                self.slots[slot as usize] = Some(connection);
            }
            Step::Lost(reason) => self.end(*connection, slot, Some(reason), book),
        }
    }

    fn arm_idle(&mut self, connection: &mut Connection, slot: u32) {
        let habits = &self.habits[usize::from(self.clients[connection.client as usize].habits)];
        if let Some(idle) = habits.idle_timeout {
            connection.timer_ns = connection.active_ns + idle.as_nanos() as u64;
            self.timers.push(connection.timer_ns, slot, connection.generation);
        }
    }

    /// A connection ends: by us without a reason, by the server with one.
    fn end(&mut self, mut connection: Connection, slot: u32, reason: Option<String>, book: &mut Book) {
        let now = book.clock.now_ns();
        let client = connection.client;
        self.waiting -= connection.window.waiting();
        connection.window.drain().for_each(|sent| book.lost(Doq, sent, now));
        if self.current[client as usize] == slot {
            self.current[client as usize] = NONE;
        }
        connection.close(&mut self.ports[connection.port], Instant::now());
        if connection.is_open {
            let lifetime = now.saturating_sub(connection.opened_ns);
            book.connections(Doq, now).closed(reason.is_some(), lifetime);
        } else {
            self.opening -= 1;
            let server = self.clients[client as usize].server;
            let refusal = connection.refusal.take();
            let is_certificate = refusal.is_some();
            let sentence = match (refusal, reason) {
                (Some(error), _) => explain(&error, &self.tls, server),
                (None, Some(reason)) => reason,
                (None, None) => {
                    let seconds = Duration::from_nanos(self.handshake_timeout_ns).as_secs_f64();
                    format!("it did not finish a handshake within {seconds} s")
                }
            };
            self.failed(book, client, sentence, now);
            book.is_hopeless |= is_certificate && !self.has_opened;
        }
        self.free.push(slot);
    }

    fn flush_ports(&mut self, book: &mut Book) -> io::Result<()> {
        for port in &mut self.ports {
            port.flush(&mut book.tail.refusals)?;
        }
        Ok(())
    }

    fn wake(&mut self, book: &mut Book) {
        let now = Instant::now();
        while let Some(Reverse((due, slot, generation))) = self.wakes.peek().copied().filter(|entry| entry.0.0 <= now) {
            self.wakes.pop();
            if let Some(Some(connection)) = self.slots.get_mut(slot as usize)
                && connection.generation == generation
                && connection.wakes_at(due)
            {
                self.drive(slot, book);
            }
        }
    }

    fn expire(&mut self, book: &mut Book, now: u64) {
        let before = now.saturating_sub(book.timeout_ns());
        while let Some(&(_, slot, generation, number)) = self.sent.front().filter(|front| front.0 < before) {
            if let Some(Some(connection)) = self.slots.get_mut(slot as usize)
                && connection.generation == generation
                && let Some(sent) = connection.window.time_out(number)
            {
                self.waiting -= 1;
                book.timed_out(Doq, sent);
            }
            self.sent.pop_front();
        }
        while let Some((due, slot, generation)) = self.timers.pop(now) {
            let Some(connection) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else { continue };
            if connection.generation != generation || connection.timer_ns != due {
                continue;
            }
            if connection.is_open {
                let habits = &self.habits[usize::from(self.clients[connection.client as usize].habits)];
                let Some(idle) = habits.idle_timeout else { continue };
                let due = connection.active_ns + idle.as_nanos() as u64;
                if connection.window.waiting() > 0 || due > now {
                    connection.timer_ns = due.max(now + 1_000_000);
                    self.timers.push(connection.timer_ns, slot, generation);
                    continue;
                }
            }
            if let Some(connection) = self.slots[slot as usize].take() {
                self.end(*connection, slot, None, book);
            }
        }
    }
}

impl super::Lane for Quic {
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
            self.drive(slot, book);
        }
        self.flush_ports(book)
    }

    fn receive(&mut self, book: &mut Book) -> io::Result<bool> {
        let mut touched = Vec::new();
        for port in &mut self.ports {
            port.receive(&mut self.slots, &mut touched, &self.configs, &mut book.tail.refusals)?;
        }
        let has_received = !touched.is_empty();
        for slot in touched {
            self.drive(slot, book);
        }
        self.wake(book);
        if !self.to_open.is_empty() {
            self.open_more(book);
        }
        super::Lane::flush(self, book, 0)?;
        Ok(has_received)
    }

    fn tick(&mut self, book: &mut Book, now: u64) -> io::Result<()> {
        self.wake(book);
        self.expire(book, now);
        self.flush_ports(book)
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.extend(self.ports.iter().map(Port::watch));
    }

    fn next_timer(&self) -> Option<Instant> {
        self.wakes.peek().map(|Reverse((due, _, _))| *due)
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
            connection.window.drain().for_each(|sent| book.left(Doq, sent, is_broken_off));
            connection.close(&mut self.ports[connection.port], Instant::now());
        }
        self.waiting = 0;
        for port in &mut self.ports {
            port.flush(&mut book.tail.refusals)?;
            book.tail.dropped += port.dropped();
        }
        Ok(())
    }
}
