//! The follower that received an update commits it without waiting for the leader's commit: when the leader reports
//! that the entry is on its disk and the follower has it on its own, the two are a majority in a cluster of up to three
//! (`docs/internals/decisions/0022`).
//!
//! ```text
//!   leader   entry --> synced --> Durable --+
//!   member   entry --> synced --------------+--> committed here, applied, answered
//! ```
//!
//! The leader may learn of such a commit later, from acknowledgements. So its read index and its reports count
//! everything that it announced as durable as committed.

use crate::context::{Context, Outputs};
use crate::io::NodeId;
use crate::limits::FOLLOWER_COMMIT_VOTERS_MAX;
use crate::peer::{Durable, Frame};
use crate::raft::Driver;
use std::collections::BTreeMap;

/// State of the leader and of a follower, in one term.
#[derive(Debug, Default)]
pub(crate) struct FollowerCommit {
    /// On the leader: the last entry that each follower waits for.
    waiting: BTreeMap<NodeId, u64>,
    /// On the leader: the highest index announced as durable. Followers may have committed up to it.
    announced: u64,
    /// On a follower: the leader's last message.
    leader_durable: Option<Durable>,
}

impl FollowerCommit {
    /// An update from this follower is in the leader's log.
    pub(crate) fn wait(&mut self, member: NodeId, index: u64) {
        self.waiting.insert(member, index);
    }

    /// The highest index that any member may have committed. No acknowledged entry is after it.
    pub(crate) fn highest_possible_commit(&self, driver: &Driver) -> u64 {
        if planted!(ReadsForgetEarlyCommit) { driver.commit() } else { driver.commit().max(self.announced) }
    }

    /// More of this leader's log is durable: it informs the followers that wait for that.
    pub(crate) fn send_durable(&mut self, context: &Context<'_>, outputs: &mut Outputs) {
        let driver = context.driver;
        let commit = driver.commit();
        self.waiting.retain(|_, &mut index| index > commit);
        if self.waiting.is_empty() || context.settings().feature_level() < 2 {
            return;
        }
        // During a change of voters only the leader counts commits.
        let Some(voters) = driver.settled_voters().filter(|voters| {
            voters.len() <= if planted!(EarlyCommitWithoutMajority) { 64 } else { FOLLOWER_COMMIT_VOTERS_MAX }
        }) else {
            return;
        };
        let (term, index) = (
            driver.term(),
            if planted!(EarlyCommitBeforeDisk) { driver.last_index() } else { driver.persisted_index() },
        );
        let announced: Vec<_> = self.waiting.extract_if(.., |_, &mut last| last <= index).map(|(id, _)| id).collect();
        for id in announced {
            self.announced = self.announced.max(index);
            outputs.send(id, &Frame::Durable(Durable { term, index, voters: voters.clone() }));
        }
    }

    /// Takes the leader's message. Returns what this follower must commit now, as term and index.
    pub(crate) fn handle_durable(
        &mut self,
        context: &Context<'_>,
        from: NodeId,
        durable: Durable,
    ) -> Option<(u64, u64)> {
        let driver = context.driver;
        let is_ours = durable.term == driver.term() && driver.leader() == Some(from);
        if !is_ours && !planted!(EarlyCommitFromAnybody) || driver.is_leader() {
            return None;
        }
        if self.leader_durable.as_ref().is_none_or(|leader_durable| leader_durable.index <= durable.index) {
            self.leader_durable = Some(durable);
        }
        self.to_commit(context)
    }

    /// The entries that the leader and this member have on disk, as term and index, if the two are a majority and both
    /// know the same voters. This is Raft's commit rule, counted by a follower.
    pub(crate) fn to_commit(&self, context: &Context<'_>) -> Option<(u64, u64)> {
        let driver = context.driver;
        let leader_durable = self
            .leader_durable
            .as_ref()
            .filter(|leader_durable| planted!(EarlyCommitFromAnybody) || leader_durable.term == driver.term())?;
        let index = leader_durable.index.min(driver.persisted_index());
        if index <= driver.commit() {
            return None;
        }
        let pair = [driver.id(), driver.leader().unwrap_or(raft::INVALID_ID)];
        let are_same =
            driver.settled_voters().as_ref() == Some(&leader_durable.voters) || planted!(EarlyCommitOfOtherVoters);
        let is_committed = are_same && driver.is_majority(&pair) || planted!(EarlyCommitWithoutMajority);
        is_committed.then_some((leader_durable.term, index))
    }
}
