//! Which limit an update was refused for: the log has the RCODE alone, so it is looked for once more here, in what is
//! applied. That costs what evaluation costs, so it is done for few; the others hear the RCODE alone.

use crate::command::{Command, UpdateCommand};
use crate::io::{SerialPolicyOption, Transport, Verdict};
use crate::machine::AccountId;
use crate::propose::growth_of;
use crate::replica::Replica;
use crate::update::{self, LimitReached, Refusal};
use core::net::Ipv6Addr;
use policy::Requestor;
use wire::number::Rcode;
use wire::parse::{Parsed, parse_request};
use zone::ZoneId;

impl Replica {
    /// The verdict with its reason, where it was refused for a limit and that can be told now.
    pub(super) fn explained(&mut self, verdict: Verdict, command: &Command) -> Verdict {
        let (Verdict::Answer(Rcode::REFUSED), Command::Update(update)) = (verdict, command) else { return verdict };
        if self.explanations_left == 0 {
            return verdict;
        }
        self.explanations_left -= 1;
        self.limit_of(update).map_or(verdict, Verdict::Limited)
    }

    /// The limit that an update would break now.
    fn limit_of(&self, update: &UpdateCommand) -> Option<LimitReached> {
        let Parsed::Request(request) = parse_request(&update.message) else { return None };
        let parsed = update::prescan(&request).ok()?;
        let id = ZoneId { view: 0, apex: parsed.apex.as_ref().to_canonical() };
        let published = self.machine.zones.published();
        let zone = published.zone(&id)?;
        let requestor = Requestor {
            key: update.key_name.as_ref(),
            source: Ipv6Addr::from(update.source).into(),
            is_connected: update.taken.is_some_and(|taken| taken.transport == Transport::Tcp),
        };
        let judge = self.machine.settings.rules(&update.key_name, &id).judge(requestor).with_external(&update.external);
        let permit = judge.permit(&parsed.steps, update.message.len(), Some(&zone)).ok()?;
        let permit = permit.within(self.machine.settings.zones().get(&id)?.limits);
        let policy = SerialPolicyOption::Increment;
        let evaluated = update::evaluate_within(&permit, &zone, &parsed, policy, 0);
        match (evaluated.refusal, evaluated.changeset) {
            (Some(Refusal::Limit(limit)), _) => Some(limit),
            (_, Some(changeset)) => {
                let grown = self.machine.growth.bytes(AccountId::new(&id, &update.key_name));
                let max = i64::try_from(self.config.key_growth_bytes_max).unwrap_or(i64::MAX);
                (grown + growth_of(&changeset) > max).then_some(LimitReached::KeyGrowth)
            }
            _ => None,
        }
    }
}
