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

use crate::io::NodeId;
use crate::limits::FOLLOWER_COMMIT_VOTERS_MAX;
use crate::peer::{Durable, Frame};
use crate::replica::Replica;
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
}

impl Replica {
    /// The term or the role changed.
    pub(crate) fn reset_follower_commit(&mut self) {
        self.follower_commit = FollowerCommit::default();
    }

    /// The highest index that any member may have committed. No acknowledged entry is after it.
    pub(crate) fn highest_possible_commit(&self) -> u64 {
        if planted!(ReadsForgetEarlyCommit) {
            self.driver.commit()
        } else {
            self.driver.commit().max(self.follower_commit.announced)
        }
    }

    /// More of the log is durable. A leader informs waiting followers, a follower commits what it can.
    pub(crate) fn log_persisted(&mut self) {
        if self.driver.is_leader() { self.send_durable() } else { self.commit_as_follower() }
    }

    fn send_durable(&mut self) {
        let commit = self.driver.commit();
        self.follower_commit.waiting.retain(|_, &mut index| index > commit);
        if self.follower_commit.waiting.is_empty() || self.machine.settings.feature_level() < 2 {
            return;
        }
        // During a change of voters only the leader counts commits.
        let Some(voters) = self.driver.settled_voters().filter(|voters| {
            voters.len() <= if planted!(EarlyCommitWithoutMajority) { 64 } else { FOLLOWER_COMMIT_VOTERS_MAX }
        }) else {
            return;
        };
        let (term, index) = (
            self.driver.term(),
            if planted!(EarlyCommitBeforeDisk) { self.driver.last_index() } else { self.driver.persisted_index() },
        );
        let announced: Vec<_> =
            self.follower_commit.waiting.extract_if(.., |_, &mut last| last <= index).map(|(id, _)| id).collect();
        for id in announced {
            self.follower_commit.announced = self.follower_commit.announced.max(index);
            self.send(id, &Frame::Durable(Durable { term, index, voters: voters.clone() }));
        }
    }

    pub(crate) fn handle_durable(&mut self, from: NodeId, durable: Durable) {
        let is_ours = durable.term == self.driver.term() && self.driver.leader() == Some(from);
        if !is_ours && !planted!(EarlyCommitFromAnybody) || self.driver.is_leader() {
            return;
        }
        if self
            .follower_commit
            .leader_durable
            .as_ref()
            .is_none_or(|leader_durable| leader_durable.index <= durable.index)
        {
            self.follower_commit.leader_durable = Some(durable);
        }
        self.commit_as_follower();
    }

    /// Commits the entries that the leader and this member have on disk, if the two are a majority and both know the
    /// same voters. This is Raft's commit rule, counted by a follower.
    fn commit_as_follower(&mut self) {
        let Some(leader_durable) = self
            .follower_commit
            .leader_durable
            .as_ref()
            .filter(|leader_durable| planted!(EarlyCommitFromAnybody) || leader_durable.term == self.driver.term())
        else {
            return;
        };
        let index = leader_durable.index.min(self.driver.persisted_index());
        if index <= self.driver.commit() {
            return;
        }
        let pair = [self.driver.id(), self.driver.leader().unwrap_or(raft::INVALID_ID)];
        let are_same =
            self.driver.settled_voters().as_ref() == Some(&leader_durable.voters) || planted!(EarlyCommitOfOtherVoters);
        if !(are_same && self.driver.is_majority(&pair) || planted!(EarlyCommitWithoutMajority)) {
            return;
        }
        self.driver.commit_as_follower(leader_durable.term, index);
    }
}
