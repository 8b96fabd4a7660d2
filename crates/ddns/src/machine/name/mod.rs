//! The task of one name: compares its records with its target, and updates them.
//!
//! ```text
//!   idle --(differs)--> updating --done--> idle
//!     |                    | a prerequisite failed
//!     +--(check, doubt)--> querying --own records, or none--> updating
//!                             |--foreign records--> one update as if there were none (it may be a wildcard) --> pause
//!                             \--the target, but a late update may change it--> idle, and a query later
//!   queried records do not exist: one update as if there were none (it may be a wildcard), then querying
//!   any failure: the next server; if all failed: pause
//! ```

mod outcomes;

use super::io::{NameError, Notice, Now, Options, Request, Update};
use super::retry::{Backoff, RateLimiter, Rng};
use super::servers::Servers;
use crate::address::{Addresses, Family, PerFamily};
use crate::config::NameConfig;
use crate::limits::{UPDATE_PERIOD_MS, UPDATES_BURST};
use crate::outcome::{Failure, ObservedRrset, Outcome, Refusal};
use crate::state::SavedName;
use std::collections::BTreeSet;

/// The target of one family of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum FamilyTarget {
    /// Not known yet.
    Unknown,
    /// The records are not managed.
    Unmanaged,
    /// These addresses, or none.
    Addresses(Addresses),
}

/// The status of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NameStatus {
    /// It has its target records, as far as is known.
    UpToDate,
    /// A request is running or due.
    Pending,
    /// The update failed, and is retried later.
    Failed(NameError),
}

#[derive(Debug)]
enum Phase {
    Idle,
    Updating {
        token: u64,
        server: usize,
        update: Update,
        origin: Origin,
    },
    Querying {
        token: u64,
        server: usize,
        /// The families to query, and the results so far.
        remaining: Vec<Family>,
        observed: PerFamily<Option<ObservedRrset>>,
    },
}

/// How the expected contents of an update are known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Origin {
    /// From queries of all families. Otherwise from the saved state, or a guess.
    is_observed: bool,
    /// Foreign records in a query. The update assumes that they come from a wildcard, and that the name has none.
    foreign: Option<ObservedRrset>,
}

/// A pause after a failure. It applies to one target.
#[derive(Debug)]
struct Pause {
    until_ms: u64,
    target: PerFamily<Option<Addresses>>,
    error: NameError,
}

/// Read-only context of a task.
pub(super) struct StatusContext<'w> {
    pub(super) now: Now,
    pub(super) options: &'w Options,
}

/// Context of a task.
pub(super) struct Context<'w> {
    pub(super) now: Now,
    pub(super) options: &'w Options,
    pub(super) servers: &'w mut Servers,
    pub(super) tokens: &'w mut u64,
    pub(super) rng: &'w mut Rng,
    pub(super) notices: &'w mut Vec<Notice>,
}

impl Context<'_> {
    const fn status_context(&self) -> StatusContext<'_> {
        StatusContext { now: self.now, options: self.options }
    }

    const fn token(&mut self) -> u64 {
        *self.tokens += 1;
        *self.tokens
    }
}

/// One name.
#[derive(Debug)]
pub(super) struct NameTask {
    pub(super) config: NameConfig,
    pub(super) saved: SavedName,
    /// `saved` must be written before anything is sent.
    pub(super) is_dirty: bool,
    targets: PerFamily<FamilyTarget>,
    /// When the records of a family without addresses are removed.
    withdraw_at_ms: PerFamily<Option<u64>>,
    phase: Phase,
    pause: Option<Pause>,
    /// The expected contents for the next update, if they differ from the saved state.
    base: Option<(PerFamily<Addresses>, Origin)>,
    /// When the name must be queried because the outcome of an update is unknown.
    doubt_ms: Option<u64>,
    /// Until when such an update may be applied. `None` if an earlier process sent it and the time is not known yet.
    late_ms: Option<u64>,
    /// When the current request began.
    began_ms: u64,
    /// The saved state was wrong, so a query comes before the next update.
    must_query: bool,
    tried: BTreeSet<usize>,
    refusal: Option<Refusal>,
    failure: Option<Failure>,
    races: u32,
    limiter: RateLimiter,
    backoff: Backoff,
    /// Cleared by the first finished query or update: later foreign records are never taken over.
    may_take_over: bool,
}

/// The next step of a task.
enum NextStep {
    Nothing,
    Query,
    Update,
}

impl NameTask {
    pub(super) fn new(config: NameConfig, saved: SavedName, take_over: bool) -> Self {
        let may_be_late = saved.may_be_late();
        Self {
            doubt_ms: (may_be_late && saved.may_change()).then_some(0),
            late_ms: (!may_be_late).then_some(0),
            began_ms: 0,
            config,
            saved,
            is_dirty: false,
            targets: PerFamily { ipv4: FamilyTarget::Unknown, ipv6: FamilyTarget::Unknown },
            withdraw_at_ms: PerFamily::default(),
            phase: Phase::Idle,
            pause: None,
            base: None,
            must_query: false,
            tried: BTreeSet::new(),
            refusal: None,
            failure: None,
            races: 0,
            limiter: RateLimiter::new(UPDATES_BURST, UPDATE_PERIOD_MS),
            backoff: Backoff::new(),
            may_take_over: take_over,
        }
    }

