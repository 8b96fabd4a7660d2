//! Latency by class of clients, and in round trips: parts of `summary.json`.

use super::{Quantiles, Summary};
use measure::{ClassTally, ClientClasses};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Latency of busy and of other clients (LDplayer, IMC 2018, Figure 15).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientLatency {
    /// Clients with at least this many queries are busy.
    pub busy_queries: u64,
    /// Busy clients.
    pub busy: ClassLatency,
    /// All others.
    pub non_busy: ClassLatency,
}

/// The clients of one class.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassLatency {
    /// Clients with queries.
    pub clients: u64,
    /// Their queries, without those that were interrupted.
    pub queries: u64,
    /// Their share of all clients.
    pub client_share: f64,
    /// Their share of all queries.
    pub query_share: f64,
    /// Their latency in microseconds, with timeouts.
    pub latency_us: Quantiles,
    /// The same in round trips, if the round trip is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_rtts: Option<Quantiles>,
}

/// Latency in round trips.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RttLatency {
    /// The round trip between client and server, in microseconds, as the user gave it.
    pub rtt_us: f64,
    /// Latency of all queries in round trips, with timeouts.
    pub latency_rtts: Quantiles,
}

impl From<&ClientClasses> for ClientLatency {
    fn from(classes: &ClientClasses) -> Self {
        let of = |tally: &ClassTally| ClassLatency {
            clients: tally.clients,
            queries: tally.latency.len(),
            latency_us: Quantiles::of(&tally.latency),
            ..ClassLatency::default()
        };
        let both =
            Self { busy_queries: classes.busy_queries, busy: of(&classes.busy), non_busy: of(&classes.non_busy) };
        both.with_shares()
    }
}

impl ClientLatency {
    fn with_shares(mut self) -> Self {
        let clients = (self.busy.clients + self.non_busy.clients).max(1) as f64;
        let queries = (self.busy.queries + self.non_busy.queries).max(1) as f64;
        for class in [&mut self.busy, &mut self.non_busy] {
            class.client_share = class.clients as f64 / clients;
            class.query_share = class.queries as f64 / queries;
        }
        self
    }

    /// The classes of two processes together. Their clients differ. Only quantiles are known, so the larger one is kept
    /// as an upper bound.
    pub(super) fn joined(self, other: Self) -> Self {
        let of = |one: ClassLatency, other: ClassLatency| ClassLatency {
            clients: one.clients + other.clients,
            queries: one.queries + other.queries,
            latency_us: Quantiles::bound(one.latency_us, other.latency_us),
            ..ClassLatency::default()
        };
        let both = Self {
            busy_queries: self.busy_queries,
            busy: of(self.busy, other.busy),
            non_busy: of(self.non_busy, other.non_busy),
        };
        both.with_shares()
    }
}

impl Summary {
    /// Adds latency in round trips of this length. Zero adds nothing.
    pub fn note_rtt(&mut self, rtt: Duration) {
        let rtt_us = rtt.as_secs_f64() * 1e6;
        if rtt_us <= 0.0 {
            return;
        }
        let in_rtts = |latency: &Quantiles| latency.scaled(1.0 / rtt_us);
        self.rtt = Some(RttLatency { rtt_us, latency_rtts: in_rtts(&self.total.latency_us) });
        for class in self.client_latency.iter_mut().flat_map(|classes| [&mut classes.busy, &mut classes.non_busy]) {
            class.latency_rtts = Some(in_rtts(&class.latency_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{new_histogram, record};

    fn tally(clients: u64, latencies_us: &[u64]) -> ClassTally {
        let mut latency = new_histogram();
        latencies_us.iter().for_each(|us| record(&mut latency, us * 1_000));
        ClassTally { clients, latency }
    }

    #[test]
    fn classes_have_their_shares_and_their_latency() {
        let classes = ClientClasses { busy_queries: 3, busy: tally(1, &[10; 6]), non_busy: tally(3, &[40, 80]) };
        let latency = ClientLatency::from(&classes);
        assert_eq!((latency.busy.client_share, latency.busy.query_share), (0.25, 0.75));
        assert_eq!((latency.non_busy.queries, latency.non_busy.query_share), (2, 0.25));
        assert!((latency.busy.latency_us.p50 - 10.0).abs() < 0.02 && latency.non_busy.latency_us.p50 > 39.0);
        let joined = latency.clone().joined(latency);
        assert_eq!((joined.busy.clients, joined.busy.queries, joined.busy.query_share), (2, 12, 0.75));
    }
}
