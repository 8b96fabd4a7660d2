//! What a source shows at one time.

use std::collections::BTreeMap;
use std::time::Instant;

/// The values of one source at one time. Counters start anywhere. `None` if the source does not have the value.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Reading {
    /// CPU time used so far, in seconds.
    pub cpu_seconds: Option<f64>,
    /// When the CPU time was read. Reading the rest may take long with many connections.
    pub cpu_at: Option<Instant>,
    /// Memory in use in bytes. For several processes the sum, so shared memory counts several times.
    pub rss_bytes: Option<u64>,
    /// Memory that the kernel keeps for its memory control group, such as sockets and their buffers, in bytes.
    pub kernel_memory_bytes: Option<u64>,
    /// All memory of its memory control group in bytes, with the page cache.
    pub group_memory_bytes: Option<u64>,
    /// Buffers of the TCP sockets of the whole machine in bytes.
    pub tcp_memory_bytes: Option<u64>,
    /// The same for UDP.
    pub udp_memory_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Voluntary context switches so far, of running threads.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches so far, of running threads.
    pub involuntary_switches: Option<u64>,
    /// Seconds throttled by the CPU quota of its control group so far.
    pub throttled_seconds: Option<f64>,
    /// TCP connections on the ports that it listens on, by state.
    pub tcp_states: BTreeMap<&'static str, u64>,
    /// Datagrams dropped by its sockets so far.
    pub udp_drops: Option<u64>,
    /// Metrics of its Prometheus endpoint, by name and labels.
    pub metrics: BTreeMap<String, f64>,
}
