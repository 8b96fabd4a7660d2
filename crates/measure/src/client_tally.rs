//! The results of each client of a population.

use crate::Transport;
use serde::Serialize;

/// The results of one client.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClientTally {
    /// Its number in the population.
    pub client: u64,
    /// Its transport.
    pub transport: Transport,
    /// Queries due.
    pub sent: u64,
    /// Of these: answered in time.
    pub answered: u64,
    /// Median latency in microseconds, of a random sample of at most 64 queries. An unanswered query counts as its
    /// timeout. Zero if no query has finished.
    pub p50_us: u32,
    /// p99 of the same sample: the largest value.
    pub p99_us: u32,
    /// Longest wait for an answer, in seconds: from the first query after an answer to the next answer, or to the
    /// timeout of the client's last query.
    pub longest_gap_s: f64,
    /// Expected number of queries given its rate. `None` for clients with think time.
    pub expected: Option<f64>,
}
