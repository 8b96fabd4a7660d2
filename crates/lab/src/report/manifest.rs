//! `manifest.json`: all that is needed to run it again.

use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// How a run came about.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// The command line, word by word.
    pub command: Vec<String>,
    /// This program's version.
    pub version: String,
    /// Seconds since 1970 when it began.
    pub started: f64,
    /// Seed of everything that was drawn.
    pub seed: u64,
    /// Name of the machine.
    pub host: String,
    /// Its kernel.
    pub kernel: String,
    /// Its processor.
    pub cpu: String,
    /// How many of them it has.
    pub cpu_count: usize,
}

impl Manifest {
    /// Of a run that began at `started`.
    #[must_use]
    pub fn new(started: SystemTime, seed: u64) -> Self {
        let cpu = read("/proc/cpuinfo");
        let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Self {
            command: std::env::args().collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64(),
            seed,
            host: host_name(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            cpu: cpu.map_or("", |(_, name)| name).to_owned(),
            cpu_count: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The machine's own name.
pub(super) fn host_name() -> String {
    read("/proc/sys/kernel/hostname").trim().to_owned()
}

/// What cannot be read is left empty: a manifest without a processor's name is still of use.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
