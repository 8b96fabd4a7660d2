//! Requests about one name, and what their outcomes mean.

use super::super::{Notice, Now, Request};
use super::{Change, NameTask, Origin, Phase, Trouble, Update, World};
use crate::address::{Addresses, Family, PerFamily};
use crate::limits::{ATTEMPT_LIFE_S, CONFLICT_REST_MS, LATE_MS, RACES_MAX};
use crate::outcome::{Failure, Outcome, Refusal, Seen};
use crate::state::Attempt;
use wire::number::Rcode;

impl NameTask {
    pub(super) fn look(
        &mut self,
        server: usize,
        target: &PerFamily<Option<Addresses>>,
        world: &mut World<'_>,
    ) -> Option<Request> {
        self.began_ms = world.now.ms;
        let left = Family::ALL.into_iter().filter(|family| target[*family].is_some()).collect();
        self.look_on(server, left, PerFamily::default(), world)
    }

    fn look_on(
        &mut self,
        server: usize,
        left: Vec<Family>,
        seen: PerFamily<Option<Seen>>,
        world: &mut World<'_>,
    ) -> Option<Request> {
        let family = *left.first()?;
        let token = world.token();
        self.phase = Phase::Looking { token, server, left, seen };
        Some(Request::Look { token, server, owner: self.config.name.clone(), family })
    }

    pub(super) fn update(
        &mut self,
        server: usize,
        target: &PerFamily<Option<Addresses>>,
        world: &mut World<'_>,
    ) -> Option<Request> {
        let (base, origin) = self.base.take().unwrap_or_else(|| (self.saved.confirmed.clone(), Origin::default()));
        let mut update = Update { owner: self.config.name.clone(), ttl: self.config.ttl, changes: Vec::new() };
        let mut sets = PerFamily::default();
        for family in Family::ALL {
            let Some(to) = target[family].clone().filter(|to| base[family] != *to || self.differs(family, target))
            else {
                continue;
            };
            sets[family] = Some(to.clone());
            update.changes.push(Change { family, from: base[family].clone(), to });
        }
        if world.options.is_dry_run {
            world.notices.push(Notice::Would { server, update });
            self.confirm(&sets, world.now);
            self.is_dirty = false;
            return None;
        }
        // The update is saved before it is sent. So whatever happens afterwards, the record is known as ours.
        let sent_at_s = world.now.unix_s;
        self.saved.attempts.retain(|attempt| attempt.sets != sets);
        self.saved.attempts.push(Attempt { sets, sent_at_s });
        self.is_dirty = true;
        if self.is_first() {
            self.pace.take(world.now.ms);
        }
        self.began_ms = world.now.ms;
        let token = world.token();
        self.phase = Phase::Updating { token, server, update: update.clone(), origin };
        Some(Request::Update { token, server, update })
    }

    pub(super) fn handle_updated(
        &mut self,
        server: usize,
        update: &Update,
        origin: Origin,
        outcome: Outcome,
        world: &mut World<'_>,
    ) {
        match outcome {
            Outcome::Done => {
                world.servers.worked(server);
                let mut sets = PerFamily::default();
                update.changes.iter().for_each(|change| sets[change.family] = Some(change.to.clone()));
                // An earlier attempt with the same contents and an unknown outcome may still be applied later.
                if self.is_past_late() {
                    self.saved.attempts.retain(|attempt| attempt.sets != sets);
                }
                self.confirm(&sets, world.now);
                world.notices.push(Notice::Updated { server, update: update.clone() });
            }
            Outcome::Prerequisite(rcode) => {
                world.servers.worked(server);
                self.handle_prerequisite(rcode, origin, world);
            }
            Outcome::Refused(_) | Outcome::Unreachable(_) | Outcome::Seen(_) => {
                // An unsigned response does not prove the outcome either.
                if matches!(outcome, Outcome::Unreachable(_) | Outcome::Refused(Refusal::Unsigned(_))) {
                    self.doubt_ms = Some(world.now.ms);
                    self.late_ms = Some(world.now.ms.saturating_add(LATE_MS));
                }
                self.fail(server, outcome, world);
            }
        }
    }

    /// Handles an update whose prerequisite failed: the name does not have the expected contents.
    fn handle_prerequisite(&mut self, rcode: Rcode, origin: Origin, world: &mut World<'_>) {
        self.races += 1;
        // Somebody has changed the record, so look again.
        self.must_look = true;
        if origin.is_shown && rcode == Rcode::NXRRSET {
            // The first look may have shown a wildcard (RFC 4592 2.2.1). Then the name has no records.
            self.base = Some((PerFamily::default(), Origin { is_shown: false, ..origin }));
        } else if let Some(seen) = origin.foreign {
            self.rest(CONFLICT_REST_MS, Trouble::Anothers(seen), world);
        } else if self.races > RACES_MAX {
            let rest_ms = self.backoff.rest_ms(world.dice);
            self.rest(rest_ms, Trouble::Anothers(Seen::default()), world);
        }
    }

