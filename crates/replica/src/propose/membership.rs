//! Raft's configuration follows the members in the settings, one step at a time. A new member is first a learner, and
//! becomes a voter once it has caught up, unless it is to stay a learner. A member that left the settings is removed;
//! if another waits for a vote, one step does both. A vote that the others need for a majority is not removed.

use crate::context::Context;
use crate::io::NodeId;
use crate::limits::LEARNER_LAG_MAX;
use crate::progress::{ALIVE_MS, Progress};
use crate::raft::{ConfChange, Driver};
use crate::state::Settings;

/// The first feature level at which members support joint configurations.
const JOINT_LEVEL: u32 = 2;

/// The next step of Raft's configuration towards the members in the settings.
pub(crate) fn next_conf_change(context: &Context<'_>, progress: &Progress) -> Option<ConfChange> {
    let (settings, now_ms) = (context.settings(), context.now_ms());
    let conf_state = context.driver.conf_state();
    let (voters, learners) = (conf_state.get_voters(), conf_state.get_learners());
    let gone = |id: &&u64| !settings.is_member(**id);
    let to_vote = |id: &&u64| planted!(LearnerPromotedUnasked) || is_to_vote(settings, **id);
    let promoted =
        learners.iter().filter(to_vote).find(|&&id| has_caught_up(context.driver, progress, now_ms, id)).copied();
    if let Some(&id) = learners.iter().find(gone) {
        return Some(ConfChange::Remove(id));
    }
    // A member below that level cannot follow a joint configuration through its log.
    let taker = promoted.filter(|_| settings.feature_level() >= JOINT_LEVEL);
    if let (Some(&gone), Some(new)) = (voters.iter().find(gone), taker) {
        return Some(ConfChange::Swap { gone, new });
    }
    // A new leader does not know yet which learners have caught up. The swap may have been started by another
    // leader.
    let may_swap = learners.iter().any(|id| to_vote(&id)) && !progress.is_settled(now_ms);
    if let Some(&gone) = voters.iter().filter(gone).find(|&&id| can_spare(context.driver, progress, now_ms, voters, id))
        && !may_swap
    {
        return Some(ConfChange::Remove(gone));
    }
    if let Some(id) = promoted {
        return Some(ConfChange::Promote(id));
    }
    let demoted = |id: &&u64| settings.is_learner(**id) && can_spare(context.driver, progress, now_ms, voters, **id);
    if let Some(&id) = voters.iter().find(demoted) {
        return Some(ConfChange::Demote(id));
    }
    let members = settings.members();
    let new = members.iter().find(|member| !voters.contains(&member.id) && !learners.contains(&member.id));
    new.map(|member| ConfChange::AddLearner(member.id))
}

/// Whether a voter remains one after all decided changes and those in progress.
pub(crate) fn keeps_vote(context: &Context<'_>, id: NodeId) -> bool {
    is_to_vote(context.settings(), id) && context.driver.incoming_voters().contains(&id)
}

/// Whether the settings want a member to vote.
pub(super) fn is_to_vote(settings: &Settings, id: NodeId) -> bool {
    settings.is_member(id) && !settings.is_learner(id)
}

/// Whether votes are changing: raft's change is incomplete, or it is about to remove a vote. A member that will get a
/// vote does not count, because it may never come and nothing depends on it. Nor does a vote that the others still
/// need: it must not prevent the removal of a dead member.
pub(super) fn is_changing(driver: &Driver, settings: &Settings, progress: &Progress, now_ms: u64) -> bool {
    let voters = driver.incoming_voters();
    let is_about_to_go =
        |&id: &NodeId| !progress.is_settled(now_ms) || can_spare(driver, progress, now_ms, &voters, id);
    let mut leaving = voters.iter().filter(|&&id| !is_to_vote(settings, id));
    driver.has_pending_conf() || driver.is_joint() || leaving.any(is_about_to_go)
}

/// Whether the others form a majority without this voter. That was checked when its removal was decided, but another
/// may have died since, or its replacement may lag.
fn can_spare(driver: &Driver, progress: &Progress, now_ms: u64, voters: &[NodeId], id: NodeId) -> bool {
    let rest: Vec<_> = voters.iter().copied().filter(|&voter| voter != id).collect();
    can_decide(driver, progress, now_ms, &rest)
}

/// Whether a majority of these voters answers this leader.
pub(super) fn can_decide(driver: &Driver, progress: &Progress, now_ms: u64, voters: &[NodeId]) -> bool {
    planted!(NeededVoteRemoved)
        || voters.iter().filter(|&&id| answers(driver, progress, now_ms, id)).count() > voters.len() / 2
}

/// Whether a member answers this leader, or is the leader.
pub(super) fn answers(driver: &Driver, progress: &Progress, now_ms: u64, id: NodeId) -> bool {
    id == driver.id() || progress.responded_within(id, ALIVE_MS, now_ms)
}

/// Whether a member answers and its log is almost complete.
pub(super) fn has_caught_up(driver: &Driver, progress: &Progress, now_ms: u64, id: NodeId) -> bool {
    let matched = driver.matched(id).unwrap_or(0);
    matched + LEARNER_LAG_MAX >= driver.commit() && matched > 0 && progress.responded_within(id, ALIVE_MS, now_ms)
}
