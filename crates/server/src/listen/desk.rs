//! What all connections of one runtime and one transport share: who answers, and what they may take.

use super::clients::{Clients, Place};
use super::counters::{AllConnections, ConnectionCounters, Cut, ListenCounters};
use super::drain::Drain;
use super::goodbye::Goodbye;
use super::handshake_rate::HandshakeRate;
use super::memory::{Memory, Share};
use super::{Action, PinnedResponder, Reply, Responder, Transport};
use crate::config::Tcp;
use crate::config::subnet::Subnet;
use crate::limits::{
    CONNECTION_DOH_BYTES, CONNECTION_DOQ_BYTES, CONNECTION_DOT_BYTES, CONNECTION_TCP_BYTES, DATAGRAM_BYTES_MAX,
    DEFERRED_MS_MAX, HANDSHAKE_MS, HANDSHAKES_MAX, HANDSHAKES_PER_CLIENT_MAX,
};
use crate::turn::Company;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a deadline is looked at, at least, in the time that a client may be silent.
const LOOKS: u32 = 4;
/// How much less silence is borne when most places are taken.
const CROWDED_DIVISOR: u32 = 10;

/// What connections may take, of all transports together.
#[derive(Clone)]
pub(crate) struct ConnectionLimits {
    /// Places for connections.
    pub(crate) clients: Arc<Clients>,
    /// Places for handshakes that are under way.
    pub(crate) handshakes: Arc<Clients>,
    /// How many of them a client may begin.
    pub(crate) handshake_rate: Arc<HandshakeRate>,
    /// What all connections take of memory.
    pub(crate) memory: Arc<Memory>,
    /// Silence after which a connection is closed, and time in which a client has to take something of what waits.
    pub(crate) idle: Duration,
}

/// What a connection of a transport is counted as, whatever waits on it.
const fn cost_of(transport: Transport) -> usize {
    match transport {
        Transport::Udp => 0,
        Transport::Tcp => CONNECTION_TCP_BYTES,
        Transport::Dot => CONNECTION_DOT_BYTES,
        Transport::Doh => CONNECTION_DOH_BYTES,
        Transport::Doq => CONNECTION_DOQ_BYTES,
    }
}

impl ConnectionLimits {
    /// Clients of the networks that are exempt may begin handshakes as fast as they can.
    pub(crate) fn new(limits: &Tcp, exempt: &[Subnet]) -> Self {
        Self {
            clients: Clients::new(limits.connections_max, limits.connections_per_client_max),
            handshakes: Clients::new(HANDSHAKES_MAX, HANDSHAKES_PER_CLIENT_MAX),
            handshake_rate: Arc::new(HandshakeRate::new(limits, exempt)),
            memory: Arc::new(Memory::new(limits.memory_bytes_max)),
            idle: Duration::from_millis(limits.idle_ms),
        }
    }

    /// How long a client may be silent now. RFC 7766 6.2.3 lets a server be less patient when it runs out of room: who
    /// asks nothing makes place for who does.
    pub(crate) fn patience(&self) -> Duration {
        let is_crowded = self.clients.is_crowded() || self.memory.is_crowded();
        if is_crowded { self.idle / CROWDED_DIVISOR } else { self.idle }
    }

    /// How long a client may be silent that waits for a response.
    pub(crate) fn waiting_time(&self) -> Duration {
        self.idle.max(Duration::from_millis(DEFERRED_MS_MAX))
    }

    /// Bytes that count now.
    #[cfg(test)]
    pub(super) fn memory_taken(&self) -> usize {
        self.memory.taken()
    }

    /// How long a handshake may take now: less when most places are taken by those that do not come to an end.
    fn handshake_time(&self) -> Duration {
        let most = Duration::from_millis(HANDSHAKE_MS);
        if self.handshakes.is_crowded() { most / CROWDED_DIVISOR } else { most }
    }