    pub(super) fn handle_looked(
        &mut self,
        server: usize,
        mut left: Vec<Family>,
        mut seen: PerFamily<Option<Seen>>,
        outcome: Outcome,
        world: &mut World<'_>,
    ) -> Option<Request> {
        let Outcome::Seen(shown) = outcome else {
            self.fail(server, outcome, world);
            return None;
        };
        world.servers.worked(server);
        seen[left.remove(0)] = Some(shown);
        if left.is_empty() {
            self.judge(server, &seen, world);
        }
        self.look_on(server, left, seen, world)
    }

    /// Chooses what the next update can be based on, after all families were looked at. Settles if no update is needed.
    fn judge(&mut self, server: usize, seen: &PerFamily<Option<Seen>>, world: &mut World<'_>) {
        let Some(target) = self.target(world.now) else { return };
        let may_take_over = std::mem::take(&mut self.may_take_over);
        let mut base = self.saved.confirmed.clone();
        let mut foreign = None;
        let mut ttl = self.config.ttl;
        for family in Family::ALL {
            // The target may have changed since the look. The look's results are still true.
            let (Some(shown), Some(to)) = (&seen[family], &target[family]) else { continue };
            if shown.is_alias {
                self.must_look = true;
                return self.rest(CONFLICT_REST_MS, Trouble::Anothers(shown.clone()), world);
            }
            let is_own = shown.addresses == *to || self.saved.is_own(family, &shown.addresses);
            if is_own || may_take_over || shown.addresses.is_empty() {
                base[family] = shown.addresses.clone();
                self.saved.confirmed[family] = shown.addresses.clone();
                ttl = shown.ttl.filter(|theirs| *theirs != self.config.ttl).unwrap_or(ttl);
            } else {
                // RFC 4592: queries match a wildcard, but prerequisites do not see it. If there is no wildcard, the
                // record belongs to somebody else and fails the prerequisite.
                base[family] = Addresses::new();
                match to.is_empty() {
                    true => self.saved.confirmed[family] = Addresses::new(),
                    false => foreign = Some(shown.clone()),
                }
            }
        }
        self.saved.ttl = ttl;
        self.saved.confirmed_at_s = world.now.unix_s;
        self.saved.forget_old(world.now.unix_s);
        self.is_dirty = true;
        self.reconsider_doubt(world.now);
        self.must_look = false;
        if foreign.is_none() && !Family::ALL.into_iter().any(|family| self.differs(family, &target)) {
            self.settle();
            world.notices.push(Notice::Confirmed { server, name: self.config.name.clone() });
        } else if self.saved.has_room() {
            self.base = Some((base, Origin { is_shown: true, foreign }));
        } else {
            // Too many updates may still take effect. With one more, our records could no longer be told from foreign
            // ones.
            let oldest = self.saved.attempts.iter().map(|attempt| attempt.sent_at_s).min().unwrap_or_default();
            let rest_s = oldest.saturating_add(ATTEMPT_LIFE_S).saturating_sub(world.now.unix_s).min(ATTEMPT_LIFE_S);
            self.rest(rest_s * 1_000, Trouble::Unreachable(Failure::Silence), world);
        }
    }

    fn confirm(&mut self, sets: &PerFamily<Option<Addresses>>, now: Now) {
        for family in Family::ALL {
            if let Some(addresses) = &sets[family] {
                self.saved.confirmed[family] = addresses.clone();
            }
        }
        self.saved.ttl = self.config.ttl;
        self.saved.confirmed_at_s = now.unix_s;
        self.is_dirty = true;
        self.reconsider_doubt(now);
        self.must_look = false;
        self.may_take_over = false;
        self.settle();
    }

    /// Called at the end of a request that found out the record's contents. The contents are final if no update with an
    /// unknown outcome can change them. Otherwise the name is looked at again after that time.
    fn reconsider_doubt(&mut self, now: Now) {
        let late_ms = *self.late_ms.get_or_insert(now.ms.saturating_add(LATE_MS));
        let may_change = !self.is_past_late() && self.saved.may_change();
        self.doubt_ms = may_change.then_some(late_ms);
    }

    /// Whether the current request began after the last time at which an update with an unknown outcome could take
    /// effect.
    fn is_past_late(&self) -> bool {
        self.late_ms.is_some_and(|late_ms| late_ms <= self.began_ms)
    }

    fn settle(&mut self) {
        self.rest = None;
        self.backoff.reset();
        self.begin_round();
    }

    /// The server did not execute the request, so the next one is tried.
    fn fail(&mut self, server: usize, outcome: Outcome, world: &mut World<'_>) {
        world.servers.failed(server, world.now);
        self.tried.insert(server);
        let why = match outcome {
            Outcome::Refused(refusal) => {
                self.refusal = Some(refusal);
                refusal.to_string()
            }
            Outcome::Unreachable(failure) => {
                let why = failure.to_string();
                self.failure = Some(failure);
                why
            }
            // The response belongs to another kind of request.
            Outcome::Done | Outcome::Prerequisite(_) | Outcome::Seen(_) => "a response of another kind".to_owned(),
        };
        world.notices.push(Notice::ServerFailed { server, name: self.config.name.clone(), why });
    }
}
