//! The running results of the clients of a population.

use rand::Rng;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;
/// Latencies kept per client: a random sample.
const LATENCIES_KEPT: usize = 64;

/// The running results of a client.
#[derive(Clone, Default, Debug)]
pub(super) struct ClientResults {
    /// Queries answered in time.
    pub(super) answered: u64,
    /// Finished queries: answered or lost.
    finished: u64,
    latencies_us: Vec<u32>,
    /// Time of the latest answer.
    latest_ns: u64,
    /// Start of the current wait for an answer.
    waits_since_ns: Option<u64>,
    /// Longest wait so far.
    longest_gap_ns: u64,
}

impl ClientResults {
    /// A query has finished.
    pub(super) fn query_done(&mut self, is_answered: bool, at_ns: u64, latency_ns: u64, rng: &mut impl Rng) {
        self.finished += 1;
        let sent_ns = at_ns.saturating_sub(latency_ns);
        let since_ns = self.waits_since_ns.map_or(sent_ns, |since| since.min(sent_ns)).max(self.latest_ns);
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
        // Reservoir sampling: each query is kept with the same probability.
        let index = rng.random_range(0..self.finished);
        if let Some(slot) = self.latencies_us.get_mut(index as usize) {
            *slot = latency_us;
        }
    }

    /// Longest wait for an answer.
    pub(super) fn longest_gap_s(&self) -> f64 {
        self.longest_gap_ns as f64 / SECOND_NS
    }

    /// Median and p99 of the sample.
    pub(super) fn quantiles_us(&mut self) -> (u32, u32) {
        self.latencies_us.sort_unstable();
        let at = |share: f64| {
            let index = (self.latencies_us.len() as f64 * share) as usize;
            let last = self.latencies_us.len().saturating_sub(1);
            self.latencies_us.get(index.min(last)).copied().unwrap_or_default()
        };
        (at(0.5), at(0.99))
    }
}
