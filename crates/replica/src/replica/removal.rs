//! Removal of this member: it stops answering as soon as it learns of its removal, and ends once it is out of Raft's
//! configuration. Until then the others may need it for the majority that removes it.
//!
//! It learns of its removal from the entries that it applies, or, if it was away, from a peer that it connects to.

use super::Replica;
use crate::context::Removal;
use crate::io::{Membership, NodeId, was_given};

impl Replica {
    /// The membership as far as this replica has applied it. Read again after
    /// [`Output::PeersChanged`](crate::io::Output::PeersChanged).
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
        Membership::new(counted.collect(), settings.incarnations().clone())
    }

    /// Checks whether the applied entries removed this member.
    pub(crate) fn note_removal(&mut self) {
        let (own, settings) = (self.driver.id(), &self.machine.settings);
        if self.membership().is_out(own) {
            self.local.lifecycle.set_removal(Removal::Out, &mut self.outputs);
        } else if was_given(settings.incarnations(), own) && !settings.is_member(own) {
            self.local.lifecycle.set_removal(Removal::Decided, &mut self.outputs);
        }
    }

    /// A member sends this only after it applied the removal, so its state is at least as new as this one's.
    pub(super) fn handle_reported_removed(&mut self, by: NodeId) {
        if self.machine.settings.is_member(by) {
            self.local.lifecycle.set_removal(Removal::Out, &mut self.outputs);
        }
    }
}
