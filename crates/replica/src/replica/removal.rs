//! The end of a membership: the removed member stops answering as soon as it hears of it, and goes once raft counts it
//! no more. Until then the others may need it for the majority that takes it out.
//!
//! It hears of it by applying the entries, or, when it was away, from a peer that it connects to.

use super::Replica;
use crate::io::{NodeId, Output, Serving};
use std::collections::{BTreeMap, BTreeSet};

/// How far the removal of this member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Removal {
    /// It is a member, or is about to become one.
    No,
    /// The settings name it no more.
    Decided,
    /// Nor does raft count it.
    Out,
}

/// Who belongs to the cluster and who did, as one replica has applied it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Members, and those whom raft still counts.
    counted: BTreeSet<NodeId>,
    /// Next incarnation of each node number that was ever in use.
    incarnations: BTreeMap<u32, u32>,
}

/// What an id is to a cluster, as far as one replica knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// A member, or one whose removal is decided and that raft still counts.
    Member,
    /// It was never given to anybody: nothing is known of it.
    Unknown,
    /// It was a member, and is none for ever.
    Out,
}

impl Membership {
    /// Whether nothing is known yet: a member that joins has no state before the leader sends it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// Whether this is a member, or is still counted by raft while it is removed.
    #[must_use]
    pub fn is_member(&self, id: NodeId) -> bool {
        self.counted.contains(&id)
    }

    /// What this id is. One that is unknown here may be a member that came while this replica was away; a member that
    /// this replica knows can tell, see [`crate::io::Input::PeerConfirmed`].
    #[must_use]
    pub fn standing(&self, id: NodeId) -> MemberState {
        match (self.is_member(id), self.is_out(id)) {
            (true, _) => MemberState::Member,
            (false, true) => MemberState::Out,
            (false, false) => MemberState::Unknown,
        }
    }

    /// All members, and those that raft still counts.
    pub fn members(&self) -> impl Iterator<Item = NodeId> {
        self.counted.iter().copied()
    }

    /// Whether this was a member once and is counted no more. That is for ever: ids never come back.
    #[must_use]
    pub fn is_out(&self, id: NodeId) -> bool {
        !self.counted.contains(&id) && was_given(&self.incarnations, id)
    }
}

impl Replica {
    /// Who belongs to the cluster, as far as this replica has applied it; asked for again after
    /// [`Output::PeersChanged`].
    #[must_use]
    pub fn membership(&self) -> Membership {
        let conf_state = self.driver.conf_state();
        let in_raft = [
            conf_state.get_voters(),
            conf_state.get_voters_outgoing(),
            conf_state.get_learners(),
            conf_state.get_learners_next(),
        ];
        let settings = &self.machine.settings;
        let counted = settings.members().into_iter().map(|member| member.id).chain(in_raft.concat());
        Membership { counted: counted.collect(), incarnations: settings.incarnations().clone() }
    }

    /// Looks whether what was applied removed this member.
    pub(crate) fn note_removal(&mut self) {
        let (own, settings) = (self.driver.id(), &self.machine.settings);
        if self.membership().is_out(own) {
            self.set_removal(Removal::Out);
        } else if was_given(settings.incarnations(), own) && !settings.is_member(own) {
            self.set_removal(Removal::Decided);
        }
    }

    /// A member tells no other so before it has applied it itself: it holds whatever is known here.
    pub(super) fn handle_reported_removed(&mut self, by: NodeId) {
        if self.machine.settings.is_member(by) {
            self.set_removal(Removal::Out);
        }
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removal != Removal::No
    }

    fn set_removal(&mut self, removal: Removal) {
        if self.removal < removal {
            self.removal = removal;
            if !planted!(RemovedMemberAnswers) {
                self.set_serving(Serving::No);
            }
            self.out.push_back(Output::Removed { is_out: removal == Removal::Out });
        }
    }
}

/// Whether an id was a member's, at any time.
pub(super) fn was_given(incarnations: &BTreeMap<u32, u32>, id: NodeId) -> bool {
    let (node, incarnation) = (id as u32, (id >> 32) as u32);
    incarnations.get(&node).is_some_and(|&next| incarnation < next)
}
