//! The limit for which an update was refused. The log holds only the RCODE, so the limit is computed again from the
//! applied state. That costs as much as the evaluation, so it is done for a few updates; other clients get only the
//! RCODE.

use super::{Requests, Shared};
use crate::command::{Command, UpdateCommand};
use crate::context::Context;
use crate::io::{SerialPolicyOption, Transport, Verdict};
use crate::machine::{AccountId, growth_of};
use crate::update::{self, LimitReached, Refusal};
use core::net::Ipv6Addr;
use policy::Requestor;
use wire::number::Rcode;
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

impl Requests {
    /// Adds the reason to a verdict that was refused for a limit, if it can still be found.
    pub(super) fn explained(&mut self, shared: &mut Shared<'_>, verdict: Verdict, command: &Command) -> Verdict {
        let (Verdict::Answer(Rcode::REFUSED), Command::Update(update)) = (verdict, command) else { return verdict };
        if self.explanations_left == 0 {
            return verdict;
        }
        self.explanations_left -= 1;
        limit_of(&shared.context, update).map_or(verdict, Verdict::Limited)
    }
}

/// The limit that the update would exceed now.
fn limit_of(context: &Context<'_>, update: &UpdateCommand) -> Option<LimitReached> {
    let Parsed::Request(request) = parse_request(&update.message) else { return None };
    let parsed = update::prescan(&request).ok()?;
    let id = ZoneId { view: 0, apex: parsed.apex.as_ref().to_canonical() };
    let published = context.machine.zones.published();
    let zone = published.zone(&id)?;
    let requestor = Requestor {
        key: update.key_name.as_ref(),
        source: Ipv6Addr::from(update.source).into(),
        is_connected: update.reception.is_some_and(|reception| reception.transport == Transport::Tcp),
    };
    let evaluator =
        context.machine.settings.rules(&update.key_name, &id).evaluator(requestor).with_external(&update.external);
    let permit = evaluator.permit(&parsed.steps, update.message.len(), Some(&zone)).ok()?;
    let permit = permit.within(context.machine.settings.zones().get(&id)?.limits);
    let policy = SerialPolicyOption::Increment;
    let evaluated = update::evaluate_within(&permit, &zone, &parsed, policy, 0);
    match (evaluated.refusal, evaluated.changeset) {
        (Some(Refusal::Limit(limit)), _) => Some(limit),
        (_, Some(changeset)) => {
            let grown = context.machine.growth.bytes(AccountId::new(&id, &update.key_name));
            let max = i64::try_from(context.local.config.key_growth_bytes_max).unwrap_or(i64::MAX);
            (grown + growth_of(&changeset) > max).then_some(LimitReached::KeyGrowth)
        }
        _ => None,
    }
}
