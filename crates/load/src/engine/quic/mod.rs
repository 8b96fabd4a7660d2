//! DNS over QUIC (RFC 9250): one stream per query, and many connections on a few client ports.

// One connection.
mod connection;
// A client port with its QUIC endpoint.
mod port;

use super::clock::{Clock, StampClock};
use super::connection_pool::{ConnectionChoice, ConnectionPool, ConnectionState, PriorState, Timers};
use super::endpoint::{ConnectionPolicy, Endpoint};
use super::matching::Unanswered;
use super::plan::Plan;
use super::tls::{Session, TlsConfigs, TlsPlan, explain};
use super::transport_driver::TransportDriver;
use super::worker_stats::WorkerStats;
use connection::{Connection, ConnectionStatus};
use measure::Sent;
use measure::Transport::Doq;
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
    /// The port to read next.
    next_port: usize,
    stamps: StampClock,
    pool: ConnectionPool<Connection>,
    tls: TlsPlan,
    configs: TlsConfigs,
    /// One for each kind of session.
    quic_configs: [ClientConfig; 3],
    /// When QUIC must be called.
    wakes: Timers<Instant>,
    rng: ChaCha8Rng,
}

impl Quic {
    /// Opens the ports, without connections.
    ///
    /// # Errors
    /// If a socket cannot be opened, or a file of the plan cannot be read.
    pub(super) fn new(
        plan: &Plan,
        index: usize,
        clients: Arc<[Endpoint]>,
        policies: Arc<[ConnectionPolicy]>,
        clock: Clock,
    ) -> io::Result<Self> {
        let quic_clients = || clients.iter().filter(|client| client.transport == Doq);
        let have_addresses = quic_clients().any(|client| client.source.is_some());
        let mut servers: Vec<_> = quic_clients().map(|client| client.server).collect();
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
        // DNS messages are small, so probing for larger datagrams has no benefit.
        transport.mtu_discovery_config(None);
        // The idle timeout is the server's, and ours is enforced by the connection pool.
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
            pool: ConnectionPool::new(plan, clients, policies),
            tls: plan.tls.clone(),
            quic_configs,
            configs,
            wakes: Timers::new(),
            rng,
        })
    }

    /// Makes every client open its connection.
    pub(super) fn open_all(&mut self, stats: &mut WorkerStats) -> io::Result<()> {
        self.pool.open_all();
        self.open_more(stats);
        self.flush_ports(stats)
    }

    fn open_more(&mut self, stats: &mut WorkerStats) {
        while let Some(client) = self.pool.next_to_open() {
            if let Some(slot) = self.open(stats, client) {
                self.drive(slot, stats);
            }
        }
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
    pub(super) fn send(&mut self, stats: &mut WorkerStats, sent: Sent, message: &mut [u8]) {
        stats.queries(Doq, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, message.len());
        let rng = &mut self.rng;
        let slot = match self.pool.choose_connection(sent, |share| share >= 1.0 || rng.random::<f64>() < share) {
            ConnectionChoice::Reuse(slot) => Some(slot),
            ConnectionChoice::Open => self.open(stats, sent.client),
            ConnectionChoice::Unavailable => None,
        };
        let Some((slot, connection)) = slot.and_then(|slot| self.pool.get(slot).map(|connection| (slot, connection)))
        else {
            stats.lost(Doq, Unanswered { sent, is_first: true }, sent.sent_ns);
            return;
        };
        let is_first = connection.state.window.count() == 0;
        let number = connection.queue(sent, message);
        self.pool.queued(slot, sent, number);
        stats.connections(Doq, sent.sent_ns).reused_queries += u64::from(!is_first);
    }

    fn open(&mut self, stats: &mut WorkerStats, client: u32) -> Option<u32> {
        let endpoint = self.pool.endpoint(client);
        let now = stats.clock.now_ns();
        // The ports are divided evenly among the servers, in rotation.
        let start = client as usize % self.ports.len();
        let mut order = (start..self.ports.len()).chain(0..start);
        let port = order.find(|&port| self.ports[port].server() == endpoint.server)?;
        let policy = self.pool.policy(client);
        let session = policy.session(&mut self.rng);
        let name = self.tls.name.clone().unwrap_or_else(|| endpoint.server.ip().to_string());
        let (handle, state) = match self.ports[port].connect(self.quic_configs[session as usize].clone(), &name) {
            Ok(connected) => connected,
            Err(reason) => {
                self.pool.handle_failure(stats, Doq, client, &reason, now);
                return None;
            }
        };
        let connection =
            Connection::new(state, handle, (port, endpoint.source), ConnectionState::new(client, policy.in_flight_max));
        let slot = self.pool.reserve_slot();
        self.ports[port].set_slot(handle, slot);
        self.pool.add(slot, connection, now);
        self.pool.mark(slot);
        Some(slot)
    }

    /// Handles all pending work of a connection.
    fn drive(&mut self, slot: u32, stats: &mut WorkerStats) {
        let Some(mut connection) = self.pool.take(slot) else { return };
        let before = PriorState::of(&connection.state);
        let now = Instant::now();
        let status = connection.advance(&mut self.ports[connection.port], stats, now);
        if connection.state.is_open && !before.is_open() {
            let connections = stats.connections(Doq, connection.state.opened_ns);
            // A certificate is verified in every full handshake, and only there (RFC 8446 2.2).
            connections.resumed += u64::from(!connection.is_verified);
            connections.early_data += u64::from(connection.took_early_data());
        }
        self.pool.update_after_work(slot, &mut connection.state, &before);
        match status {
            ConnectionStatus::Open if connection.state.is_done() => self.end(*connection, slot, None, stats),
            ConnectionStatus::Open => {
                if let Some(wake) = connection.next_wake() {
                    self.wakes.push(wake, slot, connection.state.generation);
                }
                self.pool.put(slot, connection);
            }
            ConnectionStatus::Lost(reason) => self.end(*connection, slot, Some(reason), stats),
        }
    }

    fn drive_marked(&mut self, stats: &mut WorkerStats) {
        while let Some(slot) = self.pool.next_marked() {
            self.drive(slot, stats);
        }
    }

    /// Ends a connection. There is a reason if the server ended it.
    fn end(&mut self, mut connection: Connection, slot: u32, reason: Option<String>, stats: &mut WorkerStats) {
        let now = stats.clock.now_ns();
        self.pool.handle_closed(slot, &mut connection, stats, now);
        connection.close(&mut self.ports[connection.port], Instant::now());
        if connection.state.is_open {
            let lifetime = now.saturating_sub(connection.state.opened_ns);
            stats.connections(Doq, now).closed(reason.is_some(), lifetime);
            return;
        }
        let client = connection.state.client;
        let refusal = connection.refusal.take();
        let is_certificate = refusal.is_some();
        let sentence = match (refusal, reason) {
            (Some(error), _) => explain(&error, &self.tls, self.pool.endpoint(client).server),
            (None, Some(reason)) => reason,
            (None, None) => {
                let seconds = self.pool.handshake_timeout().as_secs_f64();
                format!("it did not finish a handshake within {seconds} s")
            }
        };
        self.pool.handle_failure(stats, Doq, client, &sentence, now);
        stats.must_abort |= is_certificate && !self.pool.has_opened();
    }

    fn flush_ports(&mut self, stats: &mut WorkerStats) -> io::Result<()> {
        for port in &mut self.ports {
            port.flush(&mut stats.totals.refusals)?;
        }
        Ok(())
    }

    /// Handles connections whose timers have expired.
    fn wake(&mut self, stats: &mut WorkerStats, until_ns: u64) {
        let now = Instant::now();
        while let Some((due, slot, generation)) = self.wakes.pop(now) {
            if let Some(connection) = self.pool.get(slot)
                && connection.state.generation == generation
                && connection.wakes_at(due)
            {
                self.drive(slot, stats);
                if stats.clock.now_ns() >= until_ns {
                    return;
                }
            }
        }
    }

    /// Receives datagrams until none are pending or the time is up. Returns whether there were any.
    fn take(&mut self, stats: &mut WorkerStats, until_ns: u64) -> io::Result<bool> {
        let mut has_received = false;
        for _ in 0..self.ports.len() {
            let port = self.next_port;
            if !self.ports[port].fill(&mut stats.totals.refusals)? {
                self.next_port = (port + 1) % self.ports.len();
                continue;
            }
            has_received = true;
            while self.ports[port].take(&mut self.pool, &self.configs, &mut self.stamps, stats, until_ns)? {
                self.drive_marked(stats);
                if stats.clock.now_ns() >= until_ns {
                    return Ok(true);
                }
            }
            self.next_port = (port + 1) % self.ports.len();
        }
        Ok(has_received)
    }
}

