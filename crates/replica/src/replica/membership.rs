//! Raft's configuration follows the members in the settings.

use super::Replica;
use crate::context::Context;
use crate::io::NodeId;
use crate::leader_transfer::successor;
use crate::propose::next_conf_change;

impl Replica {
    /// Takes the next step, if this replica leads and no other step is in progress. A step is done only when the
    /// applied configuration shows it, because raft accepts changes that it then ignores.
    pub(crate) fn reconcile_membership(&mut self) {
        if !self.driver.has_applied_own_term() || self.driver.has_pending_conf() || self.driver.is_transferring() {
            return;
        }
        // A new leader first leaves a joint configuration, if it has a vote in the next one.
        if self.driver.is_joint() {
            let stays = self.driver.incoming_voters().contains(&self.driver.id());
            return if stays { self.driver.leave_joint() } else { self.hand_over_to_go() };
        }
        let context = Context::new(&self.local, &self.driver, &self.machine);
        let Some(change) = next_conf_change(&context, &self.progress) else { return };
        if change.takes_vote_of(self.driver.id()) && !planted!(LeaderRemovesItself) {
            return self.hand_over_to_go();
        }
        // If this is dropped, it is tried again at the next tick.
        let _ = self.driver.propose_conf_change(change, Vec::new());
    }

    /// A leader never removes its own vote: it hands over to a voter that stays, and that one removes it.
    fn hand_over_to_go(&mut self) {
        if let Some(to) = self.successor() {
            self.driver.transfer_leader(to);
        }
    }

    /// The member that would lead next.
    pub(crate) fn successor(&self) -> Option<NodeId> {
        successor(&self.driver, &self.progress, self.local.now.monotonic_ms)
    }
}
