//! The parts of the program `catlab` that its commands, tests and benchmarks share. `catlab` tests and benchmarks any
//! DNS server as a black box.
//!
//! ```text
//!    load (workload | trace --> engine) --> measure --> results (judge, sum up, record) --> report
//!             answers: correct or wrong --^
//!             live, monitor, freshness: during a run        capacity: several runs
//! ```
#![forbid(unsafe_code)]

pub mod limits;

// Whether this machine can measure.
pub mod doctor;

// Checks answers.
pub mod answers;
// Results of a run.
pub mod results;
// Output during a run.
pub mod live;
mod output;
pub use output::{eprint, print};
// Monitors the server during a run.
pub mod monitor;
// Time until an update is visible.
pub mod freshness;
// The highest rate of a server.
pub mod capacity;

// Records the upstream traffic of a resolver.
pub mod harvest;
// Emulated servers of a hierarchy.
pub mod emulation;
