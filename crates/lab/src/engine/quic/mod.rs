//! DNS over QUIC (RFC 9250): a stream for each query, many connections on a few client ports.

// One connection.
mod connection;
// A client port, and the QUIC endpoint on it.
mod port;

use super::book::Book;
use super::clock::{Clock, StampClock};
use super::endpoint::{Endpoint, Habits};
use super::matching::Unanswered;
use super::roster::{Before, Life, Roster, Route, Timers};
use super::tls::{Session, TlsConfigs, TlsPlan, explain};
use super::{Plan, Transport::Doq};
use crate::measure::Sent;
use connection::{Connection, Step};
use port::Port;
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, TransportConfig};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// All QUIC connections of a worker.
pub(super) struct Quic {
    ports: Vec<Port>,
    /// The port to be read next.
    next_port: usize,
    stamps: StampClock,
    roster: Roster<Connection>,
    tls: TlsPlan,
    configs: TlsConfigs,
    /// For each kind of session.
    quic_configs: [ClientConfig; 3],
    /// When QUIC itself wants to be called.
    wakes: Timers<Instant>,
    rng: ChaCha8Rng,
}

impl Quic {
    /// Ports, and no connection yet.
    ///
    /// # Errors
    /// When sockets cannot be opened, or the plan names files that cannot be read.
    pub(super) fn new(
        plan: &Plan,
        index: usize,
        clients: Arc<[Endpoint]>,
        habits: Arc<[Habits]>,
        clock: Clock,
    ) -> io::Result<Self> {
        let own = || clients.iter().filter(|client| client.transport == Doq);
        let have_addresses = own().any(|client| client.source.is_some());
        let mut servers: Vec<_> = own().map(|client| client.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let mut ports = Vec::new();
        for at in 0..plan.socket_count {
            for &server in &servers {
                let source = plan.sources.get(at % plan.sources.len().max(1)).copied();
                ports.push(if have_addresses { Port::open_to_all(server) } else { Port::open(server, source) }?);
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
            next_port: 0,
            stamps: StampClock::new(clock),
            roster: Roster::new(plan, clients, habits),
            tls: plan.tls.clone(),
            quic_configs,
            configs,
            wakes: Timers::new(),
            rng,
        })
    }

    /// Every client opens its connection.
    pub(super) fn open_all(&mut self, book: &mut Book) -> io::Result<()> {
        self.roster.open_all();
        self.open_more(book);
        self.flush_ports(book)
    }

    fn open_more(&mut self, book: &mut Book) {
        while let Some(client) = self.roster.next_to_open() {
            if let Some(slot) = self.open(book, client) {
                self.drive(slot, book);
            }
        }
    }

    /// The next client, in turn, that has room; one that has no connection has.
    pub(super) fn next_with_room(&mut self) -> Option<u32> {
        self.roster.next_with_room()
    }

    /// Whether a query of a client may begin a handshake although so many go on that this thread cannot keep up.
    pub(super) fn would_overload(&mut self, client: u32) -> bool {
        self.roster.would_overload(client)
    }

    /// Queues a query on its client's connection, which is opened where there is none.
    pub(super) fn send(&mut self, book: &mut Book, sent: Sent, message: &mut [u8]) {
        book.queries(Doq, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, message.len());
        let rng = &mut self.rng;
        let slot = match self.roster.route(sent, |share| share >= 1.0 || rng.random::<f64>() < share) {
            Route::On(slot) => Some(slot),
            Route::Open => self.open(book, sent.client),
            Route::Nowhere => None,
        };
        let Some((slot, connection)) = slot.and_then(|slot| self.roster.get(slot).map(|connection| (slot, connection)))
        else {
            book.lost(Doq, Unanswered { sent, is_first: true }, sent.sent_ns);
            return;
        };
        let is_first = connection.life.window.count() == 0;
        let number = connection.queue(sent, message);
        self.roster.queued(slot, sent, number);
        book.connections(Doq, sent.sent_ns).reused_queries += u64::from(!is_first);
    }

    fn open(&mut self, book: &mut Book, client: u32) -> Option<u32> {
        let endpoint = self.roster.endpoint(client);
        let now = book.clock.now_ns();
        // Each server has as many ports as every other, in turns.
        let start = client as usize % self.ports.len();
        let mut turns = (start..self.ports.len()).chain(0..start);
        let port = turns.find(|&port| self.ports[port].server() == endpoint.server)?;
        let habits = self.roster.habits(client);
        let session = habits.session(&mut self.rng);
        let name = self.tls.name.clone().unwrap_or_else(|| endpoint.server.ip().to_string());
        let (handle, state) = match self.ports[port].connect(self.quic_configs[session as usize].clone(), &name) {
            Ok(connected) => connected,
            Err(reason) => {
                self.roster.failed(book, Doq, client, &reason, now);
                return None;
            }
        };
        let connection =
            Connection::new(state, handle, (port, endpoint.source), Life::new(client, habits.in_flight_max));
        let slot = self.roster.vacant();
        self.ports[port].owns(handle, slot);
        self.roster.add(slot, connection, now);
        self.roster.mark(slot);
        Some(slot)
    }

    /// Lets a connection do all that it can do.
    fn drive(&mut self, slot: u32, book: &mut Book) {
        let Some(mut connection) = self.roster.take(slot) else { return };
        let before = Before::of(&connection.life);
        let now = Instant::now();
        let step = connection.advance(&mut self.ports[connection.port], book, now);
        if connection.life.is_open && !before.is_open() {
            let connections = book.connections(Doq, connection.life.opened_ns);
            // A certificate is looked at in every handshake in full, and in no other (RFC 8446 2.2).
            connections.resumed += u64::from(!connection.is_verified);
            connections.early_data += u64::from(connection.took_early_data());
        }
        self.roster.settle(slot, &mut connection.life, &before);
        match step {
            Step::GoesOn if connection.life.is_done() => self.end(*connection, slot, None, book),
            Step::GoesOn => {
                if let Some(wake) = connection.next_wake() {
                    self.wakes.push(wake, slot, connection.life.generation);
                }
                self.roster.put(slot, connection);
            }
            Step::Lost(reason) => self.end(*connection, slot, Some(reason), book),
        }
    }

    fn drive_marked(&mut self, book: &mut Book) {
        while let Some(slot) = self.roster.next_marked() {
            self.drive(slot, book);
        }
    }

    /// A connection ends: by us without a reason, by the server with one.
    fn end(&mut self, mut connection: Connection, slot: u32, reason: Option<String>, book: &mut Book) {
        let now = book.clock.now_ns();
        self.roster.ended(slot, &mut connection, book, now);
        connection.close(&mut self.ports[connection.port], Instant::now());
        if connection.life.is_open {
            let lifetime = now.saturating_sub(connection.life.opened_ns);
            book.connections(Doq, now).closed(reason.is_some(), lifetime);
            return;
        }
        let client = connection.life.client;
        let refusal = connection.refusal.take();
        let is_certificate = refusal.is_some();
        let sentence = match (refusal, reason) {
            (Some(error), _) => explain(&error, &self.tls, self.roster.endpoint(client).server),
            (None, Some(reason)) => reason,
            (None, None) => {
                let seconds = self.roster.handshake_timeout().as_secs_f64();
                format!("it did not finish a handshake within {seconds} s")
            }
        };
        self.roster.failed(book, Doq, client, &sentence, now);
        book.is_hopeless |= is_certificate && !self.roster.has_opened();
    }

    fn flush_ports(&mut self, book: &mut Book) -> io::Result<()> {
        for port in &mut self.ports {
            port.flush(&mut book.tail.refusals)?;
        }
        Ok(())
    }

    /// Drives connections whose timers are due.
    fn wake(&mut self, book: &mut Book, until_ns: u64) {
        let now = Instant::now();
        while let Some((due, slot, generation)) = self.wakes.pop(now) {
            if let Some(connection) = self.roster.get(slot)
                && connection.life.generation == generation
                && connection.wakes_at(due)
            {
                self.drive(slot, book);
                if book.clock.now_ns() >= until_ns {
                    return;
                }
            }
        }
    }

    /// Takes datagrams in until there are no more, or the time is up; gives whether there were any.
    fn take(&mut self, book: &mut Book, until_ns: u64) -> io::Result<bool> {
        let mut has_received = false;
        for _ in 0..self.ports.len() {
            let port = self.next_port;
            if !self.ports[port].fill(&mut book.tail.refusals)? {
                self.next_port = (port + 1) % self.ports.len();
                continue;
            }
            has_received = true;
            while self.ports[port].take(&mut self.roster, &self.configs, &mut self.stamps, book, until_ns)? {
                self.drive_marked(book);
                if book.clock.now_ns() >= until_ns {
                    return Ok(true);
                }
            }
            self.next_port = (port + 1) % self.ports.len();
        }
        Ok(has_received)
    }
}

impl super::Lane for Quic {
    fn waiting(&self) -> usize {
        self.roster.waiting()
    }

