//! What each client of a population saw.

use crate::engine::Transport;
use rand::Rng;
use serde::Serialize;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;
/// Latencies of each client that are kept, a random choice of all.
const LATENCIES_KEPT: usize = 64;

/// What one client saw.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClientTally {
    /// Its number in the population.
    pub client: u64,
    /// How it asked.
    pub transport: Transport,
    /// Queries that it was to send.
    pub sent: u64,
    /// Of these: answered in time.
    pub answered: u64,
    /// Median latency in microseconds, of at most 64 queries, a random choice of all. Queries without an answer stand
    /// at the time-out. Zero when none has come to its end.
    pub p50_us: u32,
    /// The same for p99: of so few the largest.
    pub p99_us: u32,
    /// Longest wait for an answer, in seconds: from the first query after an answer to the next answer, or to the
    /// timeout of the client's last query.
    pub longest_gap_s: f64,
    /// Queries that its rate foresaw; `None` for clients that think after each answer.
    pub expected: Option<f64>,
}

/// One client's account while the run goes on.
#[derive(Clone, Default, Debug)]
pub(super) struct Seen {
    /// Queries that were answered in time.
    pub(super) answered: u64,
    /// Queries that were answered, or will not be.
    settled: u64,
    latencies_us: Vec<u32>,
    /// Time of the latest answer.
    latest_ns: u64,
    /// Start of the current wait for an answer.
    waits_since_ns: Option<u64>,
    /// Longest wait so far.
    longest_gap_ns: u64,
}

impl Seen {
    /// One more query has come to its end.
    pub(super) fn settled(&mut self, is_answered: bool, at_ns: u64, latency_ns: u64, rng: &mut impl Rng) {
        self.settled += 1;
        let asked_ns = at_ns.saturating_sub(latency_ns);
        let since_ns = self.waits_since_ns.map_or(asked_ns, |since| since.min(asked_ns)).max(self.latest_ns);
        self.longest_gap_ns = self.longest_gap_ns.max(at_ns.saturating_sub(since_ns));
        self.waits_since_ns = (!is_answered).then_some(since_ns);
        if is_answered {
            self.answered += 1;
            self.latest_ns = self.latest_ns.max(at_ns);
        }
        let latency_us = u32::try_from(latency_ns / 1_000).unwrap_or(u32::MAX);
        if self.latencies_us.len() < LATENCIES_KEPT {
            self.latencies_us.push(latency_us);
            return;
        }
        // Reservoir sampling: each query is kept with the same chance.
        let place = rng.random_range(0..self.settled);
        if let Some(kept) = self.latencies_us.get_mut(place as usize) {
            *kept = latency_us;
        }
    }

    /// Longest wait for an answer.
    pub(super) fn longest_gap_s(&self) -> f64 {
        self.longest_gap_ns as f64 / SECOND_NS
    }

    /// Median and p99 of what is kept.
    pub(super) fn quantiles_us(&mut self) -> (u32, u32) {
        self.latencies_us.sort_unstable();
        let at = |share: f64| {
            let place = (self.latencies_us.len() as f64 * share) as usize;
            let last = self.latencies_us.len().saturating_sub(1);
            self.latencies_us.get(place.min(last)).copied().unwrap_or_default()
        };
        (at(0.5), at(0.99))
    }
}
