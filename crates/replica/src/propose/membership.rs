//! Raft's configuration follows the members in the settings, one step at a time: a new member is a learner, then
//! a voter once it has caught up, unless it is to stay a learner; a member that left the settings is removed, and when
//! another waits for a vote, both in one step. No vote is taken that the others need to decide anything.

use crate::io::NodeId;
use crate::limits::LEARNER_LAG_MAX;
use crate::progress::{ALIVE_MS, Progress};
use crate::raft::{ConfChange, Driver};
use crate::replica::Replica;
use crate::state::Settings;

/// The feature level from which on members know joint configurations.
const JOINT_LEVEL: u32 = 2;

impl Replica {
    /// Takes the next step, if this replica leads and no other step is under way. Done only when the applied
    /// configuration shows it: raft answers Ok to what it then leaves out.
    pub(crate) fn reconcile_membership(&mut self) {
        if !self.driver.has_applied_own_term() || self.driver.has_pending_conf() || self.driver.is_transferring() {
            return;
        }
        // A new leader that finds a joint configuration leaves it first, if it has a vote in what comes after it.
        if self.driver.is_joint() {
            let stays = self.driver.incoming_voters().contains(&self.driver.id());
            return if stays { self.driver.leave_joint() } else { self.hand_over_to_go() };
        }
        let Some(change) = self.next_conf_change() else { return };
        if change.takes_vote_of(self.driver.id()) {
            return self.hand_over_to_go();
        }
        // Dropped now, tried again at the next tick.
        let _ = self.driver.propose_conf_change(change, Vec::new());
    }

    /// A leader never takes its own vote: it asks one that stays to lead, and that one does it.
    fn hand_over_to_go(&mut self) {
        if let Some(to) = self.successor() {
            self.driver.transfer_leader(to);
        }
    }

    fn next_conf_change(&self) -> Option<ConfChange> {
        let settings = &self.machine.settings;
        let conf_state = self.driver.conf_state();
        let (voters, learners) = (conf_state.get_voters(), conf_state.get_learners());
        let gone = |id: &&u64| !settings.is_member(**id);
        let to_vote = |id: &&u64| is_to_vote(settings, **id);
        let promoted = learners.iter().filter(to_vote).find(|&&id| self.has_caught_up(id)).copied();
        if let Some(&id) = learners.iter().find(gone) {
            return Some(ConfChange::Remove(id));
        }
        // A member below that level does not follow a joint configuration through its log.
        let taker = promoted.filter(|_| settings.feature_level() >= JOINT_LEVEL);
        if let (Some(&gone), Some(new)) = (voters.iter().find(gone), taker) {
            return Some(ConfChange::Swap { gone, new });
        }
        // A leader that began a moment ago does not know yet who has caught up: the swap may have been another's.
        let may_swap = learners.iter().any(|id| to_vote(&id)) && !self.progress.is_settled(self.now.monotonic_ms);
        if let Some(&gone) = voters.iter().filter(gone).find(|&&id| self.can_spare(voters, id))
            && !may_swap
        {
            return Some(ConfChange::Remove(gone));
        }
        if let Some(id) = promoted {
            return Some(ConfChange::Promote(id));
        }
        let demoted = |id: &&u64| settings.is_learner(**id) && self.can_spare(voters, **id);
        if let Some(&id) = voters.iter().find(demoted) {
            return Some(ConfChange::Demote(id));
        }
        let members = settings.members();
        let new = members.iter().find(|member| !voters.contains(&member.id) && !learners.contains(&member.id));
        new.map(|member| ConfChange::AddLearner(member.id))
    }

    fn has_caught_up(&self, id: NodeId) -> bool {
        has_caught_up(&self.driver, &self.progress, self.now.monotonic_ms, id)
    }

    fn can_spare(&self, voters: &[NodeId], id: NodeId) -> bool {
        can_spare(&self.driver, &self.progress, self.now.monotonic_ms, voters, id)
    }

    /// Whether a voter is one after all that is decided and under way, too.
    pub(crate) fn keeps_vote(&self, id: NodeId) -> bool {
        is_to_vote(&self.machine.settings, id) && self.driver.incoming_voters().contains(&id)
    }
}

/// Whether the settings want a member to vote.
pub(super) fn is_to_vote(settings: &Settings, id: NodeId) -> bool {
    settings.is_member(id) && !settings.is_learner(id)
}

/// Whether a change of votes is under way: raft has one that is not over, or is about to take a vote. One who is to
/// vote and does not yet is none: it may never come, and nothing rests on it. Nor is a vote that the others need: it
/// stays as long as they do, and must not keep somebody dead from going.
pub(super) fn is_changing(driver: &Driver, settings: &Settings, progress: &Progress, now_ms: u64) -> bool {
    let voters = driver.incoming_voters();
    let is_about_to_go =
        |&id: &NodeId| !progress.is_settled(now_ms) || can_spare(driver, progress, now_ms, &voters, id);
    let mut leaving = voters.iter().filter(|&&id| !is_to_vote(settings, id));
    driver.has_pending_conf() || driver.is_joint() || leaving.any(is_about_to_go)
}

/// Whether the others can decide something without this voter. That they could when it was decided that it goes is not
/// enough: one of them may have died since, or the one that was to get the vote lags.
fn can_spare(driver: &Driver, progress: &Progress, now_ms: u64, voters: &[NodeId], id: NodeId) -> bool {
    let rest: Vec<_> = voters.iter().copied().filter(|&voter| voter != id).collect();
    can_decide(driver, progress, now_ms, &rest)
}

/// Whether so many of these voters answer this leader that they are a majority of them.
pub(super) fn can_decide(driver: &Driver, progress: &Progress, now_ms: u64, voters: &[NodeId]) -> bool {
    planted!(NeededVoteRemoved)
        || voters.iter().filter(|&&id| answers(driver, progress, now_ms, id)).count() > voters.len() / 2
}

/// Whether this leader hears a member, or is it.
pub(super) fn answers(driver: &Driver, progress: &Progress, now_ms: u64, id: NodeId) -> bool {
    id == driver.id() || progress.responded_within(id, ALIVE_MS, now_ms)
}

/// Whether a member answers, and lacks little of the log.
pub(super) fn has_caught_up(driver: &Driver, progress: &Progress, now_ms: u64, id: NodeId) -> bool {
    let matched = driver.matched(id).unwrap_or(0);
    matched + LEARNER_LAG_MAX >= driver.commit() && matched > 0 && progress.responded_within(id, ALIVE_MS, now_ms)
}
