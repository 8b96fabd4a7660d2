//! The member that took an update commits it together with the leader: it hears that the leader's log is on stable
//! storage that far, its own is too, and the two are a majority. It need not tell the leader first and hear back
//! (`docs/internals/decisions/0022`).
//!
//! ```text
//!   leader   entry --> synced --> Durable --+
//!   member   entry --> synced --------------+--> committed here, applied, answered
//! ```
//!
//! The leader learns of that commit as of any other, from acknowledgements, perhaps later. What it says of how far
//! things are (reads, reports) therefore counts what it told others as committed.

use crate::io::NodeId;
use crate::limits::FOLLOWER_COMMIT_VOTERS_MAX;
use crate::peer::{Durable, Frame};
use crate::replica::Replica;
use std::collections::BTreeMap;

/// Both sides of it, in one term.
#[derive(Debug, Default)]
pub(crate) struct FollowerCommit {
    /// The leader's: members that wait for updates of theirs, and the last entry of those.
    waiting: BTreeMap<NodeId, u64>,
    /// The leader's: up to where others may have committed.
    announced: u64,
    /// A follower's: what its leader said last.
    leader_durable: Option<Durable>,
}

impl FollowerCommit {
    /// An update that a member took is in this leader's log.
    pub(crate) fn wait(&mut self, member: NodeId, index: u64) {
        self.waiting.insert(member, index);
    }
}

impl Replica {
    /// Another term, or another role in it.
    pub(crate) fn reset_follower_commit(&mut self) {
        self.follower_commit = FollowerCommit::default();
    }

    /// Up to where somebody may have committed, as far as this leader knows: what was acknowledged anywhere is not
    /// behind it.
    pub(crate) fn highest_possible_commit(&self) -> u64 {
        if planted!(ReadsForgetEarlyCommit) {
            self.driver.commit()
        } else {
            self.driver.commit().max(self.follower_commit.announced)
        }
    }

    /// More of the log is durable: a leader tells those who wait for it, a follower commits what it can.
    pub(crate) fn log_persisted(&mut self) {
        if self.driver.is_leader() { self.send_durable() } else { self.commit_as_follower() }
    }

    fn send_durable(&mut self) {
        let commit = self.driver.commit();
        self.follower_commit.waiting.retain(|_, &mut index| index > commit);
        if self.follower_commit.waiting.is_empty() || self.machine.settings.feature_level() < 2 {
            return;
        }
        // While the voters change, only who leads counts.
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

    /// Commits what the leader and this member hold, if they are a majority of those who vote for the leader and here:
    /// the rule of raft for an entry of the leader's term, counted by another than the leader.
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
