//! What tests and the simulator need to run a replica without a machine. Not part of the daemon.

// A disk that forgets what was not synced.
mod disk;
// Frames that a liar makes up.
pub mod forge;
// What others' bytes are thrown at.
pub mod fuzz;
// The table of repeats, for figures.
mod repeats;
// The promises in a frame.
mod promises;

pub use disk::{Durable, MemoryDisk};
pub use promises::vote_of;
pub use repeats::Repeats;

/// Draws a number below its argument, which is at least 1. The caller brings the source: a seed, or a test's input.
pub type Choose<'c> = &'c mut dyn FnMut(u64) -> u64;
