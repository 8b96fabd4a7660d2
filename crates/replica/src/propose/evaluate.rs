//! Evaluates one command on the head.

use super::evaluator::{Evaluator, Panicked, Step};
use super::head::{Evaluated, Growth, InFlight};
use super::membership::answers;
use super::origin::Origin;
use super::outcome::Outcome;
use crate::command::{Answer, Command, Reception, UpdateCommand};
use crate::entry::{Body, Entry, SettingsChange, UpdateEntry};
use crate::io::{AdminError, NodeId};
use crate::leader_transfer::successor;
use crate::limits::{ALL_LIVE_WAIT_MS, ALL_LIVE_WAITING_MAX, ENTRY_BYTES_MAX, IMPORT_CHUNK_BYTES};
use crate::machine::{ApplyMismatch, Prepared, StageError, apply_work, growth_of, zone_work};
use crate::state::Known;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wire::number::Rcode;

impl Evaluator<'_> {
    pub(crate) fn evaluate(&mut self, origin: Origin, command: Command) -> Step {
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
            // The applied settings are the newest: nothing is evaluated between a change of the settings and its
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
                // If two members had one address, the wrong one might answer. A member that is gone leaves its
                // address to its replacement. The token stays valid.
                let is_there = |id| answers(self.driver, self.progress, self.now_ms, id);
                let is_used = members.iter().any(|member| member.address == address && is_there(member.id));
                let is_taken = node.is_some_and(taken);
                let change = SettingsChange::MemberAdd { id, address, token };
                // A sender without a valid token learns only that.
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
            // A replay, or two clients with identical messages. It is never executed twice.
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
            // It was not executed and is not in the log, so the same message may be executed once there is memory.
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
            // A limit of this server, not an error in the message (RFC 2136 2.2 "for policy or security reasons").
            Err(EvaluateError::TooLarge) => self.evaluate_error(body, Rcode::REFUSED),
            // A bug in this software; the zone remains as it is.
            Err(EvaluateError::Zones(ApplyMismatch::Base | ApplyMismatch::Content)) => {
                self.machine.invariant_violations.evaluation_mismatches += 1;
                self.evaluate_error(body, Rcode::SERVFAIL)
            }
        }
    }

    /// Whether the signing secret is a current secret of the key. The node that verified it may have been behind:
    /// since then the key may have been removed, retired or replaced by another of the same name. This leader has
    /// applied all changes of keys, because each is a barrier. `None` if it cannot open the key and so does not know.
    fn is_signed_by_a_secret_in_force(&mut self, update: &UpdateCommand) -> Option<bool> {
        let Some(Reception { secret, .. }) = update.reception else { return Some(true) };
        let settings = &self.machine.settings;
        let Some(entry) = settings.keys().get(&update.key_name) else { return Some(false) };
        let key = self.opened.get(settings.epoch(), &update.key_name, entry, self.data_key)?;
        Some(planted!(OldSecretAccepted) || key.has_secret(secret))
    }

    /// The failure of an UPDATE is durable too.
    fn evaluate_error(&mut self, body: Body, rcode: Rcode) -> Step {
        let Body::Update(update) = body else { return Step::Full };
        let identity = update.identity;
        let failed = UpdateEntry { rcode, change: None, ..update };
        match self.batch(None, &Body::Update(failed), false, None) {
            Ok(()) => Step::Batched,
            // An update outside the batch must not be in flight, or a repeat would wait for it.
            Err(_) => {
                self.head.in_flight.remove(&identity);
                Step::Full
            }
        }
    }

    /// Records the failure of an UPDATE that no zone can apply, so that no other leader evaluates it.
    fn update_panicked(&mut self, body: Body) -> Step {
        let Body::Update(update) = body else { return Step::Full };
        let in_flight = self.head.in_flight.remove(&update.identity);
        let origins = in_flight.map_or_else(Vec::new, |in_flight| in_flight.origins);
        let failed = UpdateEntry { rcode: Rcode::SERVFAIL, change: None, ..update };
        Step::Panicked(Panicked::Update(Box::new(failed), origins))
    }

    /// Adds a failed UPDATE to the batch, on a rewound head. It does not affect the zones.
    pub(crate) fn failed_update(&mut self, failed: UpdateEntry, origins: Vec<Origin>) -> Result<(), Vec<Origin>> {
        let (identity, source) = (failed.identity, failed.source);
        self.head.in_flight.insert(identity, InFlight { source, origins, position: None });
        if self.batch(None, &Body::Update(failed), false, None).is_ok()
            && let Some(evaluated) = self.head.batch.last_mut()
        {
            // The zones no longer contain pending changes, so their hash is not the one after this entry.
            evaluated.prepared = None;
            return Ok(());
        }
        Err(self.head.in_flight.remove(&identity).map_or_else(Vec::new, |in_flight| in_flight.origins))
    }

    /// Handles an entry body from its origin: an import step, or a difference.
    fn propose(&mut self, origin: Origin, mut body: Body) -> Step {
        match self.head.stages.check(&body) {
            Ok(()) => {}
            // It is done on the head but not applied. The sender is answered for the first copy, or asks again.
            Err(StageError::Done) if self.machine.stages.check(&body) != Err(StageError::Done) => {
                return Step::Attached;
            }
            Err(StageError::Done) => return Step::Answer(Answer::Done { index: self.machine.applied.0 }),
            // A chunk before its turn: the previous one was dropped and will be repeated.
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
                // The import's size is checked before anything is copied.
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
            // Only a leader creates these.
            Body::Update(_) | Body::Settings(_) => return Step::Answer(Answer::Refused(AdminError::Malformed)),
            _ => {}
        }
        let put = self.batch(Some(origin), &body, is_barrier, None);
        Self::step_of(origin, put)
    }

    /// The result for a command that is not an UPDATE.
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

    /// Waits for the members' reports before it answers.
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
            Some(id) if self.driver.incoming_voters().contains(&id) => self.transfer_to = Some(id),
            Some(_) => return Step::Answer(Answer::Refused(AdminError::NodeUnknown)),
            None => return Step::Answer(Answer::Refused(AdminError::LastVoter)),
        }
        Step::Answer(Answer::Done { index: self.machine.applied.0 })
    }

    /// Applies the change of zones to the head, and adds the entry to the batch.
    pub(super) fn batch(
        &mut self,
        origin: Option<Origin>,
        body: &Body,
        is_barrier: bool,
        joined: Option<NodeId>,
    ) -> Result<(), EvaluateError> {
        let feature_level = body.feature_level();
        let is_failure = matches!(body, Body::Update(UpdateEntry { change: None, .. }));
        let is_above = feature_level > self.machine.settings.feature_level() && !planted!(EntryAboveLevel);
        if is_above || is_failure && planted!(FailureNotLogged) {
            return Err(EvaluateError::AboveLevel);
        }
        let bytes = body.encode(self.group, self.head.time_ms);
        if bytes.len() > ENTRY_BYTES_MAX {
            return Err(EvaluateError::TooLarge);
        }
        // Members stop at an entry that they cannot decode.
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

/// Why an evaluated command becomes no entry.
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