    /// Runs a handshake; `None` when it takes too long.
    pub(super) async fn in_time<T>(&self, handshake: impl Future<Output = T>) -> Option<T> {
        let (mut handshake, since) = (pin!(handshake), Instant::now());
        loop {
            // It may become crowded meanwhile.
            let look = Instant::now() + Duration::from_millis(HANDSHAKE_MS) / CROWDED_DIVISOR;
            let deadline = look.min(since + self.handshake_time());
            if let Ok(outcome) = tokio::time::timeout_at(deadline, handshake.as_mut()).await {
                return Some(outcome);
            }
            if since + self.handshake_time() <= Instant::now() {
                return None;
            }
        }
    }

    /// When to look again at a deadline, which may have come nearer by then.
    pub(crate) fn look_at(&self, deadline: Instant) -> Instant {
        deadline.min(Instant::now() + self.idle / LOOKS)
    }
}

/// Bytes that the exchanges of one connection hold, where each has a task of its own.
pub(crate) struct Held {
    bytes: Cell<usize>,
    share: RefCell<Share>,
    /// When bytes last left for the client.
    moved_at: Cell<Instant>,
    /// Whether they leave fast enough.
    drain: Cell<Drain>,
    /// Parts that have something for the client to take.
    waiting_count: Cell<usize>,
}

/// One of those parts.
struct Waits<'h>(&'h Held);

/// What one exchange holds of it; given back when dropped.
pub(crate) struct Holding<'h> {
    held: &'h Held,
    base: usize,
    /// With those of the base.
    bytes: usize,
}

/// All connections together hold as much as they may: this one has to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfMemory;

impl Held {
    /// Of a connection that may be silent for so long.
    pub(crate) fn new(share: Share, idle: Duration) -> Rc<Self> {
        Rc::new(Self {
            bytes: Cell::new(0),
            share: RefCell::new(share),
            moved_at: Cell::new(Instant::now()),
            drain: Cell::new(Drain::new(idle)),
            waiting_count: Cell::new(0),
        })
    }

    #[cfg(test)]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// The part of one exchange, which is counted as so many bytes whatever else it holds.
    pub(crate) fn holding(&self, base: usize) -> Result<Holding<'_>, OutOfMemory> {
        self.share.borrow().active(Instant::now());
        let mut holding = Holding { held: self, base, bytes: 0 };
        holding.set(0)?;
        Ok(holding)
    }

    /// Says that a part of it was one number of bytes and is another now.
    pub(crate) fn change(&self, from: usize, to: usize) -> Result<(), OutOfMemory> {
        self.bytes.set(self.bytes.get() + to - from);
        let is_granted = self.share.borrow_mut().set(self.bytes.get());
        is_granted.then_some(()).ok_or(OutOfMemory)
    }

    /// Takes note that something waits for the client, in one more part.
    pub(crate) fn begin_to_wait(&self) {
        self.waiting_count.set(self.waiting_count.get() + 1);
        self.note(|drain| drain.begin(Instant::now()));
    }

    /// Takes note that nothing waits in one of these parts any more.
    pub(crate) fn end_to_wait(&self) {
        self.waiting_count.set(self.waiting_count.get() - 1);
        if self.waiting_count.get() == 0 {
            self.note(Drain::end);
        }
    }

    /// Takes note that so many bytes left for the client.
    pub(crate) fn took(&self, bytes: usize) {
        let now = Instant::now();
        self.moved_at.set(now);
        self.share.borrow().active(now);
        self.note(|drain| drain.took(bytes, now));
    }

    /// Takes note that the client lets bytes leave.
    pub(crate) fn moved(&self) {
        self.moved_at.set(Instant::now());
    }

    fn note(&self, what: impl FnOnce(&mut Drain)) {
        let mut drain = self.drain.get();
        what(&mut drain);
        self.drain.set(drain);
    }

    /// How fast they leave.
    pub(super) const fn drain(&self) -> Drain {
        self.drain.get()
    }

    /// Waits for a future as long as bytes leave, each within a time of those before, and fast enough: `None` when
    /// they did not. They may be those of other exchanges, behind which this one has to wait for its client to read.
    pub(crate) async fn while_moving<T>(&self, patience: Duration, future: impl Future<Output = T>) -> Option<T> {
        self.begin_to_wait();
        let _waits = Waits(self);
        let mut future = pin!(future);
        let mut since = Instant::now();
        loop {
            let look = self.drain().or_earlier(since + patience);
            if let Ok(output) = tokio::time::timeout_at(look, future.as_mut()).await {
                return Some(output);
            }
            let now = Instant::now();
            let stands = since + patience <= now && self.moved_at.get() <= since;
            if stands || self.drain().is_over(now) {
                return None;
            }
            since = since.max(self.moved_at.get());
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.end_to_wait();
    }
}

