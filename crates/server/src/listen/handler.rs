//! The handler of one transport on one runtime: it answers messages, and keeps the limits of connections.

use super::connection_table::{ConnectionPermit, ConnectionTable};
use super::counters::{AllConnections, CloseReason, ConnectionCounters, ListenCounters};
use super::drain::Drain;
use super::handshake_rate::HandshakeRate;
use super::memory::{MemoryBudget, MemoryReservation};
use super::min_send_rate::MinSendRate;
use super::{Action, PinnedResponder, Reply, Responder, Transport};
use crate::combiner::Dispatch;
use crate::limits::{DATAGRAM_BYTES_MAX, DEFERRED_MS_MAX, HANDSHAKE_MS, HANDSHAKES_MAX, HANDSHAKES_PER_CLIENT_MAX};
use config::Tcp;
use config::subnet::Subnet;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Minimum number of deadline checks within an idle timeout.
const CHECKS_PER_IDLE: u32 = 4;
/// Divides timeouts while most slots are in use.
const NEARLY_FULL_DIVISOR: u32 = 10;
/// Memory estimate of a TCP connection. docs/history/transports.md has the measured sizes of all transports.
const CONNECTION_TCP_BYTES: usize = 8 << 10;
/// The same over TLS, including one TLS record in either direction.
const CONNECTION_DOT_BYTES: usize = 32 << 10;
/// The same over HTTPS, including 40 KiB for an incomplete TLS record and header block.
const CONNECTION_DOH_BYTES: usize = 92 << 10;
/// The same over QUIC.
const CONNECTION_DOQ_BYTES: usize = 48 << 10;

/// The limits of connections, over all transports.
#[derive(Clone)]
pub(crate) struct ConnectionLimits {
    /// Open connections.
    pub(crate) connections: Arc<ConnectionTable>,
    /// Handshakes in progress.
    pub(crate) handshakes: Arc<ConnectionTable>,
    /// Rate of new handshakes of each client.
    pub(crate) handshake_rate: Arc<HandshakeRate>,
    /// Memory that all connections use.
    pub(crate) memory: Arc<MemoryBudget>,
    /// Time after which an idle connection, or one whose client reads nothing, is closed.
    pub(crate) idle: Duration,
}

/// Base memory of a connection, without its messages.
const fn base_bytes(transport: Transport) -> usize {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => CONNECTION_TCP_BYTES,
        Transport::Dot => CONNECTION_DOT_BYTES,
        Transport::Doh => CONNECTION_DOH_BYTES,
        Transport::Doq => CONNECTION_DOQ_BYTES,
    }
}

impl ConnectionLimits {
    /// Clients in exempt networks have no limit on handshakes.
    pub(crate) fn new(limits: &Tcp, exempt: &[Subnet]) -> Self {
        Self {
            connections: ConnectionTable::new(limits.connections_max, limits.connections_per_client_max),
            handshakes: ConnectionTable::new(HANDSHAKES_MAX, HANDSHAKES_PER_CLIENT_MAX),
            handshake_rate: Arc::new(HandshakeRate::new(limits, exempt)),
            memory: Arc::new(MemoryBudget::new(limits.memory_bytes_max)),
            idle: Duration::from_millis(limits.idle_ms),
        }
    }

    /// The idle timeout now. It is shorter while connections or memory run out (RFC 7766 6.2.3).
    pub(crate) fn idle_timeout(&self) -> Duration {
        let is_nearly_full = self.connections.is_nearly_full() || self.memory.is_nearly_full();
        if is_nearly_full { self.idle / NEARLY_FULL_DIVISOR } else { self.idle }
    }

    /// How long a client that waits for a response may be silent.
    pub(crate) fn response_timeout(&self) -> Duration {
        self.idle.max(Duration::from_millis(DEFERRED_MS_MAX))
    }

    /// Bytes in use.
    #[cfg(test)]
    pub(super) fn memory_used(&self) -> usize {
        self.memory.used()
    }

    /// Time limit of a handshake now. It is shorter while most slots are in use.
    fn handshake_timeout(&self) -> Duration {
        let most = Duration::from_millis(HANDSHAKE_MS);
        if self.handshakes.is_nearly_full() { most / NEARLY_FULL_DIVISOR } else { most }
    }

