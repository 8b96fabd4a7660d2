//! JSON lines of the run folder from other modules: `monitor.jsonl`, `events.jsonl`, `clients.jsonl`,
//! `freshness.jsonl`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A line of `monitor.jsonl`: the values of a process, a cgroup or a metrics endpoint at one time. Values that a source
/// does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds from the start of the run. Negative before it.
    pub at: f64,
    /// `pid 4711`, `cgroup x` or the URL of an endpoint.
    pub source: String,
    /// Why it could not be read. Other fields are then absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Cores in use since the previous sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// Resident memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<f64>,
    /// Memory that the kernel keeps for the memory control group of the source, such as sockets, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_memory_bytes: Option<f64>,
    /// All memory of that group, with the page cache, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_memory_bytes: Option<f64>,
    /// Buffers of all TCP sockets of the machine, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_memory_bytes: Option<f64>,
    /// Buffers of all UDP sockets of the machine, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_memory_bytes: Option<f64>,
    /// Threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Voluntary context switches since the previous sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches since the previous sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Seconds throttled since the previous sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// TCP sockets by state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tcp_states: BTreeMap<String, u64>,
    /// Datagrams dropped by the server's sockets since the previous sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_drops: Option<u64>,
    /// Metrics by name, if they differ from the previous sample.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

/// A line of `events.jsonl`: a mark on all time axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Seconds from the start of the run.
    pub at: f64,
    /// `fault`, `reload`, `update` or `note`.
    pub kind: String,
    /// A short description.
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
    /// Queries sent.
    pub sent: u64,
    /// Of these: answered in time.
    pub answered: u64,
    /// Median latency in microseconds, of a random sample of at most 64 queries. An unanswered query counts as its
    /// timeout. Zero if no query has finished.
    pub p50_us: f64,
    /// p99 of the same sample, in microseconds.
    pub p99_us: f64,
    /// Longest wait for an answer, in seconds: from the first query after an answer to the next answer, or to the
    /// timeout of the client's last query.
    pub longest_gap_s: f64,
    /// Expected number of queries, given its rate and its active time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<f64>,
}

/// A line of `freshness.jsonl`: one update on one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sighting {
    /// Time of the acknowledgement in seconds from the start of the run.
    pub at: f64,
    /// The watched server.
    pub server: String,
    /// Microseconds from the acknowledgement until it was visible. Negative if it was visible before, none if never.
    pub visible_us: Option<f64>,
}
