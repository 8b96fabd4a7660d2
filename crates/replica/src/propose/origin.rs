//! The sender of a command.

use crate::command::Answer;
use crate::io::NodeId;

/// The member that sent a command, and the number of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// `None` is this replica.
    pub(crate) peer: Option<NodeId>,
    pub(crate) token: u64,
}

impl Origin {
    /// The context of an entry: the member and the number of its attempt. The member recognizes the entry by it if the
    /// leader's answer is lost.
    pub(super) fn entry_context(self, own: NodeId) -> Vec<u8> {
        [self.peer.unwrap_or(own), self.token].map(u64::to_be_bytes).concat()
    }

    /// Reads what [`Origin::entry_context`] wrote.
    pub(crate) fn of_entry(context: &[u8]) -> Option<Self> {
        let (peer, token) = context.split_first_chunk()?;
        let token = token.try_into().ok()?;
        Some(Self { peer: Some(u64::from_be_bytes(*peer)), token: u64::from_be_bytes(token) })
    }
}

/// An answer and its receiver.
pub(crate) type Reply = (Origin, Answer);
