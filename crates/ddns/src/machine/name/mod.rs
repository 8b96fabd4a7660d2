//! One name: what it shall have, what it has, and what to do about the difference.
//!
//! ```text
//!   idle --(differs)--> updating --done--> idle
//!     |                    | a prerequisite failed
//!     +--(check, doubt)--> looking --own, or nothing--> updating
//!                             |--another's--> one try as if there was nothing (a wildcard shows it too) --> resting
//!                             \--as it shall be, an update may still change it--> idle, and looking again later
//!   what a look showed is not there: one try as if there was nothing (a wildcard shows ours too), then looking
//!   any failure: the next server; all failed: resting
//! ```

mod outcomes;

use super::pace::{Backoff, Dice, Pace};
use super::servers::Servers;
use super::{Notice, Now, Options, Request};
use crate::address::{Addresses, Family, PerFamily};
use crate::config::NameConfig;
use crate::limits::{UPDATE_PERIOD_MS, UPDATES_BURST};
use crate::outcome::{Failure, Outcome, Refusal, Seen};
use crate::state::SavedName;
use std::collections::BTreeSet;
use wire::Name;

/// What a family of a name shall have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// It is not known yet, and will be soon.
    Unknown,
    /// Whatever it has.
    Leave,
    /// These addresses, or none.
    Set(Addresses),
}

/// A change of one name, all families in one message: one step of the serial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Update {
    /// The name.
    pub owner: Name,
    /// TTL of what is written.
    pub ttl: u32,
    /// The RRsets that are replaced, none of them if it is not what is expected.
    pub changes: Vec<Change>,
}

/// The replacement of one RRset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// A or AAAA.
    pub family: Family,
    /// What must be there, to the last address; nothing: there must be no such RRset.
    pub from: Addresses,
    /// What shall be there.
    pub to: Addresses,
}

/// Why a name does not have what it shall have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// Somebody else has records there.
    Anothers(Seen),
    /// No server wants to, and at least one has said so.
    Refused(Refusal),
    /// No server answers.
    Unreachable(Failure),
}

/// How a name does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has what it shall have, as far as is known.
    Settled,
    /// Something is being found out, or done.
    Busy,
    /// It does not, for now.
    Troubled(Trouble),
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
    Looking {
        token: u64,
        server: usize,
        /// Those that are to be looked at, and what was seen of those that were.
        left: Vec<Family>,
        seen: PerFamily<Option<Seen>>,
    },
}

/// Where that comes from which an update takes for there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Origin {
    /// From a look at all of it; otherwise it is remembered, or a guess.
    is_shown: bool,
    /// What the look showed that is another's: it is taken for a wildcard's, and nothing for there.
    foreign: Option<Seen>,
}

/// Until when nothing is tried for a target that could not be reached.
#[derive(Debug)]
struct Rest {
    until_ms: u64,
    target: PerFamily<Option<Addresses>>,
    trouble: Trouble,
}

/// What the name needs to know.
pub(super) struct View<'w> {
    pub(super) now: Now,
    pub(super) options: &'w Options,
}

/// What the name needs of the world to go on.
pub(super) struct World<'w> {
    pub(super) now: Now,
    pub(super) options: &'w Options,
    pub(super) servers: &'w mut Servers,
    pub(super) tokens: &'w mut u64,
    pub(super) dice: &'w mut Dice,
    pub(super) notices: &'w mut Vec<Notice>,
}

impl World<'_> {
    const fn view(&self) -> View<'_> {
        View { now: self.now, options: self.options }
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
    /// `saved` is to be written before anything is sent.
    pub(super) is_dirty: bool,
    wanted: PerFamily<Wanted>,
    /// When the records of a family go that is without any address.
    withdraw_at_ms: PerFamily<Option<u64>>,
    phase: Phase,
    rest: Option<Rest>,
    /// What the next update takes for there, if it is not what is remembered.
    base: Option<(PerFamily<Addresses>, Origin)>,
    /// When it is to be looked at because the outcome of an update is not known.
    doubt_ms: Option<u64>,
    /// Until when such an update may be carried out; `None` before that is known: a process before this one sent it.
    late_ms: Option<u64>,
    /// When the update or the look that is under way began.
    began_ms: u64,
    /// What is known was found wrong: a look comes before the next update.
    must_look: bool,
    tried: BTreeSet<usize>,
    refusal: Option<Refusal>,
    failure: Option<Failure>,
    races: u32,
    pace: Pace,
    backoff: Backoff,
    /// The first look or update that ends uses it up, whatever it shows: what others write after it is theirs.
    may_take_over: bool,
}

