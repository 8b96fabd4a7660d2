//! One member of a cluster, without I/O: time, frames from peers and disk results are inputs.
#![forbid(unsafe_code)]

// Planted bugs for tests. Releases have none.
#[macro_use]
pub mod planted;

pub mod limits;

// Disk operations.
pub mod disk;
// Inputs and outputs.
pub mod io;

// From an UPDATE message to its changeset.
pub mod update;
// Messages between members.
pub mod peer;
// Commands for the leader.
mod command;
// Consensus.
mod raft;
// Log entries.
pub mod entry;
// Raft's log on disk.
pub mod log;
// The state at one index, in one file.
pub mod checkpoint;
// Searches the disk for damage while a replica runs.
pub mod scrub;
// The replicated state, and how entries change it.
mod machine;
mod state;

// One replica: routes inputs to its components, and executes what they decide.
mod replica;
// What all components may read (`Context`) and write (`Outputs`).
mod config;
mod context;

// Components, in the order in which an update passes them.
// Requests of this member's clients.
mod requests;
// Reads that a majority confirms, also before an update is refused.
mod reads;
// The leader: evaluates commands and proposes entries.
mod propose;
// A follower commits with its leader.
mod follower_commit;
// Jobs of the log.
mod log_jobs;
// Records of applied entries for the audit log.
mod audit;
// Leases, and what all live members show.
mod rotation;

// Components that keep the member and the cluster healthy.
// Reports of the leader, and the members' answers.
mod progress;
// The next leader, after a failure and at a handover.
mod failover;
mod leader_transfer;
// Entries that the log may lack.
mod log_loss;
// Checkpoints: written, sent and received.
mod transfer;
// The members' clocks, memory and disks.
mod clock;
mod full;
mod memory;
// When background work may run.
mod background;

// The trust between members, for the shell.
mod trust;

mod bytes;
mod secrets;

// What tests and the simulator need.
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use config::ReplicaConfig;
pub use context::Counters;
pub use entry::token_id;
pub use io::MemoryFigures;
pub use machine::{InvariantViolations, RestoredZone};
pub use replica::{Backup, Founder, Founding, OpenError, Replica, RestoreFailure, Restored};
pub use replica::{KeyStatus, MemberStatus, Status, ZoneStatus};
pub use secrets::{DataKey, Sealed};
pub use state::JoinTokenStatus;
pub use trust::{Ca, Trust};
pub use zone::codec::DecodeError;
