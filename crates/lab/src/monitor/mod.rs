//! Monitors the server during a run: its process, its control group and its metrics, on the clock of the run.
//!
//! ```text
//!    Source (pid, cgroup, Prometheus) --each interval--> Reading --> Sample (seconds since the start of the run)
//! ```

mod cgroup;
mod members;
mod process;
mod prometheus;
mod reading;
mod sampler;
mod socket_memory;
mod sockets;
mod source;

pub use reading::Reading;
pub use sampler::Monitor;
pub use source::{Source, SourceError};
