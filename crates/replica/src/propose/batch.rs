//! Evaluates waiting commands in batches. Each batch is one proposal.

use super::evaluate::{Evaluator, Panicked, Step};
use super::{Evaluated, Origin, Pending, Reply};
use crate::command::{Answer, Command};
use crate::entry::SettingsChange;
use crate::io::{AdminError, FatalReason};
use crate::replica::Replica;
use raft::eraftpb::Entry;

impl Replica {
    /// Evaluates and proposes a batch of waiting commands. Returns whether there was one.
    pub(crate) fn propose_waiting(&mut self) -> bool {
        if !self.driver.is_leader() {
            let origins = self.head.clear();
            self.reply_all(origins, Answer::NotProposed);
            return false;
        }
        // Not before an entry of this term is applied: only then the state has everything acknowledged before. During a
        // transfer raft drops proposals, so waiting commands are evaluated only if it fails.
        if self.refuses_for_disk() {
            self.refuse_for_disk();
        }
        let is_ready = (self.driver.has_applied_own_term() || planted!(EvaluatesBeforeOwnTerm))
            && !self.is_fenced()
            && !self.driver.is_transferring();
        let has_batch = is_ready && self.evaluate_some();
        if has_batch {
            self.propose_batch();
        }
        has_batch
    }

    fn evaluator(&mut self) -> Evaluator<'_> {
        let wall_ms = self.cluster_wall_ms();
        Evaluator {
            head: &mut self.head,
            machine: &mut self.machine,
            driver: &mut self.driver,
            progress: &self.progress,
            rotation: &mut self.rotation,
            opened: &mut self.opened_keys,
            data_key: &self.config.data_key,
            memory: &self.memory,
            counters: &mut self.counters,
            key_growth_max: i64::try_from(self.config.key_growth_bytes_max).unwrap_or(i64::MAX),
            now_ms: self.now.monotonic_ms,
            group: self.config.group,
            wall_ms,
        }
    }

    /// Evaluates until the batch is full. Returns whether there is a batch.
    fn evaluate_some(&mut self) -> bool {
        let copied_max = self.memory.copied_in_flight_max();
        while self.head.has_room(copied_max) {
            let Some((origin, command)) = self.head.queue.pop() else { break };
            if self.is_above_members(&command) {
                self.reply(origin, Answer::Refused(AdminError::LevelTooLow));
                continue;
            }
            let step = self.evaluator().evaluate(origin, command);
            match step {
                Step::Answer(answer) => self.reply(origin, answer),
                Step::Batched | Step::Attached => {}
                // The memory of the zones is full here, and soon on other members: the command must not be applied.
                Step::Full => {
                    self.proposal_dropped();
                    self.reply(origin, Answer::Refused(AdminError::TooLarge));
                    return false;
                }
                Step::Panicked(at) => {
                    self.apply_panicked(at);
                    break;
                }
            }
        }
        !self.head.batch.is_empty()
    }

    /// Applying a change to this leader's own zones panicked, which is a bug. The zones in memory may be inconsistent,
    /// so the batch is dropped, the leadership is transferred, and the process restarts from its disk. The next leader
    /// must not evaluate the change again: an UPDATE gets the outcome SERVFAIL in the log, another command is refused.
    fn apply_panicked(&mut self, at: Panicked) {
        self.machine.invariant_violations.apply_panics += 1;
        self.proposal_dropped();
        match at {
            Panicked::Update(failed, origins) => {
                let put = self.evaluator().failed_update(*failed, origins);
                self.reply_all(put.err().unwrap_or_default(), Answer::Overloaded);
            }
            Panicked::Command(origin) => self.reply(origin, Answer::Refused(AdminError::ZoneInvalid)),
        }
        self.end_in_order(FatalReason::CarryOutPanicked);
    }

    /// Whether a command would raise the feature level above that of a member, or of a member whose level is unknown.
    fn is_above_members(&self, command: &Command) -> bool {
        matches!(command, Command::Settings(SettingsChange::FeatureLevel { level })
            if *level > self.machine.settings.feature_level() && *level > self.level_of_members())
    }

    fn propose_batch(&mut self) {
        let level = self.machine.settings.feature_level();
        let is_known = |evaluated: &Evaluated| evaluated.feature_level <= level;
        assert!(self.head.batch.iter().all(is_known), "a member that does not know an entry would stop at it");
        let own = self.driver.id();
        let entry_of = |evaluated: &mut Evaluated| Entry {
            data: core::mem::take(&mut evaluated.bytes).into(),
            context: evaluated.origin.map_or_else(Vec::new, |origin| origin.beside_entry(own)).into(),
            ..Entry::default()
        };
        let entries = self.head.batch.iter_mut().map(entry_of).collect();
        let Ok(first) = self.driver.propose_entries(entries) else {
            return self.proposal_dropped();
        };
        let term = self.driver.term();
        let batch = core::mem::take(&mut self.head.batch);
        self.head.batch_copied = 0;
        let mut replies: Vec<Reply> = Vec::new();
        for (index, evaluated) in (first..).zip(batch) {
            self.proposed(index, term, &evaluated, &mut replies);
            let Evaluated { identity, prepared, is_barrier, size, copied, growth, .. } = evaluated;
            self.head.pending.push_back(Pending { index, term, identity, prepared, is_barrier, size, copied, growth });
        }
        for (origin, answer) in replies {
            self.reply(origin, answer);
        }
        if planted!(EarlyCommitBeforeDisk) {
            self.log_persisted();
        }
    }

    fn proposed(&mut self, index: u64, term: u64, evaluated: &Evaluated, replies: &mut Vec<Reply>) {
        if let Some(origin) = evaluated.origin {
            let answer = match evaluated.joined {
                Some(id) => Answer::Joined { index, term, id },
                None => Answer::Proposed { index, term },
            };
            replies.push((origin, answer));
        }
        let in_flight = evaluated.identity.and_then(|identity| self.head.in_flight.get_mut(&identity));
        if let Some(in_flight) = in_flight {
            in_flight.position = Some((index, term));
            let origins = core::mem::take(&mut in_flight.origins);
            for member in origins.iter().filter_map(|origin| origin.peer) {
                self.follower_commit.wait(member, index);
            }
            replies.extend(origins.into_iter().map(|origin| (origin, Answer::Proposed { index, term })));
        }
    }

    /// The batch does not go into the log, because too much is uncommitted, a transfer began, or memory is full. The
    /// zones return to the applied state, and earlier proposals are applied as on a follower.
    fn proposal_dropped(&mut self) {
        let origins = self.head.drop_batch();
        self.machine.rewind();
        self.head.rewound();
        self.counters.proposals_dropped += 1;
        self.reply_all(origins, Answer::NotProposed);
    }

    /// Leadership was lost or the term changed: drops the head.
    pub(crate) fn drop_head(&mut self) {
        if planted!(HeadKept) {
            let origins = self.head.clear();
            return self.reply_all(origins, Answer::NotProposed);
        }
        let had_head = self.head.uncommitted_count() > 0;
        let origins = self.head.clear();
        if had_head {
            self.machine.rewind();
        }
        self.reply_all(origins, Answer::NotProposed);
    }

    /// Sends the same answer to each origin.
    pub(crate) fn reply_all(&mut self, origins: Vec<Origin>, answer: Answer) {
        for origin in origins {
            self.reply(origin, answer);
        }
    }
}
