//! Everything that waits is evaluated, and goes into the log as one proposal.

use super::evaluate::{Evaluator, Panicked, Step};
use super::{Evaluated, Origin, Pending, Reply};
use crate::command::{Answer, Command};
use crate::entry::SettingsChange;
use crate::io::{AdminError, FatalReason};
use crate::replica::Replica;
use raft::eraftpb::Entry;

impl Replica {
    /// Evaluates and proposes a batch of what waits; whether there was one.
    pub(crate) fn propose_waiting(&mut self) -> bool {
        if !self.driver.is_leader() {
            let origins = self.head.clear();
            self.reply_all(origins, Answer::NotProposed);
            return false;
        }
        // Only now the state holds all that was acknowledged before this term. While a transfer goes on raft drops
        // proposals; what waits is evaluated when it has failed.
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

    /// Evaluates until the batch is full; whether there is a batch.
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
                // The memory of the zones is full here, and so it soon is elsewhere: nobody gets to apply it.
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

    /// This leader's own zones panicked at a change, which is a bug of ours. Nobody knows what that left in their
    /// memory, so nothing more is built on it: what is evaluated is given up, the leadership goes to another, and the
    /// process ends and comes back from what is on its disk. The change must not follow the leadership: an UPDATE has
    /// its outcome in the log, SERVFAIL, whoever leads; who asked for anything else is told no.
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

    /// Whether a command would raise the feature level above what some member knows, or is known to know.
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

    /// None of the batch goes into the log (too much is uncommitted, a transfer began, or memory is full): the zones go
    /// back to what is applied, and what was proposed before is applied as on a follower.
    fn proposal_dropped(&mut self) {
        let origins = self.head.drop_batch();
        self.machine.rewind();
        self.head.rewound();
        self.counters.proposals_dropped += 1;
        self.reply_all(origins, Answer::NotProposed);
    }

    /// Leadership is lost, or another term began: the head is thrown away.
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

    /// Tells each of the origins the same.
    pub(crate) fn reply_all(&mut self, origins: Vec<Origin>, answer: Answer) {
        for origin in origins {
            self.reply(origin, answer);
        }
    }
}
