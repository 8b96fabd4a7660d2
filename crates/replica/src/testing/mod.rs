//! Runs a replica without a machine, for tests and the simulator. Not part of the daemon.

// A disk that loses unsynced data.
mod disk;
// Forged frames.
pub mod forge;
// Fuzz targets.
pub mod fuzz;
// Planned panics.
pub mod panics;
// The table of sessions, for measurements.
mod repeats;
// The promises in a frame.
mod promises;
// The inside of a replica.
mod replica;

pub use crate::command::{Answer, Command, Reception, UpdateCommand};
pub use disk::{Durable, MemoryDisk};
pub use promises::vote_of;
pub use repeats::Repeats;

/// Draws a number below its argument, which is at least 1. The caller provides the source: a seed, or a test's input.
pub type Choose<'c> = &'c mut dyn FnMut(u64) -> u64;
