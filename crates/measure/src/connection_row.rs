//! The connections of one second, as stored.

use super::{Quantiles, TransportSecond};
use serde::{Deserialize, Serialize};

/// The connections of one transport in one second: a line of `connections.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionRow {
    /// Start, in seconds from the start of the run.
    pub at: f64,
    /// Transport.
    pub transport: String,
    /// Completed handshakes.
    pub opened: u64,
    /// Failed handshakes.
    pub failed: u64,
    /// Opened connections with a resumed TLS session.
    pub resumed: u64,
    /// Opened connections with queries in 0-RTT data.
    pub early_data: u64,
    /// Queries sent as early data, over QUIC.
    pub early_queries: u64,
    /// Of these: answered, if the server accepted the early data.
    pub early_answers: u64,
    /// Closed by the server.
    pub closed_by_peer: u64,
    /// Closed by this program.
    pub closed_by_us: u64,
    /// Queries on a connection that had carried queries before.
    pub reused_queries: u64,
    /// Open at the end of the second.
    pub open: u64,
    /// Peak number of open connections in the second. Older runs do not have it.
    pub open_max: u64,
    /// TCP connect and TLS or QUIC handshake together, microseconds.
    pub handshake_us: Quantiles,
    /// TCP connect alone, microseconds.
    pub tcp_connect_us: Quantiles,
    /// Lifetime of closed connections, in microseconds.
    pub lifetime_us: Quantiles,
    /// Latency of the first query of each connection, and of queries without a connection, in microseconds.
    pub first_query_us: Quantiles,
    /// Latency of all other queries, microseconds.
    pub reused_query_us: Quantiles,
}

impl ConnectionRow {
    /// The second `index` of a run.
    #[must_use]
    pub fn new(index: u64, transport: &str, stats: &TransportSecond) -> Self {
        let second = &stats.connections;
        Self {
            at: index as f64,
            transport: transport.to_owned(),
            opened: second.opened,
            failed: second.failed,
            resumed: second.resumed,
            early_data: second.early_data,
            early_queries: second.early_queries,
            early_answers: second.early_answers,
            closed_by_peer: second.closed_by_peer,
            closed_by_us: second.closed_by_us,
            reused_queries: second.reused_queries,
            open: second.open,
            open_max: second.open_max,
            handshake_us: Quantiles::of(&second.handshake),
            tcp_connect_us: Quantiles::of(&second.tcp_connect),
            lifetime_us: Quantiles::of(&second.lifetime),
            first_query_us: Quantiles::of(&second.first_query),
            reused_query_us: Quantiles::of(&second.reused_query(&stats.queries.latency)),
        }
    }

    /// Peak number of open connections. Older runs only have the number at the end of the second.
    #[must_use]
    pub fn most_open(&self) -> u64 {
        self.open_max.max(self.open)
    }
}
