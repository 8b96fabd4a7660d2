//! A leader evaluates waiting commands in batches, and proposes each batch.

use super::Replica;
use crate::command::{Answer, Command};
use crate::context::Context;
use crate::entry::SettingsChange;
use crate::io::{AdminError, FatalReason};
use crate::propose::{Evaluator, Origin, Panicked, Step};

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
        let context = Context::new(&self.local, &self.driver, &self.machine);
        if self.full.refuses_proposals(&context, &self.progress) {
            self.refuse_for_disk();
        }
        let is_ready = (self.driver.has_applied_own_term() || planted!(EvaluatesBeforeOwnTerm))
            && !self.local.lifecycle.is_fenced()
            && !self.driver.is_transferring();
        let has_batch = is_ready && self.evaluate_some();
        if has_batch {
            self.propose_batch();
        }
        has_batch
    }

    /// Refuses the updates that are waiting for evaluation. They were certainly not proposed.
    fn refuse_for_disk(&mut self) {
        let origins = self.head.drain_for_log();
        self.outputs.counters.refused_for_disk += origins.len() as u64;
        // Members at the first feature level do not know the other response.
        let is_known = self.machine.settings.feature_level() >= 2;
        self.reply_all(origins, if is_known { Answer::Overloaded } else { Answer::NotProposed });
    }

    fn evaluator(&mut self) -> Evaluator<'_> {
        let wall_ms = self.clocks.cluster_wall_ms(self.local.now);
        Evaluator {
            head: &mut self.head,
            machine: &mut self.machine,
            driver: &self.driver,
            progress: &self.progress,
            rotation: &mut self.rotation,
            opened: &mut self.opened_keys,
            data_key: &self.local.config.data_key,
            memory: &self.memory,
            counters: &mut self.outputs.counters,
            key_growth_max: i64::try_from(self.local.config.key_growth_bytes_max).unwrap_or(i64::MAX),
            now_ms: self.local.now.monotonic_ms,
            group: self.local.config.group,
            wall_ms,
            transfer_to: None,
        }
    }

    /// Evaluates until the batch is full. Returns whether there is a batch.
    fn evaluate_some(&mut self) -> bool {
        let copied_max = self.memory.copied_in_flight_max();
        while let Some((origin, command)) = self.head.next(copied_max) {
            if self.is_above_members(&command) {
                self.reply(origin, Answer::Refused(AdminError::LevelTooLow));
                continue;
            }
            let mut evaluator = self.evaluator();
            let step = evaluator.evaluate(origin, command);
            if let Some(to) = evaluator.transfer_to {
                self.driver.transfer_leader(to);
            }
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
        self.head.has_batch()
    }

    /// Applying a change to this leader's own zones panicked, which is a bug. The zones in memory may be inconsistent,
    /// so the batch is dropped, the leadership is transferred, and the process restarts from its disk. The next leader
    /// must not evaluate the change again: an UPDATE gets the outcome SERVFAIL in the log, another command is refused.
    fn apply_panicked(&mut self, at: Panicked) {
        self.machine.invariant_violations.apply_panics += 1;
        self.proposal_dropped();
        match at {
            Panicked::Update(_, origins) if planted!(PanickingChangeSentAgain) => {
                self.reply_all(origins, Answer::NotProposed);
            }
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
            if *level > self.machine.settings.feature_level()
                && *level > self.progress.level_of_members(&self.context()))
    }

    fn propose_batch(&mut self) {
        let level = self.machine.settings.feature_level();
        let entries = self.head.batch_entries(self.driver.id(), level);
        let Ok(first) = self.driver.propose_entries(entries) else {
            return self.proposal_dropped();
        };
        let replies = self.head.batch_proposed(first, self.driver.term(), &mut self.follower_commit);
        for (origin, answer) in replies {
            self.reply(origin, answer);
        }
        if planted!(EarlyCommitBeforeDisk) {
            self.log_persisted();
        }
    }

    /// The batch cannot enter the log, because too much is uncommitted, a transfer began, or memory is full. The
    /// zones return to the applied state, and earlier proposals are applied as on a follower.
    fn proposal_dropped(&mut self) {
        let origins = self.head.drop_batch();
        self.machine.rewind();
        self.head.rewound();
        self.outputs.counters.proposals_dropped += 1;
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

    /// Queues a command of this leader itself. Nobody waits for the answer. Returns whether there was room.
    pub(crate) fn propose_own(&mut self, change: SettingsChange) -> bool {
        let origin = Origin { peer: None, token: self.requests.waiters.token_without_waiter() };
        self.head.enqueue(origin, Command::Settings(change))
    }

    /// Sends the same answer to each origin.
    pub(crate) fn reply_all(&mut self, origins: Vec<Origin>, answer: Answer) {
        for origin in origins {
            self.reply(origin, answer);
        }
    }
}
