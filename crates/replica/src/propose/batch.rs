//! The batch of evaluated commands, which becomes one proposal.

use super::head::{Evaluated, Head, Pending};
use super::origin::{Origin, Reply};
use crate::command::{Answer, Command};
use crate::follower_commit::FollowerCommit;
use crate::io::NodeId;
use raft::eraftpb::Entry;

impl Head {
    /// Removes and returns the next command, if it may be evaluated. At most `copied_max` bytes may be copied ahead of
    /// application.
    pub(crate) fn next(&mut self, copied_max: u64) -> Option<(Origin, Command)> {
        if self.has_room(copied_max) { self.queue.pop() } else { None }
    }

    pub(crate) const fn has_batch(&self) -> bool {
        !self.batch.is_empty()
    }

    /// The entries of the batch for raft, at the cluster's feature level.
    pub(crate) fn batch_entries(&mut self, own: NodeId, level: u32) -> Vec<Entry> {
        let is_known = |evaluated: &Evaluated| evaluated.feature_level <= level;
        assert!(self.batch.iter().all(is_known), "a member that does not know an entry would stop at it");
        let entry_of = |evaluated: &mut Evaluated| Entry {
            data: core::mem::take(&mut evaluated.bytes).into(),
            context: evaluated.origin.map_or_else(Vec::new, |origin| origin.entry_context(own)).into(),
            ..Entry::default()
        };
        self.batch.iter_mut().map(entry_of).collect()
    }

    /// The batch is in the log from index `first`. Returns the answers.
    pub(crate) fn batch_proposed(&mut self, first: u64, term: u64, follower_commit: &mut FollowerCommit) -> Vec<Reply> {
        let batch = core::mem::take(&mut self.batch);
        self.batch_copied = 0;
        let mut replies: Vec<Reply> = Vec::new();
        for (index, evaluated) in (first..).zip(batch) {
            self.proposed(index, term, &evaluated, follower_commit, &mut replies);
            let Evaluated { identity, prepared, is_barrier, size, copied, growth, .. } = evaluated;
            self.pending.push_back(Pending { index, term, identity, prepared, is_barrier, size, copied, growth });
        }
        replies
    }

    fn proposed(
        &mut self,
        index: u64,
        term: u64,
        evaluated: &Evaluated,
        follower_commit: &mut FollowerCommit,
        replies: &mut Vec<Reply>,
    ) {
        if let Some(origin) = evaluated.origin {
            let answer = match evaluated.joined {
                Some(id) => Answer::Joined { index, term, id },
                None => Answer::Proposed { index, term },
            };
            replies.push((origin, answer));
        }
        let in_flight = evaluated.identity.and_then(|identity| self.in_flight.get_mut(&identity));
        if let Some(in_flight) = in_flight {
            in_flight.position = Some((index, term));
            let origins = core::mem::take(&mut in_flight.origins);
            for member in origins.iter().filter_map(|origin| origin.peer) {
                follower_commit.wait(member, index);
            }
            replies.extend(origins.into_iter().map(|origin| (origin, Answer::Proposed { index, term })));
        }
    }
}
