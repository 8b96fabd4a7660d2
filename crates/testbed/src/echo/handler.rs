//! Handles queries of all transports of a thread: injects faults and counts.

use super::counts::Counts;
use super::fault::{Fault, Faults, ReceivedQuery, Reply};
use measure::Transport;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// State shared by all transports of a thread.
pub(super) struct RequestHandler {
    pub(super) faults: Faults,
    pub(super) counts: Arc<Counts>,
    pub(super) start: Instant,
}

impl RequestHandler {
    /// Counts a query and chooses its fault.
    pub(super) fn fault(&self, message: &[u8], transport: Transport, client: SocketAddr, number: u64) -> Fault {
        self.counts.queries[transport as usize].fetch_add(1, Ordering::Relaxed);
        (self.faults)(&ReceivedQuery { message, transport, client, at: self.start.elapsed(), number })
    }

    /// The reply to a query.
    pub(super) fn reply(&self, message: &[u8], transport: Transport, client: SocketAddr, number: u64) -> Reply {
        Reply::new(message, self.fault(message, transport, client, number))
    }

    pub(super) fn connected(&self, transport: Transport) {
        self.counts.connections[transport as usize].fetch_add(1, Ordering::Relaxed);
        self.counts.open[transport as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn disconnected(&self, transport: Transport) {
        self.counts.open[transport as usize].fetch_sub(1, Ordering::Relaxed);
    }
}
