//! Steps of administrators' commands: each is one command for the leader.

use crate::io::{AdminError, NodeId};

/// A step of an administrator's command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdminStep {
    pub(super) request_id: u64,
    pub(super) kind: StepKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// The only step.
    Single,
    /// The command is done when a state is reached, such as a new Raft configuration or leader.
    Until(AwaitedState),
    /// Changes nothing, and waits a limited time for the members.
    WaitAllLive,
    ImportBegin,
    ImportChunk,
    ImportCommit,
}

/// The state that must be reached before a command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AwaitedState {
    /// A member is not in Raft's configuration.
    Out(NodeId),
    /// A member is a voter, or is not.
    Votes(NodeId, bool),
    /// One member is removed, and another is a voter.
    Replaced { gone: NodeId, new: NodeId },
    /// This member leads.
    Leads(NodeId),
    /// A member other than this one leads.
    LedByAnother(NodeId),
    /// Every member knows which zones have `ack = all-live`.
    AllLiveKnown,
}

impl AwaitedState {
    pub(super) const fn is_of_leader(self) -> bool {
        matches!(self, Self::Leads(_) | Self::LedByAnother(_))
    }

    /// The error if the state is not reached in time.
    pub(super) const fn failure(self) -> AdminError {
        match self {
            Self::Leads(_) | Self::LedByAnother(_) => AdminError::LeaderStayed,
            Self::AllLiveKnown => AdminError::NodeBehind,
            Self::Out(_) | Self::Votes(..) | Self::Replaced { .. } => AdminError::Unknown,
        }
    }
}
