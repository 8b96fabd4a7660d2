//! Members of a cluster.

use std::collections::{BTreeMap, BTreeSet};

/// A member's id in Raft: node number in the low 32 bits, incarnation in the high 32. A node that lost its disk
/// returns under the next incarnation, so an id is never used twice. Never zero.
pub type NodeId = u64;

/// Present and former members of the cluster, as one replica has applied it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Members, including removed ones that are still in Raft's configuration.
    counted: BTreeSet<NodeId>,
    /// Next incarnation of each node number ever used.
    incarnations: BTreeMap<u32, u32>,
}

/// The status of an id in a cluster, as far as one replica knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// A member, or a removed one that is still in Raft's configuration.
    Member,
    /// It was never assigned, as far as is known.
    Unknown,
    /// It is a former member. That is permanent.
    Out,
}

impl Membership {
    pub(crate) const fn new(counted: BTreeSet<NodeId>, incarnations: BTreeMap<u32, u32>) -> Self {
        Self { counted, incarnations }
    }

    /// Whether nothing is known yet: a joining member has no state until the leader sends it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// Whether this is a member, or a removed one still in Raft's configuration.
    #[must_use]
    pub fn is_member(&self, id: NodeId) -> bool {
        self.counted.contains(&id)
    }

    /// The status of an id. An unknown id may belong to a member that joined while this replica was away. A member
    /// that this replica knows can confirm it, see [`crate::io::Input::PeerConfirmed`].
    #[must_use]
    pub fn state_of(&self, id: NodeId) -> MemberState {
        match (self.is_member(id), self.is_out(id)) {
            (true, _) => MemberState::Member,
            (false, true) => MemberState::Out,
            (false, false) => MemberState::Unknown,
        }
    }

    /// All members, and removed ones still in Raft's configuration.
    pub fn members(&self) -> impl Iterator<Item = NodeId> {
        self.counted.iter().copied()
    }

    /// Whether this is a former member out of Raft's configuration. That is permanent, because ids are never reused.
    #[must_use]
    pub fn is_out(&self, id: NodeId) -> bool {
        !self.counted.contains(&id) && was_given(&self.incarnations, id)
    }
}

/// Whether an id was ever a member's.
pub(crate) fn was_given(incarnations: &BTreeMap<u32, u32>, id: NodeId) -> bool {
    let (node, incarnation) = (id as u32, (id >> 32) as u32);
    incarnations.get(&node).is_some_and(|&next| incarnation < next)
}
