//! Latency of busy clients and of all others.

use crate::new_histogram;
use hdrhistogram::Histogram;

/// Latency by class of clients.
#[derive(Clone, Debug)]
pub struct ClientClasses {
    /// Clients with at least this many queries are busy.
    pub busy_queries: u64,
    /// Busy clients.
    pub busy: ClassTally,
    /// All others.
    pub non_busy: ClassTally,
}

/// The clients of one class.
#[derive(Clone, Debug)]
pub struct ClassTally {
    /// Clients with queries that were answered or lost.
    pub clients: u64,
    /// Latency of these queries in nanoseconds, including timeouts.
    pub latency: Histogram<u64>,
}

impl Default for ClassTally {
    fn default() -> Self {
        Self { clients: 0, latency: new_histogram() }
    }
}

impl ClientClasses {
    /// Adds other clients. None of them may be among these.
    pub fn merge(&mut self, other: &Self) {
        for (class, more) in [(&mut self.busy, &other.busy), (&mut self.non_busy, &other.non_busy)] {
            class.clients += more.clients;
            class.latency.add(&more.latency).expect("histograms that grow take any value");
        }
    }
}