    /// Sets the target of a family. Returns whether it changed.
    pub(super) fn set_target(&mut self, family: Family, target: FamilyTarget, now: Now) -> bool {
        let is_gone = match &target {
            FamilyTarget::Unknown => None,
            FamilyTarget::Unmanaged => Some(false),
            FamilyTarget::Addresses(addresses) => Some(addresses.is_empty()),
        };
        self.note_gone(family, is_gone, now);
        let is_changed = self.targets[family] != target;
        self.targets[family] = target;
        is_changed
    }

    /// Saves since when the address is gone, for the next process (`--once`).
    fn note_gone(&mut self, family: Family, is_gone: Option<bool>, now: Now) {
        let known_s = self.saved.gone_since_s[family];
        let since_s = match is_gone {
            None => known_s,
            Some(false) => None,
            Some(true) => known_s.or_else(|| (!self.saved.confirmed[family].is_empty()).then_some(now.unix_s)),
        };
        self.is_dirty |= since_s != known_s;
        self.saved.gone_since_s[family] = since_s;
        let at_ms = &mut self.withdraw_at_ms[family];
        *at_ms = if is_gone == Some(true) {
            // If the clock was set back, the time is unknown.
            let passed_s = now.unix_s.saturating_sub(since_s.unwrap_or(now.unix_s));
            let left_s = self.config.withdraw_after_s.saturating_sub(passed_s);
            at_ms.or(Some(now.ms.saturating_add(left_s.saturating_mul(1_000))))
        } else {
            None
        };
    }

    pub(super) fn status(&self, context: &StatusContext<'_>) -> NameStatus {
        let Some(target) = self.target(context.now) else { return NameStatus::Pending };
        match (&self.phase, &self.pause) {
            (Phase::Idle, Some(pause)) if pause.target == target => NameStatus::Failed(pause.error.clone()),
            (Phase::Idle, _)
                if matches!(self.next_step(&target, context), NextStep::Nothing)
                    && self.query_at_ms(&target, context).is_none() =>
            {
                NameStatus::UpToDate
            }
            _ => NameStatus::Pending,
        }
    }

    /// When the task must run again if nothing else happens.
    pub(super) fn wake_ms(&self, context: &StatusContext<'_>) -> Option<u64> {
        let now = context.now;
        let withdraw_at_ms =
            Family::ALL.into_iter().filter_map(|family| self.withdraw_at_ms[family]).filter(|at| *at > now.ms).min();
        let Some(target) = self.target(now).filter(|_| matches!(self.phase, Phase::Idle)) else {
            return withdraw_at_ms;
        };
        let paused_until_ms =
            self.pause.as_ref().filter(|pause| pause.target == target).map_or(now.ms, |pause| pause.until_ms);
        let next = match self.next_step(&target, context) {
            NextStep::Query => Some(paused_until_ms.max(now.ms)),
            NextStep::Update => Some(paused_until_ms.max(now.ms).max(self.allowed_at_ms())),
            NextStep::Nothing => {
                let check = self.check_at_s(&target, context.options.check_period_s);
                let after_s = check.map(|at_s| at_s.saturating_sub(now.unix_s).max(1));
                let check_ms = after_s.map(|after_s| now.ms.saturating_add(after_s.saturating_mul(1_000)));
                self.query_at_ms(&target, context).into_iter().chain(check_ms).min()
            }
        };
        next.into_iter().chain(withdraw_at_ms).min()
    }

