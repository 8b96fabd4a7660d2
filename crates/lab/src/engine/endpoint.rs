//! Who asks whom, and how: one entry for each client of a run.
//!
//! A run without a population has as many clients as it has connections, all alike.

use super::{Plan, Transport};
use rand::Rng;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A client, as the engine sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// How it asks.
    pub transport: Transport,
    /// Whom.
    pub server: SocketAddr,
    /// Index of its [`ConnectionPolicy`].
    pub policy: u16,
    /// From which address, where it has one of its own.
    pub source: Option<IpAddr>,
}

/// How clients treat their connections.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConnectionPolicy {
    /// Silence after which a client closes.
    pub idle_timeout: Option<Duration>,
    /// Queries after which a client closes.
    pub queries_max: Option<u64>,
    /// Share of queries, 0 to 1, that use an open connection; the others open a new one.
    pub reuse: f64,
    /// Share of connections, 0 to 1, that resume an earlier TLS session if there is one.
    pub resumption: f64,
    /// Share of those, 0 to 1, that send early data.
    pub early_data: f64,
    /// Queries that wait on one connection.
    pub in_flight_max: usize,
    /// Whether a truncated answer over UDP is asked for again over TCP (RFC 7766 5).
    pub follows_truncation: bool,
}

impl Default for ConnectionPolicy {
    fn default() -> Self {
        Self {
            idle_timeout: None,
            queries_max: None,
            reuse: 1.0,
            resumption: 0.0,
            early_data: 0.0,
            in_flight_max: crate::limits::CONNECTION_IN_FLIGHT_DEFAULT,
            follows_truncation: false,
        }
    }
}

impl ConnectionPolicy {
    /// Which session the next connection is to begin with.
    pub(super) fn session(&self, rng: &mut impl Rng) -> super::tls::Session {
        use super::tls::Session;
        if self.resumption <= 0.0 || rng.random::<f64>() >= self.resumption {
            Session::Fresh
        } else if rng.random::<f64>() < self.early_data {
            Session::Early
        } else {
            Session::Resumed
        }
    }
}

/// The clients of worker `index` when all are alike.
pub(super) fn uniform(plan: &Plan, index: usize) -> Vec<Endpoint> {
    if plan.transport == Transport::Udp {
        return Vec::new();
    }
    let count = plan.connection_count.max(1);
    (0..count)
        .map(|at| {
            let server = plan.servers[(at + index * count) % plan.servers.len()];
            Endpoint { transport: plan.transport, server, policy: 0, source: None }
        })
        .collect()
}
