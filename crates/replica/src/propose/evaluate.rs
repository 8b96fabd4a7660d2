//! One command, evaluated on the head.

use super::membership::answers;
use super::opened::OpenedKeys;
use super::outcome::{Growth, Outcome, growth_of};
use super::{Evaluated, Head, InFlight, Origin};
use crate::command::{Answer, Command, Taken, UpdateCommand};
use crate::entry::{Body, Entry, SettingsChange, UpdateEntry};
use crate::io::{AdminError, NodeId};
use crate::leader_transfer::successor;
use crate::limits::{ALL_LIVE_WAIT_MS, ALL_LIVE_WAITING_MAX, ENTRY_BYTES_MAX, IMPORT_CHUNK_BYTES};
use crate::machine::{ApplyMismatch, Machine, Prepared, StageError, apply_work, zone_work};
use crate::memory::Memory;
use crate::progress::Progress;
use crate::raft::Driver;
use crate::replica::Counters;
use crate::rotation::Rotation;
use crate::secrets::DataKey;
use crate::state::Known;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wire::number::Rcode;

/// What became of a command.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing goes into the log.
    Answer(Answer),
    /// It is in the batch.
    Batched,
    /// It is in flight already; its origin hears when that is in the log.
    Attached,
    /// The memory of the zones is full: what is on the head must be given up.
    Full,
    /// Our own code panicked at carrying it out: this leader is to evaluate nothing more.
    Panicked(Panicked),
}

/// What a leader's own zones panicked at.
#[derive(Debug)]
pub(super) enum Panicked {
    /// An UPDATE: what is to stand in the log instead, and who waits for it.
    Update(Box<UpdateEntry>, Vec<Origin>),
    /// Anything else.
    Command(Origin),
}

/// What evaluation needs.
pub(super) struct Evaluator<'r> {
    pub(super) head: &'r mut Head,
    pub(super) machine: &'r mut Machine,
    pub(super) driver: &'r mut Driver,
    pub(super) progress: &'r Progress,
    pub(super) rotation: &'r mut Rotation,
    pub(super) opened: &'r mut OpenedKeys,
    pub(super) data_key: &'r DataKey,
    pub(super) memory: &'r Memory,
    pub(super) counters: &'r mut Counters,
    pub(super) key_growth_max: i64,
    pub(super) now_ms: u64,
    pub(super) group: u16,
    pub(super) wall_ms: u64,
}