    /// Begins the next step if it is due.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) -> Option<Request> {
        if !matches!(self.phase, Phase::Idle) {
            return None;
        }
        let target = self.target(context.now)?;
        match &self.pause {
            Some(pause) if pause.target == target && pause.until_ms > context.now.ms => return None,
            Some(pause) if pause.target != target => {
                // A new target starts without backoff.
                self.backoff.reset();
                self.begin_round();
                self.pause = None;
            }
            _ => {}
        }
        let next_step = self.next_step(&target, &context.status_context());
        match next_step {
            NextStep::Nothing => {
                self.pause = None;
                return None;
            }
            NextStep::Update if self.allowed_at_ms() > context.now.ms => return None,
            NextStep::Query | NextStep::Update => {}
        }
        let Some(server) = context.servers.next(&self.tried, context.now) else {
            self.end_round(target, context);
            return None;
        };
        match next_step {
            NextStep::Nothing => None,
            NextStep::Query => self.query(server, &target, context),
            NextStep::Update => self.update(server, &target, context),
        }
    }

    /// Handles the outcome of a request. Returns the next request of the same step.
    pub(super) fn handle_outcome(
        &mut self,
        token: u64,
        outcome: Outcome,
        context: &mut Context<'_>,
    ) -> Option<Request> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Updating { token: own, server, update, origin } if own == token => {
                self.handle_updated(server, &update, origin, outcome, context);
                None
            }
            Phase::Querying { token: own, server, remaining, observed } if own == token => {
                self.handle_observed(server, remaining, observed, outcome, context)
            }
            other => {
                self.phase = other;
                None
            }
        }
    }

    pub(super) fn is_waiting_for(&self, token: u64) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::Updating { token: own, .. } | Phase::Querying { token: own, .. } => own == token,
        }
    }

    /// The targets of the families that are managed. `None` while one is not known.
    fn target(&self, now: Now) -> Option<PerFamily<Option<Addresses>>> {
        let mut target = PerFamily::default();
        for family in Family::ALL {
            target[family] = match &self.targets[family] {
                FamilyTarget::Unknown => return None,
                FamilyTarget::Unmanaged => None,
                FamilyTarget::Addresses(_) if self.withdraw_at_ms[family].is_some_and(|at| at > now.ms) => None,
                FamilyTarget::Addresses(addresses) => Some(addresses.clone()),
            };
        }
        Some(target)
    }

    /// Whether the next update starts a new attempt. Retries with other servers are not rate-limited.
    fn is_first(&self) -> bool {
        self.tried.is_empty() && self.races == 0
    }

    /// When the next update is allowed.
    fn allowed_at_ms(&self) -> u64 {
        if self.is_first() { self.limiter.next_ms() } else { 0 }
    }

    fn next_step(&self, target: &PerFamily<Option<Addresses>>, context: &StatusContext<'_>) -> NextStep {
        let differs = Family::ALL.into_iter().any(|family| self.differs(family, target));
        let now_s = context.now.unix_s;
        // If the clock was set back, the time is unknown.
        let is_past = |at| at <= now_s || self.saved.confirmed_at_s > now_s;
        let is_due = || self.check_at_s(target, context.options.check_period_s).is_some_and(is_past);
        let is_in_doubt = || self.query_at_ms(target, context).is_some_and(|at_ms| at_ms <= context.now.ms);
        match () {
            () if is_all_unmanaged(target) => NextStep::Nothing,
            () if context.options.is_dry_run => {
                if differs {
                    NextStep::Update
                } else {
                    NextStep::Nothing
                }
            }
            () if self.base.is_some() => NextStep::Update,
            () if self.must_query || (differs && !self.saved.has_room()) => NextStep::Query,
            // Also if nothing differs, so that `take_over` does not apply to records that appear days later. Without an
            // address, there is no reason to take over a record.
            () if self.may_take_over && has_addresses(target) => NextStep::Query,
            () if differs => NextStep::Update,
            () if is_in_doubt() || is_due() => NextStep::Query,
            () => NextStep::Nothing,
        }
    }

    /// When the name must be queried because of an unknown outcome.
    fn query_at_ms(&self, target: &PerFamily<Option<Addresses>>, context: &StatusContext<'_>) -> Option<u64> {
        self.doubt_ms.filter(|_| !context.options.is_dry_run && !is_all_unmanaged(target))
    }

    /// Whether the known records of a family differ from its target.
    fn differs(&self, family: Family, target: &PerFamily<Option<Addresses>>) -> bool {
        target[family].as_ref().is_some_and(|addresses| {
            let has_other_ttl = !addresses.is_empty() && self.saved.ttl != self.config.ttl;
            self.saved.confirmed[family] != *addresses || has_other_ttl
        })
    }

    /// When the next check is due, in seconds since 1970.
    fn check_at_s(&self, target: &PerFamily<Option<Addresses>>, period_s: u64) -> Option<u64> {
        (period_s > 0 && has_addresses(target)).then(|| self.saved.confirmed_at_s.saturating_add(period_s))
    }

    fn end_round(&mut self, target: PerFamily<Option<Addresses>>, context: &mut Context<'_>) {
        let failure = self.failure.take().unwrap_or(Failure::Timeout);
        let error = self.refusal.map_or(NameError::Unreachable(failure), NameError::Refused);
        let pause_ms = self.backoff.delay_ms(context.rng);
        self.pause_for(pause_ms, error, target, context);
    }

    fn pause(&mut self, pause_ms: u64, error: NameError, context: &mut Context<'_>) {
        if let Some(target) = self.target(context.now) {
            self.pause_for(pause_ms, error, target, context);
        }
    }

    fn pause_for(
        &mut self,
        pause_ms: u64,
        error: NameError,
        target: PerFamily<Option<Addresses>>,
        context: &mut Context<'_>,
    ) {
        let name = self.config.name.clone();
        context.notices.push(Notice::RetryLater { name, pause_ms, error: error.clone() });
        self.pause = Some(Pause { until_ms: context.now.ms + pause_ms, target, error });
        self.begin_round();
    }

    fn begin_round(&mut self) {
        self.tried.clear();
        self.refusal = None;
        self.failure = None;
        self.races = 0;
    }
}

/// Whether any family has a target address.
fn has_addresses(target: &PerFamily<Option<Addresses>>) -> bool {
    Family::ALL.into_iter().any(|family| target[family].as_ref().is_some_and(|addresses| !addresses.is_empty()))
}

/// Whether no family is managed.
fn is_all_unmanaged(target: &PerFamily<Option<Addresses>>) -> bool {
    Family::ALL.into_iter().all(|family| target[family].is_none())
}
