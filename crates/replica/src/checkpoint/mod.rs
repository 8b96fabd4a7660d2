//! Checkpoints: the replicated state at one index, in one file.
//!
//! The replica freezes a version of its state and hands its items out one by one ([`CheckpointItems`]);
//! [`CheckpointWriter`] puts them into blocks, each a small job of the bulk queue, so that updates go on meanwhile. A
//! file has its name only once it is whole and synced. [`CheckpointReader`] reads it at start, [`CheckpointLoader`]
//! while the replica runs; nothing is given out that was not verified. [`CheckpointServer`] and [`CheckpointFetcher`]
//! carry one from a member to another: block by block, each verified on arrival, going on where a connection broke.
//!
//! What an item means is not known here: a [`Section`] and bytes.

// Sizes and bounds.
pub mod limits;
// The bytes of a checkpoint.
mod format;
// Whole checkpoints to disk.
mod writer;
// From disk, at start and while running.
mod reader;
// What members say to each other in a transfer.
mod frame;
// The giving side.
mod server;
// The taking side.
mod fetcher;

pub use fetcher::{CheckpointFetcher, FetchError, FetchOutput, FetchState};
pub use format::{CheckpointDamage, CheckpointHeader, CheckpointId, Flaw, Manifest, Section, Table, items};
pub use frame::{FrameError, Part, TransferFrame};
pub use reader::{CheckpointError, CheckpointLoader, CheckpointReader};
pub use server::{CheckpointServer, ServerOutput};
pub use writer::{CheckpointItems, CheckpointWriter, WriteStep, Written};

use crate::disk::DiskRead;
use crate::log::CheckpointRef;

const PREFIX: &str = "checkpoint-";
/// Name of the file in which one of our own is being written.
pub(crate) const WRITING_FILE: &str = "checkpoint.writing";
/// Name of the file in which one of a peer's arrives.
pub(crate) const INCOMING_FILE: &str = "checkpoint.incoming";
/// Name of the file for a checkpoint that arrives to replace a damaged one. A start removes it.
pub const REPAIR_FILE: &str = "checkpoint-repair";

/// Name of the file of a checkpoint.
pub fn checkpoint_file(checkpoint: &CheckpointRef) -> String {
    let [a, b, c, d, ..] = checkpoint.id;
    format!("{PREFIX}{:016x}-{a:02x}{b:02x}{c:02x}{d:02x}", checkpoint.index)
}

/// Whether a file of this name is a whole checkpoint.
pub(crate) fn is_checkpoint(file: &str) -> bool {
    file.starts_with(PREFIX) && file != REPAIR_FILE
}

/// The checkpoint in a file, if every byte of it is intact.
pub fn verified(disk: &dyn DiskRead, file: &str) -> Option<CheckpointRef> {
    let reader = CheckpointReader::open_file(disk, file.to_owned()).ok()?;
    reader.for_each_item(disk, |_, _| {}).ok()?;
    Some(reader.manifest().reference())
}

/// Whether a transfer that a process before this one began has left something.
pub fn has_remains<'f>(mut files: impl Iterator<Item = &'f str>) -> bool {
    files.any(|file| file == INCOMING_FILE)
}

/// Which of these files are checkpoints, or parts of one, that nobody needs: all but `keep`, and what a transfer may go
/// on from. For the start, when neither a writer nor a transfer is under way.
pub fn stale_files<'f>(files: impl Iterator<Item = &'f str>, keep: &CheckpointRef) -> Vec<String> {
    let kept = checkpoint_file(keep);
    let is_ours = |file: &str| file.starts_with(PREFIX) || file == WRITING_FILE;
    files.filter(|file| is_ours(file) && *file != kept).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
