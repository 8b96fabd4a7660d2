//! Raft's configuration follows the members in the settings, one step at a time: a new member is a learner, then
//! a voter once it has caught up, unless it is to stay a learner; a member that left the settings is removed, and when
//! another waits for a vote, both in one step.

use crate::io::NodeId;
use crate::limits::LEARNER_LAG_MAX;
use crate::raft::{ConfChange, Driver};
use crate::replica::Replica;
use crate::report::{HEARD_MS, Reports};

/// The feature level from which on members know joint configurations.
const JOINT_LEVEL: u32 = 2;

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
        if change.takes_vote_of(self.driver.id()) {
            if let Some(to) = self.successor() {
                self.driver.transfer_leader(to);
            }
            return;
        }
        // Dropped now, tried again at the next tick.
        let _ = self.driver.propose_conf_change(change, Vec::new());
    }

    fn next_conf_change(&self) -> Option<ConfChange> {
        let settings = &self.machine.settings;
        let conf_state = self.driver.conf_state();
        let (voters, learners) = (conf_state.get_voters(), conf_state.get_learners());
        let gone = |id: &&u64| !settings.is_member(**id);
        let to_vote = |id: &&u64| settings.is_member(**id) && !settings.is_learner(**id);
        let promoted = learners.iter().filter(to_vote).find(|&&id| self.has_caught_up(id)).copied();
        if let Some(&id) = learners.iter().find(gone) {
            return Some(ConfChange::Remove(id));
        }
        if let Some(&gone) = voters.iter().find(gone) {
            // A member below that level does not follow a joint configuration through its log.
            if let Some(new) = promoted.filter(|_| settings.feature_level() >= JOINT_LEVEL) {
                return Some(ConfChange::Swap { gone, new });
            }
            // A leader that began a moment ago does not know yet who has caught up: the swap may have been another's.
            let may_swap = learners.iter().any(|id| to_vote(&id)) && !self.reports.is_settled(self.now.monotonic_ms);
            return (voters != [gone] && !may_swap).then_some(ConfChange::Remove(gone));
        }
        if let Some(id) = promoted {
            return Some(ConfChange::Promote(id));
        }
        if let Some(&id) = voters.iter().find(|&&id| settings.is_learner(id))
            && voters != [id]
        {
            return Some(ConfChange::Demote(id));
        }
        let members = settings.members();
        let new = members.iter().find(|member| !voters.contains(&member.id) && !learners.contains(&member.id));
        new.map(|member| ConfChange::AddLearner(member.id))
    }

    fn has_caught_up(&self, id: NodeId) -> bool {
        has_caught_up(&self.driver, &self.reports, self.now.monotonic_ms, id)
    }
}

/// Whether a member answers, and lacks little of the log.
pub(super) fn has_caught_up(driver: &Driver, reports: &Reports, now_ms: u64, id: NodeId) -> bool {
    let matched = driver.matched(id).unwrap_or(0);
    matched + LEARNER_LAG_MAX >= driver.commit() && matched > 0 && reports.was_heard_within(id, HEARD_MS, now_ms)
}
