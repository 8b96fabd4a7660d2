//! The state of a connection, for every transport.

use super::super::matching::Window;
use measure::Transport;

/// The state from the first packet of the handshake to the end. Times are in nanoseconds of the run.
#[derive(Default)]
pub(in crate::engine) struct ConnectionState {
    pub(in crate::engine) client: u32,
    /// Distinguishes it from earlier connections in its slot.
    pub(in crate::engine) generation: u32,
    /// Its queries in flight.
    pub(in crate::engine) window: Window,
    pub(in crate::engine) in_flight_max: usize,
    pub(in crate::engine) began_ns: u64,
    pub(in crate::engine) opened_ns: u64,
    /// When something was last sent or received.
    pub(in crate::engine) active_ns: u64,
    /// The current deadline.
    pub(in crate::engine) timer_ns: u64,
    /// The handshake is complete.
    pub(in crate::engine) is_open: bool,
    /// No more queries are sent. It closes when none is in flight.
    pub(in crate::engine) is_retiring: bool,
    /// It needs work.
    pub(in crate::engine) is_marked: bool,
}

impl ConnectionState {
    /// The state of a new connection.
    pub(in crate::engine) fn new(client: u32, in_flight_max: usize) -> Self {
        Self { client, in_flight_max, ..Self::default() }
    }

    /// Whether another query may be sent.
    pub(in crate::engine) fn has_room(&self) -> bool {
        !self.is_retiring && self.window.waiting() < self.in_flight_max && self.window.has_room()
    }

    /// The handshake is complete.
    pub(in crate::engine) fn opened(&mut self, now: u64) {
        self.is_open = true;
        self.opened_ns = now;
        self.active_ns = now;
    }

    /// Whether it can be closed.
    pub(in crate::engine) fn is_done(&self) -> bool {
        self.is_retiring && self.is_open && self.window.waiting() == 0
    }
}

/// A connection in the pool.
pub(in crate::engine) trait PooledConnection {
    fn state(&self) -> &ConnectionState;
    fn state_mut(&mut self) -> &mut ConnectionState;
    fn transport(&self) -> Transport;
    /// Whether another query may be sent.
    fn has_room(&mut self) -> bool;
}
