//! Requests for one name, and their outcomes.

use super::{Context, NameTask, Origin, Phase};
use crate::address::{Addresses, Family, PerFamily};
use crate::limits::{ATTEMPT_LIFE_S, CONFLICT_PAUSE_MS, LATE_MS, RACES_MAX};
use crate::machine::io::{Change, NameError, Notice, Now, Request, Update};
use crate::outcome::{Failure, ObservedRrset, Outcome, Refusal};
use crate::state::Attempt;
use wire::number::Rcode;

impl NameTask {
    pub(super) fn query(
        &mut self,
        server: usize,
        target: &PerFamily<Option<Addresses>>,
        context: &mut Context<'_>,
    ) -> Option<Request> {
        self.began_ms = context.now.ms;
        let remaining = Family::ALL.into_iter().filter(|family| target[*family].is_some()).collect();
        self.query_next(server, remaining, PerFamily::default(), context)
    }

    fn query_next(
        &mut self,
        server: usize,
        remaining: Vec<Family>,
        observed: PerFamily<Option<ObservedRrset>>,
        context: &mut Context<'_>,
    ) -> Option<Request> {
        let family = *remaining.first()?;
        let token = context.token();
        self.phase = Phase::Querying { token, server, remaining, observed };
        Some(Request::Query { token, server, owner: self.config.name.clone(), family })
    }

    pub(super) fn update(
        &mut self,
        server: usize,
        target: &PerFamily<Option<Addresses>>,
        context: &mut Context<'_>,
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
        if context.options.is_dry_run {
            context.notices.push(Notice::DryRun { server, update });
            self.confirm(&sets, context.now);
            self.is_dirty = false;
            return None;
        }
        // The update is saved before it is sent, so its records are always known as our own.
        let sent_at_s = context.now.unix_s;
        self.saved.attempts.retain(|attempt| attempt.sets != sets);
        self.saved.attempts.push(Attempt { sets, sent_at_s });
        self.is_dirty = true;
        if self.is_first() {
            self.limiter.take(context.now.ms);
        }
        self.began_ms = context.now.ms;
        let token = context.token();
        self.phase = Phase::Updating { token, server, update: update.clone(), origin };
        Some(Request::Update { token, server, update })
    }

    pub(super) fn handle_updated(
        &mut self,
        server: usize,
        update: &Update,
        origin: Origin,
        outcome: Outcome,
        context: &mut Context<'_>,
    ) {
        match outcome {
            Outcome::Done => {
                context.servers.worked(server);
                let mut sets = PerFamily::default();
                update.changes.iter().for_each(|change| sets[change.family] = Some(change.to.clone()));
                // An earlier attempt with the same contents and an unknown outcome may still be applied later.
                if self.is_past_late() {
                    self.saved.attempts.retain(|attempt| attempt.sets != sets);
                }
                self.confirm(&sets, context.now);
                context.notices.push(Notice::Updated { server, update: update.clone() });
            }
            Outcome::Prerequisite(rcode) => {
                context.servers.worked(server);
                self.handle_prerequisite(rcode, origin, context);
            }
            Outcome::Refused(_) | Outcome::Unreachable(_) | Outcome::Observed(_) => {
                // An unsigned response does not prove the outcome either.
                if matches!(outcome, Outcome::Unreachable(_) | Outcome::Refused(Refusal::Unsigned(_))) {
                    self.doubt_ms = Some(context.now.ms);
                    self.late_ms = Some(context.now.ms.saturating_add(LATE_MS));
                }
                self.fail(server, outcome, context);
            }
        }
    }

    /// Handles an update whose prerequisite failed: the name does not have the expected contents.
    fn handle_prerequisite(&mut self, rcode: Rcode, origin: Origin, context: &mut Context<'_>) {
        self.races += 1;
        // The record was changed, so query it again.
        self.must_query = true;
        if origin.is_observed && rcode == Rcode::NXRRSET {
            // The query may have matched a wildcard (RFC 4592 2.2.1). Then the name has no records.
            self.base = Some((PerFamily::default(), Origin { is_observed: false, ..origin }));
        } else if let Some(observed) = origin.foreign {
            self.pause(CONFLICT_PAUSE_MS, NameError::ForeignRecord(observed), context);
        } else if self.races > RACES_MAX {
            let pause_ms = self.backoff.delay_ms(context.rng);
            self.pause(pause_ms, NameError::ForeignRecord(ObservedRrset::default()), context);
        }
    }