/// What is to be done for a name.
enum Need {
    Nothing,
    Look,
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
            wanted: PerFamily { ipv4: Wanted::Unknown, ipv6: Wanted::Unknown },
            withdraw_at_ms: PerFamily::default(),
            phase: Phase::Idle,
            rest: None,
            base: None,
            must_look: false,
            tried: BTreeSet::new(),
            refusal: None,
            failure: None,
            races: 0,
            pace: Pace::new(UPDATES_BURST, UPDATE_PERIOD_MS),
            backoff: Backoff::new(),
            may_take_over: take_over,
        }
    }

    /// Takes up what a family shall have; says whether that is news.
    pub(super) fn want(&mut self, family: Family, wanted: Wanted, now: Now) -> bool {
        let is_gone = match &wanted {
            Wanted::Unknown => None,
            Wanted::Leave => Some(false),
            Wanted::Set(addresses) => Some(addresses.is_empty()),
        };
        self.note_gone(family, is_gone, now);
        let is_news = self.wanted[family] != wanted;
        self.wanted[family] = wanted;
        is_news
    }

    /// A process that ends before the time is up leaves behind since when the address is gone (`--once`).
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
            // A clock that went back says nothing of when that was.
            let passed_s = now.unix_s.saturating_sub(since_s.unwrap_or(now.unix_s));
            let left_s = self.config.withdraw_after_s.saturating_sub(passed_s);
            at_ms.or(Some(now.ms.saturating_add(left_s.saturating_mul(1_000))))
        } else {
            None
        };
    }

    pub(super) fn standing(&self, world: &View<'_>) -> Standing {
        let Some(target) = self.target(world.now) else { return Standing::Busy };
        match (&self.phase, &self.rest) {
            (Phase::Idle, Some(rest)) if rest.target == target => Standing::Troubled(rest.trouble.clone()),
            (Phase::Idle, _)
                if matches!(self.need(&target, world), Need::Nothing) && self.look_ms(&target, world).is_none() =>
            {
                Standing::Settled
            }
            _ => Standing::Busy,
        }
    }

    /// When it is to be looked at again if nothing happens before.
    pub(super) fn wake_ms(&self, world: &View<'_>) -> Option<u64> {
        let now = world.now;
        let gone =
            Family::ALL.into_iter().filter_map(|family| self.withdraw_at_ms[family]).filter(|at| *at > now.ms).min();
        let Some(target) = self.target(now).filter(|_| matches!(self.phase, Phase::Idle)) else { return gone };
        let rested_ms = self.rest.as_ref().filter(|rest| rest.target == target).map_or(now.ms, |rest| rest.until_ms);
        let next = match self.need(&target, world) {
            Need::Look => Some(rested_ms.max(now.ms)),
            Need::Update => Some(rested_ms.max(now.ms).max(self.paced_ms())),
            Need::Nothing => {
                let check = self.check_at_s(&target, world.options.check_period_s);
                let after_s = check.map(|at_s| at_s.saturating_sub(now.unix_s).max(1));
                let check_ms = after_s.map(|after_s| now.ms.saturating_add(after_s.saturating_mul(1_000)));
                self.look_ms(&target, world).into_iter().chain(check_ms).min()
            }
        };
        next.into_iter().chain(gone).min()
    }

    /// Begins what is to be done, if anything is and its time has come.
    pub(super) fn advance(&mut self, world: &mut World<'_>) -> Option<Request> {
        if !matches!(self.phase, Phase::Idle) {
            return None;
        }
        let target = self.target(world.now)?;
        match &self.rest {
            Some(rest) if rest.target == target && rest.until_ms > world.now.ms => return None,
            Some(rest) if rest.target != target => {
                // Another address is another matter.
                self.backoff.reset();
                self.begin_round();
                self.rest = None;
            }
            _ => {}
        }
        let need = self.need(&target, &world.view());
        match need {
            Need::Nothing => {
                self.rest = None;
                return None;
            }
            Need::Update if self.paced_ms() > world.now.ms => return None,
            Need::Look | Need::Update => {}
        }
        let Some(server) = world.servers.next(&self.tried, world.now) else {
            self.end_round(target, world);
            return None;
        };
        match need {
            Need::Nothing => None,
            Need::Look => self.look(server, &target, world),
            Need::Update => self.update(server, &target, world),
        }
    }

    /// Takes up what became of a request of this name; gives the next one of the same errand.
    pub(super) fn handle_outcome(&mut self, token: u64, outcome: Outcome, world: &mut World<'_>) -> Option<Request> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Updating { token: own, server, update, origin } if own == token => {
                self.handle_updated(server, &update, origin, outcome, world);
                None
            }
            Phase::Looking { token: own, server, left, seen } if own == token => {
                self.handle_looked(server, left, seen, outcome, world)
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
            Phase::Updating { token: own, .. } | Phase::Looking { token: own, .. } => own == token,
        }
    }

    /// What the families shall have, those left alone excepted; `None` while something is not known.
    fn target(&self, now: Now) -> Option<PerFamily<Option<Addresses>>> {
        let mut target = PerFamily::default();
        for family in Family::ALL {
            target[family] = match &self.wanted[family] {
                Wanted::Unknown => return None,
                Wanted::Leave => None,
                Wanted::Set(_) if self.withdraw_at_ms[family].is_some_and(|at| at > now.ms) => None,
                Wanted::Set(addresses) => Some(addresses.clone()),
            };
        }
        Some(target)
    }

    /// Whether the next update is not one that another server, or a look, has to be followed by: those do not wait.
    fn is_first(&self) -> bool {
        self.tried.is_empty() && self.races == 0
    }

    /// When the next update may go.
    fn paced_ms(&self) -> u64 {
        if self.is_first() { self.pace.next_ms() } else { 0 }
    }

    fn need(&self, target: &PerFamily<Option<Addresses>>, world: &View<'_>) -> Need {
        let differs = Family::ALL.into_iter().any(|family| self.differs(family, target));
        let now_s = world.now.unix_s;
        // A clock that went back says nothing of when that was.
        let is_past = |at| at <= now_s || self.saved.confirmed_at_s > now_s;
        let is_due = || self.check_at_s(target, world.options.check_period_s).is_some_and(is_past);
        let is_in_doubt = || self.look_ms(target, world).is_some_and(|at_ms| at_ms <= world.now.ms);
        match () {
            () if is_all_left(target) => Need::Nothing,
            () if world.options.is_dry_run => {
                if differs {
                    Need::Update
                } else {
                    Need::Nothing
                }
            }
            () if self.base.is_some() => Need::Update,
            () if self.must_look || (differs && !self.saved.has_room()) => Need::Look,
            // Also where nothing differs: else the order would wait for whoever comes days later. Without an address
            // there is nothing to take a record over for.
            () if self.may_take_over && has_addresses(target) => Need::Look,
            () if differs => Need::Update,
            () if is_in_doubt() || is_due() => Need::Look,
            () => Need::Nothing,
        }
    }

    /// When it is to be looked at because of what is in doubt, if it is to be looked at.
    fn look_ms(&self, target: &PerFamily<Option<Addresses>>, world: &View<'_>) -> Option<u64> {
        self.doubt_ms.filter(|_| !world.options.is_dry_run && !is_all_left(target))
    }

    /// Whether a family, as far as is known, has something else than it shall have.
    fn differs(&self, family: Family, target: &PerFamily<Option<Addresses>>) -> bool {
        target[family].as_ref().is_some_and(|addresses| {
            let has_other_ttl = !addresses.is_empty() && self.saved.ttl != self.config.ttl;
            self.saved.confirmed[family] != *addresses || has_other_ttl
        })
    }

    /// When what is known is to be looked at again, in seconds of 1970.
    fn check_at_s(&self, target: &PerFamily<Option<Addresses>>, period_s: u64) -> Option<u64> {
        (period_s > 0 && has_addresses(target)).then(|| self.saved.confirmed_at_s.saturating_add(period_s))
    }

    fn end_round(&mut self, target: PerFamily<Option<Addresses>>, world: &mut World<'_>) {
        let failure = self.failure.take().unwrap_or(Failure::Silence);
        let trouble = self.refusal.map_or(Trouble::Unreachable(failure), Trouble::Refused);
        let rest_ms = self.backoff.rest_ms(world.dice);
        self.rest_for(rest_ms, trouble, target, world);
    }

    fn rest(&mut self, rest_ms: u64, trouble: Trouble, world: &mut World<'_>) {
        if let Some(target) = self.target(world.now) {
            self.rest_for(rest_ms, trouble, target, world);
        }
    }

    fn rest_for(
        &mut self,
        rest_ms: u64,
        trouble: Trouble,
        target: PerFamily<Option<Addresses>>,
        world: &mut World<'_>,
    ) {
        let name = self.config.name.clone();
        world.notices.push(Notice::Resting { name, rest_ms, trouble: trouble.clone() });
        self.rest = Some(Rest { until_ms: world.now.ms + rest_ms, target, trouble });
        self.begin_round();
    }

    fn begin_round(&mut self) {
        self.tried.clear();
        self.refusal = None;
        self.failure = None;
        self.races = 0;
    }
}

/// Whether any family shall have an address.
fn has_addresses(target: &PerFamily<Option<Addresses>>) -> bool {
    Family::ALL.into_iter().any(|family| target[family].as_ref().is_some_and(|addresses| !addresses.is_empty()))
}

/// Whether nothing is to be done for any family.
fn is_all_left(target: &PerFamily<Option<Addresses>>) -> bool {
    Family::ALL.into_iter().all(|family| target[family].is_none())
}
