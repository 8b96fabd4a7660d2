//! One member of a cluster, without I/O: time, octets from peers and results of the disk come in as inputs.
#![forbid(unsafe_code)]

// What it asks of its disk.
pub mod disk;
// Raft's log on disk.
pub mod log;
mod octets;
// A disk for tests and the simulator.
#[cfg(any(test, feature = "testing"))]
pub mod testing;
// The state at one index, in one file.
pub mod checkpoint;