    pub(super) fn handle_observed(
        &mut self,
        server: usize,
        mut remaining: Vec<Family>,
        mut observed: PerFamily<Option<ObservedRrset>>,
        outcome: Outcome,
        context: &mut Context<'_>,
    ) -> Option<Request> {
        let Outcome::Observed(rrset) = outcome else {
            self.fail(server, outcome, context);
            return None;
        };
        context.servers.worked(server);
        observed[remaining.remove(0)] = Some(rrset);
        if remaining.is_empty() {
            self.choose_base(server, &observed, context);
        }
        self.query_next(server, remaining, observed, context)
    }

    /// Chooses what the next update is based on, after all families were queried. Confirms the name if no update is
    /// needed.
    fn choose_base(&mut self, server: usize, observed: &PerFamily<Option<ObservedRrset>>, context: &mut Context<'_>) {
        let Some(target) = self.target(context.now) else { return };
        let may_take_over = std::mem::take(&mut self.may_take_over);
        let mut base = self.saved.confirmed.clone();
        let mut foreign = None;
        let mut ttl = self.config.ttl;
        for family in Family::ALL {
            // The target may have changed since the query. The results are still valid.
            let (Some(rrset), Some(to)) = (&observed[family], &target[family]) else { continue };
            if rrset.is_alias {
                self.must_query = true;
                return self.pause(CONFLICT_PAUSE_MS, NameError::ForeignRecord(rrset.clone()), context);
            }
            let is_own = rrset.addresses == *to || self.saved.is_own(family, &rrset.addresses);
            if is_own || may_take_over || rrset.addresses.is_empty() {
                base[family] = rrset.addresses.clone();
                self.saved.confirmed[family] = rrset.addresses.clone();
                ttl = rrset.ttl.filter(|observed_ttl| *observed_ttl != self.config.ttl).unwrap_or(ttl);
            } else {
                // RFC 4592: queries match a wildcard, but prerequisites do not. If there is no wildcard, the record is
                // foreign, and the prerequisite fails.
                base[family] = Addresses::new();
                match to.is_empty() {
                    true => self.saved.confirmed[family] = Addresses::new(),
                    false => foreign = Some(rrset.clone()),
                }
            }
        }
        self.saved.ttl = ttl;
        self.saved.confirmed_at_s = context.now.unix_s;
        self.saved.forget_old(context.now.unix_s);
        self.is_dirty = true;
        self.reconsider_doubt(context.now);
        self.must_query = false;
        if foreign.is_none() && !Family::ALL.into_iter().any(|family| self.differs(family, &target)) {
            self.reset_failures();
            context.notices.push(Notice::Confirmed { server, name: self.config.name.clone() });
        } else if self.saved.has_room() {
            self.base = Some((base, Origin { is_observed: true, foreign }));
        } else {
            // Too many updates may still take effect. With one more, own and foreign records could no longer be
            // distinguished.
            let oldest = self.saved.attempts.iter().map(|attempt| attempt.sent_at_s).min().unwrap_or_default();
            let pause_s = oldest.saturating_add(ATTEMPT_LIFE_S).saturating_sub(context.now.unix_s).min(ATTEMPT_LIFE_S);
            self.pause(pause_s * 1_000, NameError::Unreachable(Failure::Timeout), context);
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
        self.must_query = false;
        self.may_take_over = false;
        self.reset_failures();
    }

    /// Called at the end of a request that found out the record's contents. The contents are final if no update with an
    /// unknown outcome can change them. Otherwise the name is queried again after that time.
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

    fn reset_failures(&mut self) {
        self.pause = None;
        self.backoff.reset();
        self.begin_round();
    }

    /// The server did not execute the request, so the next one is tried.
    fn fail(&mut self, server: usize, outcome: Outcome, context: &mut Context<'_>) {
        context.servers.failed(server, context.now);
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
            Outcome::Done | Outcome::Prerequisite(_) | Outcome::Observed(_) => {
                "the response does not fit the request".to_owned()
            }
        };
        context.notices.push(Notice::ServerFailed { server, name: self.config.name.clone(), why });
    }
}