    /// Runs a handshake; `None` when it takes too long.
    pub(super) async fn with_handshake_timeout<T>(&self, handshake: impl Future<Output = T>) -> Option<T> {
        let (mut handshake, since) = (pin!(handshake), Instant::now());
        loop {
            // The limit may shrink meanwhile.
            let check = Instant::now() + Duration::from_millis(HANDSHAKE_MS) / NEARLY_FULL_DIVISOR;
            let deadline = check.min(since + self.handshake_timeout());
            if let Ok(outcome) = tokio::time::timeout_at(deadline, handshake.as_mut()).await {
                return Some(outcome);
            }
            if since + self.handshake_timeout() <= Instant::now() {
                return None;
            }
        }
    }

    /// When to check a deadline again; it may move closer before then.
    pub(crate) fn next_check(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.idle / CHECKS_PER_IDLE)
    }
}

/// Memory and progress of one connection whose exchanges have their own tasks.
pub(crate) struct ConnectionUsage {
    bytes: Cell<usize>,
    reservation: RefCell<MemoryReservation>,
    /// When bytes last went to the client.
    progress_at: Cell<Instant>,
    /// Whether the client reads fast enough.
    send_rate: Cell<MinSendRate>,
    /// Exchanges with data that waits for the client.
    sending_count: Cell<usize>,
}

/// Counts one sending exchange until it is dropped.
struct SendGuard<'h>(&'h ConnectionUsage);

/// Memory of one exchange. Dropping it releases the memory.
pub(crate) struct ExchangeUsage<'h> {
    usage: &'h ConnectionUsage,
    base: usize,
    /// Its memory, including the base.
    bytes: usize,
}

/// The memory of all connections is used up, so this connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfMemory;

impl ConnectionUsage {
    /// The usage of a new connection with this idle timeout.
    pub(crate) fn new(reservation: MemoryReservation, idle: Duration) -> Rc<Self> {
        Rc::new(Self {
            bytes: Cell::new(0),
            reservation: RefCell::new(reservation),
            progress_at: Cell::new(Instant::now()),
            send_rate: Cell::new(MinSendRate::new(idle)),
            sending_count: Cell::new(0),
        })
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Memory of one exchange, which counts as at least `base` bytes.
    pub(crate) fn exchange(&self, base: usize) -> Result<ExchangeUsage<'_>, OutOfMemory> {
        self.reservation.borrow().record_activity(Instant::now());
        let mut exchange_usage = ExchangeUsage { usage: self, base, bytes: 0 };
        exchange_usage.set(0)?;
        Ok(exchange_usage)
    }

    /// Changes the memory of one part from `from` to `to` bytes.
    pub(crate) fn resize(&self, from: usize, to: usize) -> Result<(), OutOfMemory> {
        self.bytes.set(self.bytes.get() + to - from);
        let is_granted = self.reservation.borrow_mut().set(self.bytes.get());
        is_granted.then_some(()).ok_or(OutOfMemory)
    }

    /// Records that one more exchange has data for the client.
    pub(crate) fn begin_send(&self) {
        self.sending_count.set(self.sending_count.get() + 1);
        self.with_send_rate(|send_rate| send_rate.begin(Instant::now()));
    }

    /// Records that an exchange has no more data for the client.
    pub(crate) fn end_send(&self) {
        self.sending_count.set(self.sending_count.get() - 1);
        if self.sending_count.get() == 0 {
            self.with_send_rate(MinSendRate::end);
        }
    }

    /// Records that this many bytes went to the client.
    pub(crate) fn record_sent(&self, bytes: usize) {
        let now = Instant::now();
        self.progress_at.set(now);
        self.reservation.borrow().record_activity(now);
        self.with_send_rate(|send_rate| send_rate.record_sent(bytes, now));
    }

    /// Records that the client accepts more bytes.
    pub(crate) fn record_progress(&self) {
        self.progress_at.set(Instant::now());
    }

    fn with_send_rate(&self, change: impl FnOnce(&mut MinSendRate)) {
        let mut send_rate = self.send_rate.get();
        change(&mut send_rate);
        self.send_rate.set(send_rate);
    }

    /// The send rate of the client.
    pub(super) const fn send_rate(&self) -> MinSendRate {
        self.send_rate.get()
    }

