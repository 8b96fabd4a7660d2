//! The state of joining and leaving members.

use replica::io::{AdminCommand, NodeId};
use std::collections::BTreeSet;

/// The state of joining and leaving members.
#[derive(Debug, Default)]
pub(crate) struct Membership {
    /// Members whose removal was requested. It may take effect at any later time.
    pub(crate) leaving: BTreeSet<NodeId>,
    /// The last assigned node number.
    pub(crate) node: u32,
    /// Members whose machines will start soon.
    pub(crate) coming: BTreeSet<NodeId>,
    /// Digest of an unused token.
    pub(crate) token: Option<[u8; 32]>,
    pub(crate) tokens: u8,
    /// A machine that died for good and may still be a member.
    pub(crate) dead: Option<NodeId>,
    /// Whether a command that removes a vote may take effect after its time limit.
    pub(crate) is_uncertain: bool,
}

impl Membership {
    /// Whether the removal of this member was ever requested.
    pub(crate) fn may_leave(&self, id: NodeId) -> bool {
        self.leaving.contains(&id)
    }

    /// Whether a machine that died for good may still be a member. Then votes must not be removed.
    pub(crate) const fn has_dead(&self) -> bool {
        self.dead.is_some()
    }

    /// Digest of an unused token.
    pub(crate) const fn token(&self) -> Option<[u8; 32]> {
        self.token
    }

    /// Records a machine that is permanently gone.
    pub(crate) const fn note_dead(&mut self, id: NodeId) {
        self.dead = Some(id);
    }

    /// Records the request of a command.
    pub(crate) fn on_command(&mut self, command: &AdminCommand) {
        match command {
            AdminCommand::RemoveNode { id } | AdminCommand::ReplaceNode { gone: id, .. } => {
                _ = self.leaving.insert(*id)
            }
            AdminCommand::Join { digest, .. } | AdminCommand::RevokeToken { digest } => {
                self.token = self.token.filter(|token| token != digest);
            }
            _ => {}
        }
    }

    /// Records that the outcome of a command that removes a vote is unknown.
    pub(crate) const fn note_uncertain(&mut self) {
        self.is_uncertain = true;
    }
}

/// Whether a command removes a vote.
pub(crate) const fn takes_vote(command: &AdminCommand) -> bool {
    matches!(
        command,
        AdminCommand::RemoveNode { .. } | AdminCommand::ReplaceNode { .. } | AdminCommand::SetVote { votes: false, .. }
    )
}
