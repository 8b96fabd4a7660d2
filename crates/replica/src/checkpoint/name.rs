//! References to checkpoints, and names of their files.

/// A durable checkpoint that the log refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointRef {
    /// Index of the last entry that it contains; 0 if there is no checkpoint.
    pub index: u64,
    /// Term of that entry.
    pub term: u64,
    /// The checkpoint's own digest.
    pub id: [u8; 32],
}

const PREFIX: &str = "checkpoint-";
/// Name of the file while this member writes a checkpoint.
pub const WRITING_FILE: &str = "checkpoint.writing";
/// Name of the file while a peer's checkpoint arrives.
pub const INCOMING_FILE: &str = "checkpoint.incoming";
/// Name of the file while a checkpoint arrives that replaces a damaged one. The next start removes it.
pub const REPAIR_FILE: &str = "checkpoint-repair";

/// Name of the file of a checkpoint.
pub fn checkpoint_file(checkpoint: &CheckpointRef) -> String {
    let [a, b, c, d, ..] = checkpoint.id;
    format!("{PREFIX}{:016x}-{a:02x}{b:02x}{c:02x}{d:02x}", checkpoint.index)
}

/// Whether a file name is that of a complete checkpoint.
pub(crate) fn is_checkpoint(file: &str) -> bool {
    file.starts_with(PREFIX) && file != REPAIR_FILE
}

/// Whether an earlier process left the file of a transfer.
pub fn has_remains<'f>(mut files: impl Iterator<Item = &'f str>) -> bool {
    files.any(|file| file == INCOMING_FILE)
}

/// The files that are checkpoints or parts of one and are no longer needed: all but `keep` and the file of an
/// unfinished transfer. Called at start, when neither a writer nor a transfer runs.
pub fn stale_files<'f>(files: impl Iterator<Item = &'f str>, keep: &CheckpointRef) -> Vec<String> {
    let kept = checkpoint_file(keep);
    let is_ours = |file: &str| file.starts_with(PREFIX) || file == WRITING_FILE;
    files.filter(|file| is_ours(file) && *file != kept).map(str::to_owned).collect()
}