impl TransportDriver for Quic {
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
        self.drive_marked(stats);
        self.flush_ports(stats)
    }

    fn receive(&mut self, stats: &mut WorkerStats, until_ns: u64) -> io::Result<bool> {
        let has_received = self.take(stats, until_ns)?;
        self.wake(stats, until_ns);
        self.open_more(stats);
        TransportDriver::flush(self, stats, 0)?;
        Ok(has_received)
    }

    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        self.pool.expire_queries(stats, now.saturating_sub(stats.timeout_ns()));
        while let Some((slot, connection)) = self.pool.next_overdue(now) {
            self.end(*connection, slot, None, stats);
        }
        self.flush_ports(stats)
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.extend(self.ports.iter().map(Port::watch));
    }

    fn next_timer(&self) -> Option<Instant> {
        self.wakes.next()
    }

    fn restart(&mut self, clock: Clock) {
        self.stamps = StampClock::new(clock);
        self.pool.restart();
    }

    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()> {
        self.pool.finish(stats, is_broken_off, |connection| {
            connection.close(&mut self.ports[connection.port], Instant::now());
        });
        for port in &mut self.ports {
            port.flush(&mut stats.totals.refusals)?;
            stats.totals.dropped += port.dropped();
            stats.count_port(Doq, port.server());
        }
        Ok(())
    }
}
