//! One member of a cluster, without I/O: time, octets from peers and results of the disk come in as inputs.
#![forbid(unsafe_code)]

pub mod limits;

// What it asks of its disk.
pub mod disk;
// Everything that goes in and comes out.
pub mod io;

// An UPDATE from octets to the change it makes.
pub mod update;
// What members say to each other.
pub mod peer;
// What is asked of the leader.
mod command;
// Consensus.
mod raft;
// What the log carries.
pub mod entry;
// Raft's log on disk.
pub mod log;
// What replicas hold alike.
mod state;

mod codec;
mod octets;
mod secrets;

// A disk for tests and the simulator.
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use codec::DecodeError;
pub use secrets::{DataKey, Sealed};
