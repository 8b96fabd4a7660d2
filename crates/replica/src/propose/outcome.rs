//! The outcome of an UPDATE on the head: an RCODE, a change, and the limit that was reached.

use super::evaluator::{Evaluator, Step};
use super::head::Growth;
use crate::command::{Answer, UpdateCommand};
use crate::entry::ZoneChange;
use crate::io::{AdminError, Transport};
use crate::machine::{AccountId, growth_of};
use crate::update::{self, LimitReached, Refusal};
use core::net::Ipv6Addr;
use policy::Requestor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use wire::number::Rcode;
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

/// The outcome of an UPDATE.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The RCODE for the client.
    pub(super) rcode: Rcode,
    /// The change.
    pub(super) change: Option<ZoneChange>,
    /// The limit that it would have exceeded.
    pub(super) limit: Option<LimitReached>,
    /// The growth of the zone, and its account.
    pub(super) growth: Option<Growth>,
    /// See [`EVALUATION_WORK_MAX`](crate::limits::EVALUATION_WORK_MAX).
    pub(super) work: u64,
}

impl From<Rcode> for Outcome {
    fn from(rcode: Rcode) -> Self {
        Self { rcode, change: None, limit: None, growth: None, work: 0 }
    }
}

impl Evaluator<'_> {
    /// Like [`Evaluator::outcome`], but survives a panic of this software, which is a bug. The panic must not end
    /// this leader, because the next one would get the same message. Evaluation only reads, so nothing has changed.
    /// The outcome SERVFAIL goes into the log, so no leader evaluates the message again.
    pub(super) fn guarded_outcome(&mut self, update: &UpdateCommand) -> Outcome {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.outcome(update)));
        outcome.unwrap_or_else(|_| {
            self.machine.invariant_violations.evaluation_panics += 1;
            Rcode::SERVFAIL.into()
        })
    }

    /// The RCODE for the client, and the change.
    fn outcome(&self, update: &UpdateCommand) -> Outcome {
        let Parsed::Request(request) = parse_request(&update.message) else { return Rcode::FORMERR.into() };
        let parsed = match update::prescan(&request) {
            Ok(parsed) => parsed,
            Err(rcode) => return rcode.into(),
        };
        #[cfg(any(test, feature = "testing"))]
        crate::testing::panics::at_evaluation(&update.message);
        let id = ZoneId { view: 0, apex: parsed.apex.as_ref().to_canonical() };
        // RFC 2136 3.1.2: the zone is not served here.
        let Some(&options) = self.machine.settings.zones().get(&id) else { return Rcode::NOTAUTH.into() };
        let Some(zone) = self.machine.zones.head().zone(&id) else { return Rcode::NOTAUTH.into() };
        let requestor = Requestor {
            key: update.key_name.as_ref(),
            source: Ipv6Addr::from(update.source).into(),
            is_connected: update.reception.is_some_and(|reception| reception.transport == Transport::Tcp),
        };
        let rules = self.machine.settings.rules(&update.key_name, &id);
        let evaluator = rules.evaluator(requestor).with_external(&update.external);
        let permit = match evaluator.permit(&parsed.steps, update.message.len(), Some(&zone)) {
            Ok(permit) => permit,
            Err(_) if planted!(PolicyNotJudgedByLeader) => policy::Permit::unlimited(),
            Err(_) => return Rcode::REFUSED.into(),
        };
        let permit = permit.within(options.limits);
        let now_s = self.head.time_ms / 1_000;
        let evaluated = update::evaluate_within(&permit, &zone, &parsed, options.serial_policy, now_s);
        let update::Evaluated { rcode, changeset, refusal, work } = evaluated;
        let limit = if let Some(Refusal::Limit(limit)) = refusal { Some(limit) } else { None };
        let changeset = changeset.or_else(|| {
            let mut without = planted!(PrerequisitesIgnored).then(|| parsed.clone())?;
            without.prerequisites.clear();
            update::evaluate_within(&permit, &zone, &without, options.serial_policy, now_s).changeset
        });
        let Some(changeset) = changeset else { return Outcome { limit, work, ..rcode.into() } };
        let account = AccountId::new(&id, &update.key_name);
        let growth = Growth { account, bytes: growth_of(&changeset) };
        let is_too_much = growth.is_more() && self.grown(account) + growth.bytes > self.key_growth_max;
        if is_too_much && !planted!(KeyGrowthUnlimited) {
            return Outcome { limit: Some(LimitReached::KeyGrowth), work, ..Rcode::REFUSED.into() };
        }
        let change = ZoneChange { zone: id, base_hash: zone.hash(), changeset };
        Outcome { rcode, change: Some(change), limit, growth: Some(growth), work }
    }

    /// The growth of a zone by a key, both applied and on the head.
    fn grown(&self, account: AccountId) -> i64 {
        self.machine.growth.bytes(account) + self.head.growing.get(&account).copied().unwrap_or(0)
    }

    /// Whether the zones cannot grow by this much, because this or another member lacks memory.
    pub(super) fn is_memory_short(&self, more_bytes: u64) -> bool {
        let used_bytes = self.machine.zones.stats().used_bytes as u64;
        self.memory.is_short(used_bytes.saturating_add(more_bytes), |id| self.progress.is_alive(id, self.now_ms))
    }

    pub(super) fn refused_for_memory(&mut self) -> Step {
        self.counters.refused_for_memory += 1;
        Step::Answer(Answer::Refused(AdminError::TooLarge))
    }
}
