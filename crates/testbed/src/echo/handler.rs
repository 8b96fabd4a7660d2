//! Handles queries of all transports of a thread: injects faults and counts.

use super::counts::Counts;
use super::fault::{Faults, ReceivedQuery, Reply};
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
    /// The reply to a query.
    pub(super) fn reply(&self, message: &[u8], transport: Transport, client: SocketAddr, number: u64) -> Reply {
        self.counts.queries[transport as usize].fetch_add(1, Ordering::Relaxed);
        let query = ReceivedQuery { message, transport, client, at: self.start.elapsed(), number };
        Reply::new(message, (self.faults)(&query))
    }

    pub(super) fn connected(&self, transport: Transport) {
        self.counts.connections[transport as usize].fetch_add(1, Ordering::Relaxed);
        self.counts.open[transport as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn disconnected(&self, transport: Transport) {
        self.counts.open[transport as usize].fetch_sub(1, Ordering::Relaxed);
    }
}
