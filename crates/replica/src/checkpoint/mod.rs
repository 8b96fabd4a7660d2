//! Checkpoints: the replicated state at one index, in one file.
//!
//! The replica freezes a version of its state and returns its items one by one ([`CheckpointItems`]).
//! [`CheckpointWriter`] puts them into blocks, each a small job of the bulk queue, so updates continue meanwhile. A
//! file gets its name only once it is complete and synced. [`CheckpointReader`] reads it at start,
//! [`CheckpointLoader`] while the replica runs; both verify everything that they return. [`CheckpointServer`] and
//! [`CheckpointFetcher`] transfer a checkpoint between members, block by block. Each block is verified on arrival,
//! and a transfer continues after a broken connection.
//!
//! This module does not interpret items: each is a [`Section`] and bytes.

// Sizes and bounds.
pub mod limits;
// References to checkpoints, and names of their files.
mod name;
// The bytes of a checkpoint.
mod format;
// Writes checkpoints.
mod writer;
// Reads checkpoints, at start and while running.
mod reader;
// Messages of a transfer.
mod frame;
// The sending side.
mod server;
// The receiving side.
mod fetcher;

pub use fetcher::{CheckpointFetcher, FetchError, FetchOutput, FetchState};
pub use format::{CheckpointDamage, CheckpointHeader, CheckpointId, DamageKind, Manifest, Section, Table, items};
pub use frame::{FrameError, Part, TransferFrame};
pub(crate) use name::is_checkpoint;
pub use name::{CheckpointRef, INCOMING_FILE, REPAIR_FILE, WRITING_FILE, checkpoint_file, has_remains, stale_files};
pub use reader::{CheckpointError, CheckpointLoader, CheckpointReader, verified};
pub use server::{CheckpointServer, ServerOutput};
pub use writer::{CheckpointItems, CheckpointWriter, WriteStep, Written};

#[cfg(test)]
mod tests;
