//! Evaluates commands that change the settings, on the head.

use super::evaluator::{Evaluator, Step};
use super::membership::{can_decide, has_caught_up, is_changing, is_to_vote};
use super::origin::Origin;
use crate::command::Answer;
use crate::entry::{Body, SettingsChange, SettingsEntry};
use crate::io::{AckOption, AdminError, NodeId, ZoneOptions};
use crate::progress::ALIVE_MS;
use crate::secrets::Sealed;
use crate::state::secret_context;
use policy::{Policy, Revision};
use std::sync::Arc;
use wire::name::Name;
use zone::ZoneId;

impl Evaluator<'_> {
    pub(super) fn settings(&mut self, origin: Origin, change: SettingsChange, joined: Option<NodeId>) -> Step {
        match self.machine.settings.check(&change, self.head.time_ms) {
            Ok(true) => {}
            Ok(false) => return self.unchanged(),
            Err(error) => return Step::Answer(Answer::Refused(error)),
        }
        let body = Body::Settings(SettingsEntry { epoch: self.machine.settings.epoch(), change });
        let put = self.batch(Some(origin), &body, true, joined);
        Self::step_of(origin, put)
    }

    /// Changes of the settings by an administrator, except changes of votes.
    pub(super) fn administrators(&mut self, origin: Origin, change: SettingsChange) -> Step {
        match change {
            SettingsChange::ClockBack { .. } if origin.peer.is_none() => self.clock_back(origin),
            // Only the leader itself proposes this change. A request from another member changes nothing.
            SettingsChange::ClockBack { .. } => self.unchanged(),
            SettingsChange::MemberRole { id, votes: false } => self.take_vote(origin, id, None, change),
            SettingsChange::MemberReplace { gone, new } => match self.machine.settings.check(&change, 0) {
                Ok(_) if !has_caught_up(self.driver, self.progress, self.now_ms, new) => {
                    self.not_yet(AdminError::NodeBehind)
                }
                Ok(_) => self.take_vote(origin, gone, Some(new), change),
                Err(error) => Step::Answer(Answer::Refused(error)),
            },
            SettingsChange::ZoneOptions { ref zone, options } => {
                let before = self.machine.settings.zones().get(zone);
                let is_new = before.is_some_and(|before| before.ack != options.ack);
                match self.rotation_first(options).filter(|_| is_new) {
                    Some(step) => step,
                    None => self.settings(origin, change, None),
                }
            }
            SettingsChange::KeyAdd { ref name, algorithm, ref secret } => match self.is_newest(name, secret) {
                Ok(true) if self.machine.settings.keys()[name].algorithm == algorithm => self.unchanged(),
                Ok(_) => self.settings(origin, change, None),
                Err(error) => Step::Answer(Answer::Refused(error)),
            },
            SettingsChange::KeyRoll { ref name, ref secret } => match self.is_newest(name, secret) {
                Ok(true) => self.unchanged(),
                Ok(false) => self.settings(origin, change, None),
                Err(error) => Step::Answer(Answer::Refused(error)),
            },
            change => self.settings(origin, change, None),
        }
    }

    /// Proposes the entry that moves entry times back to the members' current clocks.
    fn clock_back(&mut self, origin: Origin) -> Step {
        let before_ms = self.head.time_ms;
        let by_ms = before_ms.saturating_sub(self.wall_ms);
        self.head.time_ms = before_ms.min(self.wall_ms);
        let step = self.settings(origin, SettingsChange::ClockBack { by_ms }, None);
        if !matches!(step, Step::Batched) {
            self.head.time_ms = before_ms;
        }
        step
    }

    /// Whether this is already the newest secret of the key, even if sealed differently.
    ///
    /// # Errors
    /// If no data key here opens them.
    fn is_newest(&self, name: &Name, secret: &Sealed) -> Result<bool, AdminError> {
        let Some(key) = self.machine.settings.keys().get(name) else { return Ok(false) };
        let opened = |sealed| self.data_key.open(sealed, &secret_context(name)).ok_or(AdminError::DataKeyOld);
        Ok(opened(&key.secret)? == opened(secret)? && !planted!(SecretNotCompared))
    }

    /// Sets an update policy, if the present rules are the expected ones.
    pub(super) fn policy(
        &mut self,
        origin: Origin,
        zone: Option<ZoneId>,
        policy: Arc<Policy>,
        expected: Revision,
    ) -> Step {
        let settings = &self.machine.settings;
        let found = settings.policies().get(&zone).cloned().unwrap_or_default().revision();
        let change = SettingsChange::PolicySet { zone, policy };
        // It is no conflict if another administrator set the same rules or removed the zone.
        if found != expected && !planted!(RulesNotCompared) && settings.check(&change, self.head.time_ms) == Ok(true) {
            return Step::Answer(Answer::Refused(AdminError::PolicyChanged));
        }
        self.settings(origin, change, None)
    }

    fn unchanged(&self) -> Step {
        Step::Answer(Answer::Done { index: self.machine.applied.0 })
    }

    /// Before a zone gets `ack = all-live`, every member that answers must hold a lease, so that none stops
    /// answering. The origin repeats the command meanwhile. A member that is away does not learn of it, so it cannot
    /// be included.
    pub(super) fn rotation_first(&mut self, options: ZoneOptions) -> Option<Step> {
        let (settings, own) = (&self.machine.settings, self.driver.id());
        if options.ack != AckOption::AllLive || self.rotation.is_ready(settings, own, self.now_ms) {
            return None;
        }
        let is_there = |id: NodeId| id == own || self.progress.responded_within(id, ALIVE_MS, self.now_ms);
        if settings.members().iter().all(|member| is_there(member.id)) {
            return Some(Step::Answer(Answer::NotProposed));
        }
        Some(self.not_yet(AdminError::NodeBehind))
    }

    /// Removes a vote, and perhaps gives it to another member. One change at a time: the remaining voters are known
    /// only after raft has applied the previous change.
    pub(super) fn take_vote(&mut self, origin: Origin, id: NodeId, to: Option<NodeId>, change: SettingsChange) -> Step {
        match self.machine.settings.check(&change, self.head.time_ms) {
            Ok(true) => {}
            Ok(false) => return self.unchanged(),
            Err(error) => return Step::Answer(Answer::Refused(error)),
        }
        let settings = &self.machine.settings;
        if is_changing(self.driver, settings, self.progress, self.now_ms) {
            return Step::Answer(Answer::NotProposed);
        }
        let mut voters = self.driver.incoming_voters();
        // A voter that is about to be removed does not count.
        voters.retain(|&voter| is_to_vote(settings, voter));
        if voters == [id] && to.is_none() {
            return Step::Answer(Answer::Refused(AdminError::LastVoter));
        }
        if id == self.driver.id() {
            let next = if voters == [id] { None } else { self.successor() };
            // A single voter cannot hand over. First another member needs a vote of its own.
            let Some(next) = next else { return Step::Answer(Answer::Refused(AdminError::LastVoter)) };
            self.transfer_to = Some(next);
            return Step::Answer(Answer::Refused(AdminError::LeaderWouldGo));
        }
        voters.retain(|&voter| voter != id);
        voters.extend(to);
        if !can_decide(self.driver, self.progress, self.now_ms, &voters) {
            // Nothing could be decided afterwards, not even another change.
            return self.not_yet(AdminError::MajorityWouldGo);
        }
        self.settings(origin, change, None)
    }

    /// Refuses because of what a leader hears from members. A new leader does not know yet, and is asked again.
    fn not_yet(&self, error: AdminError) -> Step {
        let is_known = self.progress.is_settled(self.now_ms);
        Step::Answer(if is_known { Answer::Refused(error) } else { Answer::NotProposed })
    }
}
