//! Counters of an echo server.

use measure::Transport;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a server, summed over its threads.
#[derive(Debug, Default)]
pub struct Counts {
    /// Queries by transport, in the order of [`Transport::ALL`].
    pub queries: [AtomicU64; 5],
    /// Connections by transport.
    pub connections: [AtomicU64; 5],
    /// Open connections by transport.
    pub open: [AtomicU64; 5],
}

impl Counts {
    /// Queries over a transport.
    #[must_use]
    pub fn queries_of(&self, transport: Transport) -> u64 {
        self.queries[transport as usize].load(Ordering::Relaxed)
    }

    /// Connections over a transport.
    #[must_use]
    pub fn connections_of(&self, transport: Transport) -> u64 {
        self.connections[transport as usize].load(Ordering::Relaxed)
    }
}
