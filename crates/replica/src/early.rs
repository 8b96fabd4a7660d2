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
use crate::limits::EARLY_VOTERS_MAX;
use crate::peer::{Durable, Frame};
use crate::replica::Replica;
use std::collections::BTreeMap;

/// Both sides of it, in one term.
#[derive(Debug, Default)]
pub(crate) struct Early {
    /// The leader's: members that wait for updates of theirs, and the last entry of those.
    waiting: BTreeMap<NodeId, u64>,
    /// The leader's: up to where others may have committed.
    told: u64,
    /// A follower's: what its leader said last.
    heard: Option<Durable>,
}

impl Early {
    /// An update that a member took is in this leader's log.
    pub(crate) fn wait(&mut self, member: NodeId, index: u64) {
        self.waiting.insert(member, index);
    }
}

impl Replica {
    /// Another term, or another role in it.
    pub(crate) fn reset_early(&mut self) {
        self.early = Early::default();
    }

    /// Up to where somebody may have committed, as far as this leader knows: what was acknowledged anywhere is not
    /// behind it.
    pub(crate) fn commit_anywhere(&self) -> u64 {
        if planted!(ReadsForgetEarlyCommit) { self.driver.commit() } else { self.driver.commit().max(self.early.told) }
    }

    /// More of the log is durable: a leader tells those who wait for it, a follower commits what it can.
    pub(crate) fn early_persisted(&mut self) {
        if self.driver.is_leader() { self.tell_durable() } else { self.commit_early() }
    }

    fn tell_durable(&mut self) {
        let commit = self.driver.commit();
        self.early.waiting.retain(|_, &mut index| index > commit);
        if self.early.waiting.is_empty() || self.machine.settings.feature_level() < 2 {
            return;
        }
        // While the voters change, only who leads counts.
        let Some(voters) = self
            .driver
            .settled_voters()
            .filter(|voters| voters.len() <= if planted!(EarlyCommitWithoutMajority) { 64 } else { EARLY_VOTERS_MAX })
        else {
            return;
        };
        let (term, index) = (
            self.driver.term(),
            if planted!(EarlyCommitBeforeDisk) { self.driver.last_index() } else { self.driver.persisted_index() },
        );
        let told: Vec<_> = self.early.waiting.extract_if(.., |_, &mut last| last <= index).map(|(id, _)| id).collect();
        for id in told {
            self.early.told = self.early.told.max(index);
            self.send(id, &Frame::Durable(Durable { term, index, voters: voters.clone() }));
        }
    }

    pub(crate) fn handle_durable(&mut self, from: NodeId, durable: Durable) {
        let is_ours = durable.term == self.driver.term() && self.driver.leader() == Some(from);
        if !is_ours && !planted!(EarlyCommitFromAnybody) || self.driver.is_leader() {
            return;
        }
        if self.early.heard.as_ref().is_none_or(|heard| heard.index <= durable.index) {
            self.early.heard = Some(durable);
        }
        self.commit_early();
    }

    /// Commits what the leader and this member hold, if they are a majority of those who vote for the leader and here:
    /// the rule of raft for an entry of the leader's term, counted by another than the leader.
    fn commit_early(&mut self) {
        let Some(heard) = self
            .early
            .heard
            .as_ref()
            .filter(|heard| planted!(EarlyCommitFromAnybody) || heard.term == self.driver.term())
        else {
            return;
        };
        let index = heard.index.min(self.driver.persisted_index());
        if index <= self.driver.commit() {
            return;
        }
        let pair = [self.driver.id(), self.driver.leader().unwrap_or(raft::INVALID_ID)];
        let are_same =
            self.driver.settled_voters().as_ref() == Some(&heard.voters) || planted!(EarlyCommitOfOtherVoters);
        if !(are_same && self.driver.is_majority(&pair) || planted!(EarlyCommitWithoutMajority)) {
            return;
        }
        self.driver.commit_early(heard.term, index);
    }
}
