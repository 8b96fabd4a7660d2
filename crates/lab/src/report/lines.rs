//! Lines of the run folder that others write and the report draws: `monitor.jsonl`, `events.jsonl`,
//! `clients.jsonl`, `freshness.jsonl`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A line of `monitor.jsonl`: what a process, a cgroup or a metrics endpoint said at one time. What a source cannot
/// tell is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds from the start of the run; below zero before it.
    pub at: f64,
    /// `pid 4711`, `cgroup x` or the URL of an endpoint.
    pub source: String,
    /// Why it could not be read; then nothing else is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Cores in use since the sample before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// Resident memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<f64>,
    /// Threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Context switches since the sample before that the process asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Context switches since the sample before that it was forced to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Seconds since the sample before in which the cgroup was denied CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// TCP sockets by state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tcp_states: BTreeMap<String, u64>,
    /// Datagrams since the sample before that the server's sockets dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_drops: Option<u64>,
    /// Metrics by name; those that differ from the sample before.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

/// A line of `events.jsonl`: a mark on every axis of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds from the start of the run.
    pub at: f64,
    /// `fault`, `reload`, `update` or `note`.
    pub kind: String,
    /// What happened, in a few words.
    pub text: String,
}

/// A line of `clients.jsonl`: one client of a population.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// Its number.
    pub client: u64,
    /// Its transport.
    pub transport: String,
    /// Queries that it sent.
    pub sent: u64,
    /// Of these: answered in time.
    pub answered: u64,
    /// Median latency, microseconds, of at most 64 queries, a random choice of all; those without an answer stand at
    /// the time-out. Zero when none has come to its end.
    pub p50_us: f64,
    /// 99th percentile of the same, microseconds.
    pub p99_us: f64,
    /// Longest wait for an answer, in seconds: from the first query after an answer to the next answer, or to the
    /// timeout of the client's last query.
    pub longest_gap_s: f64,
    /// Queries that the population foresaw for it: its rate, as long as it was active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
}

/// A line of `freshness.jsonl`: one update at one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// Seconds from the start of the run to the acknowledgement.
    pub at: f64,
    /// Where it was looked for.
    pub server: String,
    /// Microseconds from the acknowledgement until it was seen; below zero when that was before, none when never.
    pub visible_us: Option<f64>,
}
