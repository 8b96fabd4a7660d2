//! The transport and the addresses of each client in a run.
//!
//! Without a population, there are as many clients as connections, and all are equal.

use measure::Transport;
use rand::Rng;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A client of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    /// Its transport.
    pub transport: Transport,
    /// Its server.
    pub server: SocketAddr,
    /// Index of its [`ConnectionPolicy`].
    pub policy: u16,
    /// Its source address, if it has its own.
    pub source: Option<IpAddr>,
}

/// How clients use connections.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConnectionPolicy {
    /// Idle time after which a client closes.
    pub idle_timeout: Option<Duration>,
    /// Queries after which a client closes.
    pub queries_max: Option<u64>,
    /// Share of queries, 0 to 1, that use an open connection. The others open a new one.
    pub reuse: f64,
    /// Share of connections, 0 to 1, that resume an earlier TLS session if there is one.
    pub resumption: f64,
    /// Share of resuming connections, 0 to 1, that send early data.
    pub early_data: f64,
    /// Maximum number of queries in flight per connection.
    pub in_flight_max: usize,
    /// Whether a truncated UDP answer is repeated over TCP (RFC 7766 5).
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
    /// Draws the kind of session for the next connection.
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
