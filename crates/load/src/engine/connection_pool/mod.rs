//! The connections of many clients: which client has which connection, its queries in flight, and its timeouts.
//! It does not know sockets.
//!
//! ```text
//!    choose_connection --> Reuse(slot) | Open --> add
//!    take --> (bytes move) --> update_after_work --> put | handle_closed
//!    queued --> sent, marked --> next_marked             timers --> next_overdue --> handle_closed
//! ```

// The state of a connection.
mod state;
// Deadlines.
mod timers;

use super::endpoint::{ConnectionPolicy, Endpoint};
pub(super) use super::plan::Plan;
use super::worker_stats::WorkerStats;
use measure::{Sent, Transport};
pub(super) use state::{ConnectionState, PooledConnection};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
pub(super) use timers::Timers;

/// How long a client waits after a failed connection.
const RETRY_NS: u64 = 100_000_000;
/// A run ends if every connection has failed for this long.
const GIVE_UP_NS: u64 = 5_000_000_000;
/// Maximum number of concurrent handshakes before the run, or when this thread has fallen behind.
const OPENING_MAX: usize = 128;
/// How soon a connection that may not close yet is checked again.
const RECHECK_NS: u64 = 1_000_000;
/// No connection.
const NONE: u32 = u32::MAX;

/// Connections of one kind, of one worker.
pub(super) struct ConnectionPool<C> {
    slots: Vec<Option<Box<C>>>,
    free: Vec<u32>,
    generation: u32,
    /// The connection of each client.
    current: Vec<u32>,
    /// A client with a failed connection does not retry before this time.
    retry_ns: Vec<u64>,
    clients: Arc<[Endpoint]>,
    policies: Arc<[ConnectionPolicy]>,
    timers: Timers<u64>,
    /// Queries in the order of sending, for timeouts.
    sent: VecDeque<SentQuery>,
    marked: Vec<u32>,
    waiting: usize,
    /// Connections being opened, and clients that will open one before the run.
    opening: usize,
    to_open: Vec<u32>,
    has_opened: bool,
    first_failure_ns: Option<u64>,
    next_client: u32,
    handshake_timeout_ns: u64,
}

/// A query that may time out.
struct SentQuery {
    sent_ns: u64,
    slot: u32,
    generation: u32,
    number: u64,
}

/// The destination of a query.
pub(super) enum ConnectionChoice {
    /// On the connection in this slot.
    Reuse(u32),
    /// A new connection must be opened.
    Open,
    /// No connection: the last attempt of this client has just failed.
    Unavailable,
}

/// The state of a connection before an event.
pub(super) struct PriorState {
    waiting: usize,
    is_open: bool,
}

impl PriorState {
    pub(super) fn of(state: &ConnectionState) -> Self {
        Self { waiting: state.window.waiting(), is_open: state.is_open }
    }

    /// Whether the handshake was complete.
    pub(super) const fn is_open(&self) -> bool {
        self.is_open
    }
}