impl<'h> Holding<'h> {
    /// What it is a part of.
    pub(crate) const fn held(&self) -> &'h Held {
        self.held
    }

    /// Says how much it holds now beside its base.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let to = self.base + bytes;
        let from = std::mem::replace(&mut self.bytes, to);
        self.held.change(from, to)
    }
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        // What becomes less is always granted.
        let _granted = self.held.change(self.bytes, 0);
    }
}

/// An open connection: its place, what it is counted as, and its share of the gauge.
pub(crate) struct Open<R> {
    desk: Rc<Desk<R>>,
    place: Place,
}

impl<R> Open<R> {
    /// Lets a connection in, or says why not.
    pub(crate) fn enter(desk: &Rc<Desk<R>>, client: IpAddr) -> Result<Self, Cut> {
        let limits = &desk.limits;
        let place = limits.clients.enter(client).ok_or(Cut::OverLimit)?;
        if !limits.memory.put(place.bytes(), cost_of(desk.transport)) {
            return Err(Cut::Memory);
        }
        desk.connections.accepted.one_shared();
        desk.connections.open.enter(usize::MAX);
        Ok(Self { desk: desk.clone(), place })
    }

    /// Does the connection's work, until its place is given to another; says whether it was.
    pub(crate) async fn unless_evicted(&self, work: Pin<&mut impl Future<Output = ()>>) -> bool {
        let is_evicted = self.place.unless_evicted(work).await.is_none();
        if is_evicted {
            self.desk.connections.cut(Cut::Evicted);
        }
        is_evicted
    }

    /// What the connection may hold beside that.
    pub(crate) fn share(&self) -> Share {
        Share::new(&self.desk.limits, &self.place)
    }
}

impl<R> Drop for Open<R> {
    fn drop(&mut self) {
        self.desk.connections.open.leave();
        self.desk.limits.memory.take(self.place.bytes(), cost_of(self.desk.transport));
    }
}

/// Where the messages of one transport are answered, on one runtime.
pub(crate) struct Desk<R> {
    pub(crate) transport: Transport,
    pub(crate) limits: ConnectionLimits,
    pub(crate) connections: Arc<ConnectionCounters>,
    pub(crate) counters: Arc<ListenCounters>,
    /// Said when the node stops.
    pub(crate) goodbye: Rc<Goodbye>,
    work: RefCell<Work<R>>,
}

/// A response is made one at a time, so one buffer is enough.
struct Work<R> {
    responder: R,
    out: Vec<u8>,
}

/// A panic in the making of a response. It is a bug of ours, and has been counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Panicked;

impl<R: Responder> Desk<R> {
    pub(crate) fn new(
        transport: Transport,
        responder: R,
        limits: &ConnectionLimits,
        connections: &AllConnections,
        counters: Arc<ListenCounters>,
    ) -> Self {
        let work = RefCell::new(Work { responder, out: vec![0; DATAGRAM_BYTES_MAX] });
        let (limits, connections, goodbye) = (limits.clone(), connections.of(transport).clone(), Rc::default());
        Self { transport, limits, connections, counters, goodbye, work }
    }

