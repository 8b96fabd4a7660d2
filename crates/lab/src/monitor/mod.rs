//! The server under the same clock: what its process, its control group and its metrics said while it was measured.
//!
//! ```text
//!   Source (pid, cgroup, Prometheus) --each interval--> Reading --> Sample (seconds since the start of the run)
//! ```

mod cgroup;
mod members;
mod process;
mod prometheus;
mod sampler;
mod sockets;
mod source;

pub use sampler::Monitor;
pub use source::{Source, SourceError};

use std::collections::BTreeMap;
use std::time::Instant;

/// What one source said at one moment. Counters go up from wherever they began; `None` is what the source has no word
/// of.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reading {
    /// CPU time used so far, in seconds.
    pub cpu_seconds: Option<f64>,
    /// When that was read. The rest comes after it, and a table of many thousand connections takes its time.
    pub cpu_at: Option<Instant>,
    /// Memory in use, in bytes; of several processes the sum, in which what they share counts for each.
    pub rss_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Context switches because a thread waited, so far, of the threads that live.
    pub voluntary_switches: Option<u64>,
    /// Context switches because a thread's time was up, so far, of the threads that live.
    pub involuntary_switches: Option<u64>,
    /// Time that the CPU quota of its control group held it back, in seconds, so far.
    pub throttled_seconds: Option<f64>,
    /// TCP connections on the ports that it listens on, by state.
    pub tcp_states: BTreeMap<&'static str, u64>,
    /// Datagrams that its sockets threw away, so far.
    pub udp_drops: Option<u64>,
    /// What its Prometheus endpoint says, by name and labels.
    pub metrics: BTreeMap<String, f64>,
}
