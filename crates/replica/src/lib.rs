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
// Consensus.
mod raft;
// What is asked of the leader.
mod command;
// What the log carries.
pub mod entry;
// What replicas hold alike.
mod state;

mod codec;
mod secrets;

pub use codec::DecodeError;
pub use secrets::{DataKey, Sealed};
