//! One member of a cluster, without I/O: time, bytes from peers and results of the disk come in as inputs.
#![forbid(unsafe_code)]

// Planted bugs for tests. Releases have none.
#[macro_use]
pub mod planted;

pub mod limits;

// What it asks of its disk.
pub mod disk;
// Everything that goes in and comes out.
pub mod io;

// An UPDATE from bytes to the change it makes.
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
// The state at one index, in one file.
pub mod checkpoint;
// Searches the disk for damage while a replica runs.
pub mod scrub;
// What replicas hold alike, and how entries change it.
mod machine;
mod state;

// One replica: its parts in the order in which an update meets them.
mod admin;
mod apply;
mod background;
mod clock;
mod config;
mod failover;
mod follower_commit;
mod forward;
mod full;
mod leader_transfer;
mod memory;
mod progress;
mod propose;
mod reads;
mod replica;
mod rotation;
mod status;
mod transfer;
mod trust;

mod bytes;
mod secrets;

// A disk for tests and the simulator.
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod scenarios;

pub use config::ReplicaConfig;
pub use machine::{InvariantViolations, RestoredZone};
pub use memory::MemoryFigures;
pub use replica::{Backup, Counters, Founder, Founding, OpenError, Replica, RestoreFailure, Restored};
pub use secrets::{DataKey, Sealed};
pub use status::{KeyStatus, MemberStatus, Status, ZoneStatus};
pub use trust::{Ca, JoinTokenStatus, Trust, token_id};
pub use zone::codec::DecodeError;