    /// Runs a future while the client reads; `None` if it reads nothing for `idle_timeout`, or is too slow. Bytes of
    /// other exchanges count too, because this exchange may wait for them.
    pub(crate) async fn while_progressing<T>(
        &self,
        idle_timeout: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        self.begin_send();
        let _guard = SendGuard(self);
        let mut future = pin!(future);
        let mut since = Instant::now();
        loop {
            let check = self.send_rate().deadline_or(since + idle_timeout);
            if let Ok(output) = tokio::time::timeout_at(check, future.as_mut()).await {
                return Some(output);
            }
            let now = Instant::now();
            let is_stalled = since + idle_timeout <= now && self.progress_at.get() <= since;
            if is_stalled || self.send_rate().is_too_slow(now) {
                return None;
            }
            since = since.max(self.progress_at.get());
        }
    }
}

impl Drop for SendGuard<'_> {
    fn drop(&mut self) {
        self.0.end_send();
    }
}

impl<'h> ExchangeUsage<'h> {
    /// The connection of this exchange.
    pub(crate) const fn connection(&self) -> &'h ConnectionUsage {
        self.usage
    }

    /// Sets its memory, not counting the base.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let to = self.base + bytes;
        let from = std::mem::replace(&mut self.bytes, to);
        self.usage.resize(from, to)
    }
}

impl Drop for ExchangeUsage<'_> {
    fn drop(&mut self) {
        // Less memory is always granted.
        let _granted = self.usage.resize(self.bytes, 0);
    }
}

/// An open connection: its permit, its base memory, and its entry in the gauge.
pub(crate) struct OpenConnection<R> {
    handler: Rc<TransportHandler<R>>,
    permit: ConnectionPermit,
}

impl<R> OpenConnection<R> {
    /// Admits a connection, or returns the reason for refusing it.
    pub(crate) fn enter(handler: &Rc<TransportHandler<R>>, client: IpAddr) -> Result<Self, CloseReason> {
        let limits = &handler.limits;
        let permit = limits.connections.acquire(client).ok_or(CloseReason::OverLimit)?;
        if !limits.memory.reserve(permit.bytes(), base_bytes(handler.transport)) {
            return Err(CloseReason::Memory);
        }
        handler.connections.accepted.one_shared();
        handler.connections.open.enter(usize::MAX);
        Ok(Self { handler: handler.clone(), permit })
    }

    /// Runs the connection's work; returns true if the connection was evicted.
    pub(crate) async fn unless_evicted(&self, work: Pin<&mut impl Future<Output = ()>>) -> bool {
        let is_evicted = self.permit.unless_evicted(work).await.is_none();
        if is_evicted {
            self.handler.connections.record_close(CloseReason::Evicted);
        }
        is_evicted
    }

    /// Memory of its messages; none yet.
    pub(crate) fn reservation(&self) -> MemoryReservation {
        MemoryReservation::new(&self.handler.limits.memory, &self.permit)
    }
}

impl<R> Drop for OpenConnection<R> {
    fn drop(&mut self) {
        self.handler.connections.open.leave();
        self.handler.limits.memory.release(self.permit.bytes(), base_bytes(self.handler.transport));
    }
}

/// Answers the messages of one transport on one runtime.
pub(crate) struct TransportHandler<R> {
    pub(crate) transport: Transport,
    pub(crate) limits: ConnectionLimits,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) counters: Arc<ListenCounters>,
    /// Started when the node stops.
    pub(crate) drain: Rc<Drain>,
    state: RefCell<ResponderState<R>>,
}

/// Responses are made one at a time, so one buffer is enough.
struct ResponderState<R> {
    responder: R,
    out: Vec<u8>,
}

/// A panic while a response was made. It is a bug, and has been counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Panicked;

impl<R: Responder> TransportHandler<R> {
    pub(crate) fn new(
        transport: Transport,
        responder: R,
        limits: &ConnectionLimits,
        connections: &AllConnections,
        counters: Arc<ListenCounters>,
    ) -> Self {
        let state = RefCell::new(ResponderState { responder, out: vec![0; DATAGRAM_BYTES_MAX] });
        let (limits, connections, drain) = (limits.clone(), connections.of(transport).clone(), Rc::default());
        Self { transport, limits, connections, counters, drain, state }
    }