    fn is_opening(&self) -> bool {
        self.roster.is_opening()
    }

    fn has_only_failed(&self) -> bool {
        self.roster.has_only_failed()
    }

    fn flush(&mut self, book: &mut Book, _: u64) -> io::Result<()> {
        self.drive_marked(book);
        self.flush_ports(book)
    }

    fn receive(&mut self, book: &mut Book, until_ns: u64) -> io::Result<bool> {
        let has_received = self.take(book, until_ns)?;
        self.wake(book, until_ns);
        self.open_more(book);
        super::Lane::flush(self, book, 0)?;
        Ok(has_received)
    }

    fn tick(&mut self, book: &mut Book, now: u64) -> io::Result<()> {
        self.roster.expire_queries(book, now.saturating_sub(book.timeout_ns()));
        while let Some((slot, connection)) = self.roster.next_overdue(now) {
            self.end(*connection, slot, None, book);
        }
        self.flush_ports(book)
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.extend(self.ports.iter().map(Port::watch));
    }

    fn next_timer(&self) -> Option<Instant> {
        self.wakes.next()
    }

    fn restart(&mut self, clock: Clock) {
        self.stamps = StampClock::new(clock);
        self.roster.restart();
    }

    fn finish(&mut self, book: &mut Book, is_broken_off: bool) -> io::Result<()> {
        self.roster.finish(book, is_broken_off, |connection| {
            connection.close(&mut self.ports[connection.port], Instant::now());
        });
        for port in &mut self.ports {
            port.flush(&mut book.tail.refusals)?;
            book.tail.dropped += port.dropped();
            book.hold_port(Doq, port.server());
        }
        Ok(())
    }
}