impl Evaluator<'_> {
    pub(super) fn evaluate(&mut self, origin: Origin, command: Command) -> Step {
        if !self.head.is_fresh {
            self.head.stages = self.machine.stages.clone();
            self.head.time_ms = self.machine.time_ms;
            self.head.is_fresh = true;
        }
        self.head.time_ms = if planted!(TimeGoesBack) { self.wall_ms } else { self.head.time_ms.max(self.wall_ms) };
        match command {
            Command::Update(update) => self.update(origin, update),
            Command::Propose(body) => self.propose(origin, body),
            Command::Settings(change) => self.administrators(origin, change),
            // What stands here is all that was decided: nothing is evaluated between a change of the settings and its
            // application.
            Command::ZoneSet { zone, change } => match self.machine.settings.zones().get(&zone) {
                Some(&options) => {
                    let options = change.of(options);
                    self.administrators(origin, SettingsChange::ZoneOptions { zone, options })
                }
                None => Step::Answer(Answer::Refused(AdminError::ZoneUnknown)),
            },
            Command::KeyRoll { name, algorithm, secret } => match self.machine.settings.keys().get(&name) {
                Some(key) if key.algorithm != algorithm => {
                    Step::Answer(Answer::Refused(AdminError::KeyOfAnotherAlgorithm))
                }
                _ => self.administrators(origin, SettingsChange::KeyRoll { name, secret }),
            },
            Command::PolicySet { zone, policy, expected } => self.policy(origin, zone, policy, expected),
            Command::NodeAdd { node, address, token } => {
                let id = self.machine.settings.next_id(node);
                let members = self.machine.settings.members();
                let taken = |number| members.iter().any(|member| member.id as u32 == number);
                // Where two are to be reached at one address the wrong one answers; one that is gone has left its own
                // to who comes in its place. The token stays good.
                let is_there = |id| answers(self.driver, self.progress, self.now_ms, id);
                let is_used = members.iter().any(|member| member.address == address && is_there(member.id));
                let is_taken = node.is_some_and(taken);
                let change = SettingsChange::MemberAdd { id, address, token };
                // Who has no token that is good is told that alone.
                if is_taken || is_used && self.machine.settings.check(&change, self.head.time_ms).is_ok() {
                    return Step::Answer(Answer::Refused(AdminError::NodeExists));
                }
                self.settings(origin, change, Some(id))
            }
            Command::NodeRemove { id } => self.take_vote(origin, id, None, SettingsChange::MemberRemove { id }),
            Command::TransferLeader { to } => self.transfer(to),
            Command::WaitAllLive { index } => self.wait_all_live(origin, index),
        }
    }

    fn update(&mut self, origin: Origin, update: UpdateCommand) -> Step {
        match self.machine.sessions.known(&update.identity, &update.key_name, update.time_signed, &update.source) {
            Known::Repeat(rcode) => return Step::Answer(Answer::Repeat { rcode, index: self.machine.applied.0 }),
            Known::BadTime => return Step::Answer(Answer::BadTime),
            Known::New => {}
        }
        if let Some(in_flight) = self.head.in_flight.get_mut(&update.identity)
            && !planted!(RepeatInFlightTakenAgain)
        {
            // A replay, or two clients whose messages are identical: never a second execution.
            if in_flight.source != update.source {
                return Step::Answer(Answer::BadTime);
            }
            if let Some((index, term)) = in_flight.position {
                return Step::Answer(Answer::Proposed { index, term });
            }
            in_flight.origins.push(origin);
            return Step::Attached;
        }
        let outcome = match self.is_signed_by_a_secret_in_force(&update) {
            Some(true) => self.guarded_outcome(&update),
            Some(false) => Outcome::from(Rcode::REFUSED),
            None => return Step::Answer(Answer::NotProposed),
        };
        self.head.worked(outcome.work);
        let Outcome { rcode, change, limit, growth, .. } = outcome;
        if growth.is_some_and(Growth::is_more) && self.is_memory_short(0) {
            self.counters.refused_for_memory += 1;
            // Certainly not done, and not in the log either: once there is room the same message may be carried out.
            return Step::Answer(Answer::Refused(AdminError::TooLarge));
        }
        if let Some(limit) = limit {
            self.counters.limits_reached[limit as usize] += 1;
        }
        let (identity, key) = (update.identity, self.machine.settings.keys().get(&update.key_name));
        let body = Body::Update(UpdateEntry {
            identity: update.identity,
            key_generation: key.map_or(0, |key| key.generation),
            key_name: update.key_name,
            policy_epoch: self.machine.settings.epoch(),
            source: update.source,
            time_signed: update.time_signed,
            rcode,
            change,
        });
        let in_flight = InFlight { source: update.source, origins: vec![origin], position: None };
        self.head.in_flight.insert(update.identity, in_flight);
        match self.batch(None, &body, false, None) {
            Ok(()) => {
                self.head.grows(growth);
                Step::Batched
            }
            Err(EvaluateError::Panicked) => self.update_panicked(body),
            Err(EvaluateError::Zones(ApplyMismatch::Full)) => {
                self.head.in_flight.remove(&update.identity);
                Step::Full
            }
            Err(EvaluateError::AboveLevel) => {
                self.head.in_flight.remove(&identity);
                Step::Answer(Answer::NotProposed)
            }
            // Our limit, not a fault of the message (RFC 2136 2.2 "for policy or security reasons").
            Err(EvaluateError::TooLarge) => self.evaluate_error(body, Rcode::REFUSED),
            // A fault of ours; the zone stays as it is.
            Err(EvaluateError::Zones(ApplyMismatch::Base | ApplyMismatch::Content)) => {
                self.machine.invariant_violations.evaluation_mismatches += 1;
                self.evaluate_error(body, Rcode::SERVFAIL)
            }
        }
    }

    /// Whether what made the signature is a secret of the key. The node that verified it may have been behind: the key
    /// was removed or retired since, or is another of the same name. This leader has applied all that changed keys,
    /// since such a change is a barrier. `None` when it cannot open the key, and so does not know.
    fn is_signed_by_a_secret_in_force(&mut self, update: &UpdateCommand) -> Option<bool> {
        let Some(Taken { secret, .. }) = update.taken else { return Some(true) };
        let settings = &self.machine.settings;
        let Some(entry) = settings.keys().get(&update.key_name) else { return Some(false) };
        let key = self.opened.get(settings.epoch(), &update.key_name, entry, self.data_key)?;
        Some(planted!(OldSecretAccepted) || key.has_secret(secret))
    }

    /// The outcome of an UPDATE that cannot be carried out is durable too.
    fn evaluate_error(&mut self, body: Body, rcode: Rcode) -> Step {
        let Body::Update(update) = body else { return Step::Full };
        let identity = update.identity;
        let failed = UpdateEntry { rcode, change: None, ..update };
        match self.batch(None, &Body::Update(failed), false, None) {
            Ok(()) => Step::Batched,
            // What is not in the batch is not in flight: a repeat would wait for it.
            Err(_) => {
                self.head.in_flight.remove(&identity);
                Step::Full
            }
        }
    }

    /// No zone takes the change: what goes into the log is that it failed, so that no leader carries it out again.
    fn update_panicked(&mut self, body: Body) -> Step {
        let Body::Update(update) = body else { return Step::Full };
        let in_flight = self.head.in_flight.remove(&update.identity);
        let origins = in_flight.map_or_else(Vec::new, |in_flight| in_flight.origins);
        let failed = UpdateEntry { rcode: Rcode::SERVFAIL, change: None, ..update };
        Step::Panicked(Panicked::Update(Box::new(failed), origins))
    }

    /// Puts an UPDATE that failed into the batch, on a head that was rewound: it says nothing to the zones.
    pub(super) fn failed_update(&mut self, failed: UpdateEntry, origins: Vec<Origin>) -> Result<(), Vec<Origin>> {
        let (identity, source) = (failed.identity, failed.source);
        self.head.in_flight.insert(identity, InFlight { source, origins, position: None });
        if self.batch(None, &Body::Update(failed), false, None).is_ok()
            && let Some(evaluated) = self.head.batch.last_mut()
        {
            // What is pending is not in the zones any more, so their hash is not the one after this entry.
            evaluated.prepared = None;
            return Ok(());
        }
        Err(self.head.in_flight.remove(&identity).map_or_else(Vec::new, |in_flight| in_flight.origins))
    }

    /// A body that the origin made: an import, or a difference.
    fn propose(&mut self, origin: Origin, mut body: Body) -> Step {
        match self.head.stages.check(&body) {
            Ok(()) => {}
            // Done on the head alone is not done: who sent it hears of the first one, or asks again.
            Err(StageError::Done) if self.machine.stages.check(&body) != Err(StageError::Done) => {
                return Step::Attached;
            }
            Err(StageError::Done) => return Step::Answer(Answer::Done { index: self.machine.applied.0 }),
            // A chunk before its turn: the one before it was dropped and comes again.
            Err(StageError::Mismatch) if matches!(body, Body::ImportChunk(_)) => {
                return Step::Answer(Answer::NotProposed);
            }
            Err(error) => {
                let error = match error {
                    StageError::ZoneBusy | StageError::Full => AdminError::Busy,
                    _ => AdminError::ZoneChanged,
                };
                return Step::Answer(Answer::Refused(error));
            }
        }
        let mut is_barrier = false;
        match &mut body {
            Body::ImportBegin(begin) => {
                let exists = self.machine.settings.zones().contains_key(&begin.zone);
                let creates = matches!(begin.purpose, crate::entry::ImportPurpose::Create { .. });
                if let crate::entry::ImportPurpose::Create { options } = begin.purpose
                    && let Some(step) = self.rotation_first(options)
                {
                    return step;
                }
                match (creates, exists) {
                    (true, true) => return Step::Answer(Answer::Refused(AdminError::ZoneExists)),
                    (false, false) => return Step::Answer(Answer::Refused(AdminError::ZoneUnknown)),
                    (true, false) if !self.machine.settings.has_room_for_zone() => {
                        return Step::Answer(Answer::Refused(AdminError::TooLarge));
                    }
                    _ => {}
                }
                // Known before anything is copied: all that it brings.
                if self.is_memory_short(u64::from(begin.chunk_count) * IMPORT_CHUNK_BYTES as u64) {
                    return self.refused_for_memory();
                }
            }
            Body::ImportChunk(_) if self.is_memory_short(0) => return self.refused_for_memory(),
            Body::ImportCommit(commit) => {
                commit.policy_epoch = self.machine.settings.epoch();
                is_barrier = true;
            }
            Body::Change(change) if !self.machine.settings.zones().contains_key(&change.zone) => {
                return Step::Answer(Answer::Refused(AdminError::ZoneUnknown));
            }
            Body::Change(change) if growth_of(&change.changeset) > 0 && self.is_memory_short(0) => {
                return self.refused_for_memory();
            }
            // What only a leader makes.
            Body::Update(_) | Body::Settings(_) => return Step::Answer(Answer::Refused(AdminError::Malformed)),
            _ => {}
        }
        let put = self.batch(Some(origin), &body, is_barrier, None);
        Self::step_of(origin, put)
    }

    /// What becomes of a command that is no UPDATE.
    pub(super) fn step_of(origin: Origin, put: Result<(), EvaluateError>) -> Step {
        match put {
            Ok(()) => Step::Batched,
            Err(EvaluateError::Zones(ApplyMismatch::Full)) => Step::Full,
            Err(EvaluateError::Panicked) => Step::Panicked(Panicked::Command(origin)),
            Err(evaluate_error) => Step::Answer(Answer::Refused(evaluate_error.to_admin())),
        }
    }

    pub(super) fn successor(&self) -> Option<NodeId> {
        successor(self.driver, self.progress, self.now_ms)
    }

    /// Answered when the reports of the members say so.
    fn wait_all_live(&mut self, origin: Origin, index: u64) -> Step {
        if self.head.all_live_waiters.len() >= ALL_LIVE_WAITING_MAX {
            return Step::Answer(Answer::Done { index: self.machine.applied.0 });
        }
        self.head.all_live_waiters.push((origin, index, self.now_ms + ALL_LIVE_WAIT_MS));
        Step::Attached
    }

    fn transfer(&mut self, to: Option<NodeId>) -> Step {
        let own = self.driver.id();
        let to = to.or_else(|| self.successor());
        match to {
            Some(id) if id == own => {}
            Some(id) if self.driver.incoming_voters().contains(&id) => self.driver.transfer_leader(id),
            Some(_) => return Step::Answer(Answer::Refused(AdminError::NodeUnknown)),
            None => return Step::Answer(Answer::Refused(AdminError::LastVoter)),
        }
        Step::Answer(Answer::Done { index: self.machine.applied.0 })
    }

    /// Carries out what concerns zones on the head, and puts the entry into the batch.
    pub(super) fn batch(
        &mut self,
        origin: Option<Origin>,
        body: &Body,
        is_barrier: bool,
        joined: Option<NodeId>,
    ) -> Result<(), EvaluateError> {
        let feature_level = body.feature_level();
        if feature_level > self.machine.settings.feature_level() {
            return Err(EvaluateError::AboveLevel);
        }
        let bytes = body.encode(self.group, self.head.time_ms);
        if bytes.len() > ENTRY_BYTES_MAX {
            return Err(EvaluateError::TooLarge);
        }
        // Members end at an entry that they cannot read.
        debug_assert_eq!(Entry::decode(&bytes).map(|entry| entry.body).as_ref(), Ok(body), "read as it was written");
        let mut version = None;
        let taken_before = self.machine.zones.allocated_bytes();
        if let Some(work) = zone_work(body, &self.head.stages) {
            match catch_unwind(AssertUnwindSafe(|| apply_work(&mut self.machine.zones, work))) {
                Ok(Ok(sealed)) => version = Some(sealed),
                Ok(Err(mismatch)) => return Err(EvaluateError::Zones(mismatch)),
                Err(_) => return Err(EvaluateError::Panicked),
            }
        }
        let prepared = Some(Prepared { version, zones_hash: self.machine.zones.head().state_hash() });
        self.head.stages.advance(body, 0);
        self.head.has_barrier |= is_barrier;
        let (size, copied) = (bytes.len(), self.machine.zones.allocated_bytes() - taken_before);
        self.head.bytes += size;
        self.head.copied += copied;
        self.head.batch_copied += copied;
        self.head.worked(copied);
        let identity = if let Body::Update(update) = body { Some(update.identity) } else { None };
        let evaluated = Evaluated {
            origin,
            identity,
            bytes,
            size,
            copied,
            growth: None,
            prepared,
            is_barrier,
            joined,
            feature_level,
        };
        self.head.batch.push(evaluated);
        Ok(())
    }
}

/// The label that evaluation panics at, in tests of what becomes of that.
#[cfg(test)]
pub(crate) const PANIC_LABEL: &[u8] = b"message-of-death";

#[cfg(test)]
pub(super) fn must_panic(message: &[u8]) -> bool {
    message.windows(PANIC_LABEL.len()).any(|bytes| bytes == PANIC_LABEL)
}

/// Why an evaluated command does not become an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EvaluateError {
    /// It cannot be applied to the zones.
    Zones(ApplyMismatch),
    /// The entry would be larger than [`ENTRY_BYTES_MAX`].
    TooLarge,
    /// It needs a higher feature level.
    AboveLevel,
    /// Applying it panicked.
    Panicked,
}

impl EvaluateError {
    const fn to_admin(self) -> AdminError {
        match self {
            Self::TooLarge => AdminError::TooLarge,
            Self::AboveLevel => AdminError::LevelTooLow,
            Self::Zones(ApplyMismatch::Content) | Self::Panicked => AdminError::ZoneInvalid,
            Self::Zones(ApplyMismatch::Base | ApplyMismatch::Full) => AdminError::ZoneChanged,
        }
    }
}
