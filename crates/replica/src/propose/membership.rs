//! Raft's configuration follows the members in the settings, one step at a time: a new member is a learner, then
//! a voter once it has caught up; a member that left the settings is removed.

use crate::limits::LEARNER_LAG_MAX;
use crate::raft::ConfChange;
use crate::replica::Replica;

impl Replica {
    /// Takes the next step, if this replica leads and no other step is under way. Done only when the applied
    /// configuration shows it: raft answers Ok to what it then leaves out.
    pub(crate) fn reconcile_membership(&mut self) {
        if !self.driver.has_applied_own_term() || self.driver.has_pending_conf() || self.driver.is_transferring() {
            return;
        }
        // A new leader that finds a joint configuration leaves it first.
        if self.driver.is_joint() {
            return self.driver.leave_joint();
        }
        let Some(change) = self.next_conf_change() else { return };
        if change == ConfChange::Remove(self.driver.id()) {
            if let Some(to) = self.driver.best_successor() {
                self.driver.transfer_leader(to);
            }
            return;
        }
        // Dropped now, tried again at the next tick.
        let _ = self.driver.propose_conf_change(change, Vec::new());
    }

    fn next_conf_change(&self) -> Option<ConfChange> {
        let conf_state = self.driver.conf_state();
        let (voters, learners) = (conf_state.get_voters(), conf_state.get_learners());
        let gone = |id: &&u64| !self.machine.settings.is_member(**id);
        if let Some(&id) = learners.iter().chain(voters).find(gone)
            && voters != [id]
        {
            return Some(ConfChange::Remove(id));
        }
        let caught_up = |id: &&u64| {
            let matched = self.driver.matched(**id).unwrap_or(0);
            matched + LEARNER_LAG_MAX >= self.driver.commit() && matched > 0 && self.was_heard(**id)
        };
        if let Some(&id) = learners.iter().find(caught_up) {
            return Some(ConfChange::Promote(id));
        }
        let members = self.machine.settings.members();
        let new = members.iter().find(|member| !voters.contains(&member.id) && !learners.contains(&member.id));
        new.map(|member| ConfChange::AddLearner(member.id))
    }
}