impl<C: PooledConnection> ConnectionPool<C> {
    /// An empty pool.
    pub(super) fn new(plan: &Plan, clients: Arc<[Endpoint]>, policies: Arc<[ConnectionPolicy]>) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            generation: 0,
            current: vec![NONE; clients.len()],
            retry_ns: vec![0; clients.len()],
            clients,
            policies,
            timers: Timers::new(),
            sent: VecDeque::new(),
            marked: Vec::new(),
            waiting: 0,
            opening: 0,
            to_open: Vec::new(),
            has_opened: false,
            first_failure_ns: None,
            next_client: 0,
            handshake_timeout_ns: plan.handshake_timeout.as_nanos() as u64,
        }
    }

    pub(super) fn endpoint(&self, client: u32) -> Endpoint {
        self.clients[client as usize]
    }

    pub(super) fn policy(&self, client: u32) -> &ConnectionPolicy {
        &self.policies[usize::from(self.endpoint(client).policy)]
    }

    /// Queries in flight.
    pub(super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether connections are being opened.
    pub(super) fn is_opening(&self) -> bool {
        self.opening > 0 || !self.to_open.is_empty()
    }

    /// Whether any connection has ever been opened.
    pub(super) const fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// Timeout of a handshake.
    pub(super) const fn handshake_timeout(&self) -> Duration {
        Duration::from_nanos(self.handshake_timeout_ns)
    }

    /// Whether connections failed and none has ever been opened.
    pub(super) const fn has_only_failed(&self) -> bool {
        self.first_failure_ns.is_some() && !self.has_opened
    }

    /// Makes every client open its connection. See [`ConnectionPool::next_to_open`].
    pub(super) fn open_all(&mut self) {
        self.to_open = (0..self.clients.len() as u32).rev().collect();
    }

    /// The next client that opens its connection. `None` while too many are opening.
    pub(super) fn next_to_open(&mut self) -> Option<u32> {
        if self.opening < OPENING_MAX { self.to_open.pop() } else { None }
    }

    /// The next client in rotation with room for a query. A client without a connection has room.
    pub(super) fn next_with_room(&mut self) -> Option<u32> {
        let count = self.clients.len() as u32;
        for step in 0..count {
            let client = (self.next_client + step) % count;
            let slot = self.current[client as usize];
            if self.get(slot).is_none_or(PooledConnection::has_room) {
                self.next_client = (client + 1) % count;
                return Some(client);
            }
        }
        None
    }

    pub(super) fn get(&mut self, slot: u32) -> Option<&mut C> {
        self.slots.get_mut(slot as usize)?.as_deref_mut()
    }

    /// Takes a connection out to work on it. [`ConnectionPool::put`] or [`ConnectionPool::handle_closed`] must follow.
    pub(super) fn take(&mut self, slot: u32) -> Option<Box<C>> {
        self.slots.get_mut(slot as usize)?.take()
    }

    pub(super) fn put(&mut self, slot: u32, connection: Box<C>) {
        self.slots[slot as usize] = Some(connection);
    }

    /// Whether a query of this client would start a handshake while this thread has fallen behind.
    pub(super) fn would_overload(&mut self, client: u32) -> bool {
        if self.opening < OPENING_MAX {
            return false;
        }
        let slot = self.current[client as usize];
        self.policy(client).reuse < 1.0 || self.get(slot).is_none_or(|connection| !connection.has_room())
    }

    /// The destination of a client's query. `draws` makes a random choice with this probability.
    pub(super) fn choose_connection(&mut self, sent: Sent, draws: impl FnOnce(f64) -> bool) -> ConnectionChoice {
        let client = sent.client as usize;
        let slot = self.current[client];
        let reuse = self.policy(sent.client).reuse;
        if let Some(connection) = self.get(slot) {
            let is_first = connection.state().window.count() == 0;
            if connection.has_room() && (is_first || draws(reuse)) {
                return ConnectionChoice::Reuse(slot);
            }
            self.retire(slot);
        }
        if sent.sent_ns < self.retry_ns[client] { ConnectionChoice::Unavailable } else { ConnectionChoice::Open }
    }

    /// Stops sending on a connection, and closes it when no query is in flight.
    fn retire(&mut self, slot: u32) {
        let Some(connection) = self.get(slot) else { return };
        let state = connection.state_mut();
        state.is_retiring = true;
        let client = state.client;
        self.current[client as usize] = NONE;
        self.mark(slot);
    }

    /// Reserves a slot for a new connection; [`ConnectionPool::add`] or [`ConnectionPool::release_slot`] follows.
    pub(super) fn reserve_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        })
    }

    pub(super) fn release_slot(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Adds a connection that is being opened.
    pub(super) fn add(&mut self, slot: u32, mut connection: C, now: u64) {
        self.generation = self.generation.wrapping_add(1);
        let state = connection.state_mut();
        state.generation = self.generation;
        state.began_ns = now;
        state.timer_ns = now + self.handshake_timeout_ns;
        self.timers.push(state.timer_ns, slot, state.generation);
        self.current[state.client as usize] = slot;
        self.slots[slot as usize] = Some(Box::new(connection));
        self.opening += 1;
    }

    /// Adds a query with this number to a connection.
    pub(super) fn queued(&mut self, slot: u32, sent: Sent, number: u64) {
        let queries_max = self.policy(sent.client).queries_max;
        let Some(connection) = self.get(slot) else { return };
        let state = connection.state_mut();
        state.active_ns = sent.sent_ns;
        let (generation, count) = (state.generation, state.window.count());
        self.sent.push_back(SentQuery { sent_ns: sent.sent_ns, slot, generation, number });
        self.waiting += 1;
        if queries_max.is_some_and(|most| count >= most) {
            self.retire(slot);
        }
        self.mark(slot);
    }

    /// Marks a connection that needs work.
    pub(super) fn mark(&mut self, slot: u32) {
        if let Some(connection) = self.get(slot)
            && !std::mem::replace(&mut connection.state_mut().is_marked, true)
        {
            self.marked.push(slot);
        }
    }

    /// The next connection that needs work.
    pub(super) fn next_marked(&mut self) -> Option<u32> {
        while let Some(slot) = self.marked.pop() {
            // The work may have been done for another reason.
            if self.get(slot).is_some_and(|connection| connection.state().is_marked) {
                return Some(slot);
            }
        }
        None
    }

    /// Updates the pool after work on a connection whose state was `before`.
    pub(super) fn update_after_work(&mut self, slot: u32, state: &mut ConnectionState, before: &PriorState) {
        state.is_marked = false;
        self.waiting -= before.waiting - state.window.waiting();
        if state.is_open && !before.is_open {
            self.opening -= 1;
            self.has_opened = true;
            self.arm_idle(state, slot);
        }
    }

    fn arm_idle(&mut self, state: &mut ConnectionState, slot: u32) {
        if let Some(idle) = self.policy(state.client).idle_timeout {
            state.timer_ns = state.active_ns + idle.as_nanos() as u64;
            self.timers.push(state.timer_ns, slot, state.generation);
        }
    }

    /// A connection that was taken out has ended, and its queries are lost.
    pub(super) fn handle_closed(&mut self, slot: u32, connection: &mut C, stats: &mut WorkerStats, now: u64) {
        let transport = connection.transport();
        let state = connection.state_mut();
        self.waiting -= state.window.waiting();
        state.window.drain().for_each(|sent| stats.lost(transport, sent, now));
        if self.current[state.client as usize] == slot {
            self.current[state.client as usize] = NONE;
        }
        if !state.is_open {
            self.opening -= 1;
        }
        self.free.push(slot);
    }

    /// A handshake has failed.
    pub(super) fn handle_failure(
        &mut self,
        stats: &mut WorkerStats,
        transport: Transport,
        client: u32,
        reason: &str,
        now: u64,
    ) {
        stats.connections(transport, now).failed += 1;
        self.retry_ns[client as usize] = now + RETRY_NS;
        let since = *self.first_failure_ns.get_or_insert(now);
        stats.failure = Some(format!("{} over {transport}: {reason}", self.endpoint(client).server));
        stats.must_abort |= !self.has_opened && now.saturating_sub(since) >= GIVE_UP_NS;
    }

    /// Times out queries that were sent before `before`.
    pub(super) fn expire_queries(&mut self, stats: &mut WorkerStats, before: u64) {
        while let Some(SentQuery { slot, generation, number, .. }) =
            self.sent.pop_front_if(|front| front.sent_ns < before)
        {
            let Some(connection) = self.get(slot) else { continue };
            let transport = connection.transport();
            let state = connection.state_mut();
            if state.generation == generation
                && let Some(sent) = state.window.time_out(number)
            {
                self.waiting -= 1;
                stats.timed_out(transport, sent);
            }
        }
    }

    /// Takes out the next connection whose handshake or idle timeout has expired.
    pub(super) fn next_overdue(&mut self, now: u64) -> Option<(u32, Box<C>)> {
        while let Some((due, slot, generation)) = self.timers.pop(now) {
            let Some(connection) = self.get(slot) else { continue };
            let state = connection.state();
            if state.generation != generation || state.timer_ns != due {
                continue;
            }
            let Some(mut connection) = self.take(slot) else { continue };
            let state = connection.state_mut();
            if !state.is_open {
                return Some((slot, connection));
            }
            if let Some(idle) = self.policy(state.client).idle_timeout {
                let due = state.active_ns + idle.as_nanos() as u64;
                if state.window.waiting() == 0 && due <= now {
                    return Some((slot, connection));
                }
                state.timer_ns = due.max(now + RECHECK_NS);
                self.timers.push(state.timer_ns, slot, generation);
            }
            self.put(slot, connection);
        }
        None
    }

    /// Resets the clock.
    pub(super) fn restart(&mut self) {
        self.timers = Timers::new();
        for slot in 0..self.slots.len() as u32 {
            let Some(mut connection) = self.slots[slot as usize].take() else { continue };
            let state = connection.state_mut();
            (state.began_ns, state.opened_ns, state.active_ns) = (0, 0, 0);
            if state.is_open {
                self.arm_idle(state, slot);
            } else {
                state.timer_ns = self.handshake_timeout_ns;
                self.timers.push(state.timer_ns, slot, state.generation);
            }
            self.put(slot, connection);
        }
        self.retry_ns.fill(0);
        self.first_failure_ns = None;
    }

    /// Counts the remaining queries, and takes out every connection to close it.
    pub(super) fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool, mut close: impl FnMut(&mut C)) {
        for connection in self.slots.iter_mut().flatten() {
            let transport = connection.transport();
            connection
                .state_mut()
                .window
                .drain()
                .for_each(|sent| stats.unanswered_at_end(transport, sent, is_broken_off));
            close(connection);
        }
        self.waiting = 0;
    }
}
