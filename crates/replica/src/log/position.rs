//! The log's owner, and positions in the log.

use crate::checkpoint::CheckpointRef;

/// Identity of the log's owner; each record carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogId {
    /// The cluster.
    pub cluster: [u8; 16],
    /// The member's raft id: node and incarnation.
    pub member: u64,
    /// The raft group.
    pub group: u32,
}

/// An entry's position in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Its index.
    pub index: u64,
    /// Its term.
    pub term: u64,
}

impl Position {
    /// The last entry that a checkpoint contains.
    pub(super) const fn of_checkpoint(checkpoint: &CheckpointRef) -> Self {
        Self { index: checkpoint.index, term: checkpoint.term }
    }
}
