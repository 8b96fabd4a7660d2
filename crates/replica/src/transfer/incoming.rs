//! A leader's checkpoint, from its announcement until it is in force.

use crate::checkpoint::{CheckpointFetcher, CheckpointLoader, Manifest, Table};
use crate::io::NodeId;
use crate::machine::{Machine, Restore};
use raft::eraftpb::Message;

/// An incoming checkpoint.
#[derive(Default)]
pub(crate) struct Incoming {
    /// The message that announced it. Raft gets it once the checkpoint is here.
    pub(super) announcement: Option<(NodeId, Message)>,
    pub(super) stage: Stage,
}

#[derive(Default)]
pub(super) enum Stage {
    #[default]
    None,
    Fetching(Box<CheckpointFetcher>),
    Loading(Box<(Manifest, CheckpointLoader, Restore)>),
    /// Complete and loaded. It is used once the log's record is durable.
    Ready(Box<(Manifest, Table, Machine)>),
}

impl Incoming {
    pub(super) const fn is_under_way(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }

    /// The incoming checkpoint that is continued although `from` announces another one. Its contents are committed
    /// under any leader, so it may be installed instead of the newer one; the log or a later checkpoint continues from
    /// there. An incomplete one is continued only if the same leader announced it, because the source of blocks
    /// retains the checkpoint and the log after it.
    pub(super) fn resumable_from(&self, from: NodeId, commit: u64) -> Option<&Manifest> {
        let is_same_leader = || self.announcement.as_ref().is_some_and(|&(id, _)| id == from);
        let manifest = match &self.stage {
            Stage::Fetching(fetcher) if fetcher.has_all_blocks() || is_same_leader() => fetcher.manifest(),
            Stage::Loading(loading) => &loading.0,
            Stage::Fetching(_) | Stage::Ready(_) | Stage::None => return None,
        };
        // The log may have reached that index meanwhile.
        Some(manifest).filter(|manifest| manifest.header.index > commit && !planted!(NewerCheckpointEndsTransfer))
    }
}