    /// Answers one message from the newest version: `take` gets the response, `reply` says where one goes that has to
    /// wait.
    pub(crate) fn respond(
        &self,
        bytes: &[u8],
        peer: SocketAddr,
        reply: impl FnOnce() -> Reply,
        take: impl FnOnce(&[u8]),
    ) -> Result<Action, Panicked> {
        let mut work = self.work.borrow_mut();
        let Work { responder, out } = &mut *work;
        // A panic is a bug of ours; it costs the connection that met it, never the runtime.
        let action = catch_unwind(AssertUnwindSafe(|| {
            let mut pinned = responder.pin();
            match pinned.respond(bytes, peer, self.transport, out) {
                Action::Defer => pinned.defer(bytes, reply(), Company::Others, out),
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
    use super::super::memory::tests::{MAX, limits, share};
    use super::*;
    use crate::limits::CONNECTION_MEMORY_FREE_BYTES;

    #[test]
    fn what_the_exchanges_of_a_connection_hold_is_added_up() {
        let limits = limits();
        let held = Held::new(share(&limits, "192.0.2.1"), limits.idle);
        let (mut one, mut other) = (held.holding(0).unwrap(), held.holding(100).unwrap());
        assert!(one.set(CONNECTION_MEMORY_FREE_BYTES).is_ok() && other.set(900).is_ok());
        assert_eq!((held.bytes(), limits.memory.taken()), (CONNECTION_MEMORY_FREE_BYTES + 1_000, 1_000));
        assert_eq!(other.set(MAX + 1), Err(OutOfMemory));
        drop((one, other));
        assert_eq!((held.bytes(), limits.memory.taken()), (0, 0));
    }

    #[test]
    fn patience_is_less_when_little_is_left() {
        let limits = limits();
        let mut shares = ["192.0.2.1", "192.0.2.2"].map(|client| share(&limits, client));
        assert!(shares[0].set(MAX / 2) && limits.patience() == limits.idle);
        assert!(shares[1].set(MAX / 4));
        let mut third = share(&limits, "192.0.2.3");
        assert!(third.set(MAX / 8));
        assert!(limits.memory.is_crowded() && limits.patience() == limits.idle / CROWDED_DIVISOR);
    }

    #[test]
    fn handshakes_have_less_time_when_most_places_are_taken() {
        let limits = limits();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let most = Duration::from_millis(HANDSHAKE_MS);
        let crowd = || -> Vec<Place> {
            let clients =
                (0..HANDSHAKES_MAX - HANDSHAKES_MAX / 4 + 1).map(|index| (index / HANDSHAKES_PER_CLIENT_MAX) as u8);
            clients.map(|client| limits.handshakes.enter([192, 0, 2, client].into()).unwrap()).collect()
        };
        runtime.block_on(async {
            assert_eq!(limits.in_time(std::future::ready(7)).await, Some(7));
            // One that is under way when it becomes crowded.
            let start = Instant::now();
            let crowding = async {
                tokio::time::sleep(most / 5).await;
                crowd()
            };
            let never = limits.in_time(std::future::pending::<()>());
            let (outcome, places) = tokio::join!(never, crowding);
            let range = most / 5..most / 2;
            assert!(outcome.is_none() && range.contains(&start.elapsed()), "{:?}", start.elapsed());
            // One that begins then.
            let start = Instant::now();
            assert!(limits.in_time(std::future::pending::<()>()).await.is_none());
            let range = most / CROWDED_DIVISOR..most / 5;
            assert!(range.contains(&start.elapsed()), "{:?}", start.elapsed());
            drop(places);
            let in_time = limits.in_time(tokio::time::sleep(most / 5));
            assert!(in_time.await.is_some(), "there is room again");
        });
    }

    #[test]
    fn who_waits_is_given_up_when_nothing_moves_any_more() {
        const PATIENCE: Duration = Duration::from_millis(400);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let limits = limits();
        let held = Held::new(share(&limits, "192.0.2.1"), limits.idle);
        runtime.block_on(async {
            let start = Instant::now();
            let others = async {
                for _ in 0..8 {
                    tokio::time::sleep(PATIENCE / 4).await;
                    held.moved();
                }
            };
            let never = held.while_moving(PATIENCE, std::future::pending::<()>());
            let (outcome, ()) = tokio::join!(never, others);
            let waited = start.elapsed();
            assert!(outcome.is_none() && waited >= 3 * PATIENCE, "{waited:?}");
            assert_eq!(held.while_moving(PATIENCE, std::future::ready(7)).await, Some(7));
        });
    }
}