    /// Answers one message from the newest version. `take` gets the response; `reply` makes the destination of a
    /// deferred response.
    pub(crate) fn respond(
        &self,
        bytes: &[u8],
        peer: SocketAddr,
        reply: impl FnOnce() -> Reply,
        take: impl FnOnce(&[u8]),
    ) -> Result<Action, Panicked> {
        let mut state = self.state.borrow_mut();
        let ResponderState { responder, out } = &mut *state;
        // A panic is a bug. It costs only this connection.
        let action = catch_unwind(AssertUnwindSafe(|| {
            let mut pinned = responder.pin();
            match pinned.respond(bytes, peer, self.transport, out) {
                Action::Defer => pinned.defer(bytes, reply(), Dispatch::Queued, out),
                action => action,
            }
        }));
        responder.offline();
        let Ok(action) = action else {
            self.counters.panics.one_shared();
            return Err(Panicked);
        };
        if let Action::Respond(len) = action {
            take(&out[..len]);
        }
        Ok(action)
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::CONNECTION_MEMORY_FREE_BYTES;
    use super::super::memory::tests::{MAX, limits, share};
    use super::*;

    #[test]
    fn memory_of_exchanges_is_added_up() {
        let limits = limits();
        let usage = ConnectionUsage::new(share(&limits, "192.0.2.1"), limits.idle);
        let (mut one, mut other) = (usage.exchange(0).unwrap(), usage.exchange(100).unwrap());
        assert!(one.set(CONNECTION_MEMORY_FREE_BYTES).is_ok() && other.set(900).is_ok());
        assert_eq!((usage.bytes(), limits.memory.used()), (CONNECTION_MEMORY_FREE_BYTES + 1_000, 1_000));
        assert_eq!(other.set(MAX + 1), Err(OutOfMemory));
        drop((one, other));
        assert_eq!((usage.bytes(), limits.memory.used()), (0, 0));
    }

    #[test]
    fn idle_timeout_is_shorter_when_memory_runs_out() {
        let limits = limits();
        let mut shares = ["192.0.2.1", "192.0.2.2"].map(|client| share(&limits, client));
        assert!(shares[0].set(MAX / 2) && limits.idle_timeout() == limits.idle);
        assert!(shares[1].set(MAX / 4));
        let mut third = share(&limits, "192.0.2.3");
        assert!(third.set(MAX / 8));
        assert!(limits.memory.is_nearly_full() && limits.idle_timeout() == limits.idle / NEARLY_FULL_DIVISOR);
    }

    #[test]
    fn handshake_timeout_is_shorter_when_most_slots_are_in_use() {
        let limits = limits();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let most = Duration::from_millis(HANDSHAKE_MS);
        let fill = || -> Vec<ConnectionPermit> {
            let clients =
                (0..HANDSHAKES_MAX - HANDSHAKES_MAX / 4 + 1).map(|index| (index / HANDSHAKES_PER_CLIENT_MAX) as u8);
            clients.map(|client| limits.handshakes.acquire([192, 0, 2, client].into()).unwrap()).collect()
        };
        runtime.block_on(async {
            assert_eq!(limits.with_handshake_timeout(std::future::ready(7)).await, Some(7));
            // A handshake in progress when the slots fill up.
            let start = Instant::now();
            let fill_later = async {
                tokio::time::sleep(most / 5).await;
                fill()
            };
            let never = limits.with_handshake_timeout(std::future::pending::<()>());
            let (outcome, permits) = tokio::join!(never, fill_later);
            let range = most / 5..most / 2;
            assert!(outcome.is_none() && range.contains(&start.elapsed()), "{:?}", start.elapsed());
            // A handshake that starts later.
            let start = Instant::now();
            assert!(limits.with_handshake_timeout(std::future::pending::<()>()).await.is_none());
            let range = most / NEARLY_FULL_DIVISOR..most / 5;
            assert!(range.contains(&start.elapsed()), "{:?}", start.elapsed());
            drop(permits);
            let with_handshake_timeout = limits.with_handshake_timeout(tokio::time::sleep(most / 5));
            assert!(with_handshake_timeout.await.is_some(), "there is room again");
        });
    }

    #[test]
    fn an_exchange_ends_when_the_client_stops_reading() {
        const TIMEOUT: Duration = Duration::from_millis(400);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limits = limits();
        let usage = ConnectionUsage::new(share(&limits, "192.0.2.1"), limits.idle);
        runtime.block_on(async {
            let start = Instant::now();
            let others = async {
                for _ in 0..8 {
                    tokio::time::sleep(TIMEOUT / 4).await;
                    usage.record_progress();
                }
            };
            let never = usage.while_progressing(TIMEOUT, std::future::pending::<()>());
            let (outcome, ()) = tokio::join!(never, others);
            let waited = start.elapsed();
            assert!(outcome.is_none() && waited >= 3 * TIMEOUT, "{waited:?}");
            assert_eq!(usage.while_progressing(TIMEOUT, std::future::ready(7)).await, Some(7));
        });
    }
}
