//! The public address of this machine, for example behind NAT. Probes report it, and several of them must agree.

use super::io::Now;
use super::retry::{Backoff, RateLimiter, Rng};
use crate::address::{Family, is_public, is_usable};
use crate::limits::{ROUND_PERIOD_MS, ROUNDS_BURST};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The known public address of one family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Discovery {
    /// No round has finished.
    Pending,
    /// Enough probes agreed on it.
    Address(IpAddr),
    /// No round found an address: the probes do not answer, or disagree.
    Failed,
}

/// Rounds of probes for one family.
#[derive(Debug)]
pub(super) struct PublicAddress {
    family: Family,
    agree: usize,
    probes: usize,
    period_ms: u64,
    allow_private: bool,
    discovery: Discovery,
    round: Option<Round>,
    /// When the next round is due. `None`: this family is not probed.
    due_ms: Option<u64>,
    /// Something changed during a round, so another round follows.
    is_stale: bool,
    limiter: RateLimiter,
    backoff: Backoff,
}

/// One round. It begins with as many probes as must agree. If one fails or disagrees, the next one is queried.
#[derive(Debug, Default)]
struct Round {
    next_probe: usize,
    /// The pending probes, by token.
    waiting: BTreeMap<u64, usize>,
    answers: BTreeMap<IpAddr, usize>,
}

/// Result of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RoundResult {
    Agreed(IpAddr),
    /// The number of probes that answered.
    Disagreed(usize),
}

/// How probes are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) probes: usize,
    pub(super) agree: usize,
    pub(super) period_ms: u64,
    /// Accept private addresses too.
    pub(super) allow_private: bool,
}

impl PublicAddress {
    pub(super) const fn new(family: Family, plan: Plan, is_wanted: bool) -> Self {
        Self {
            family,
            agree: plan.agree,
            probes: plan.probes,
            period_ms: plan.period_ms,
            allow_private: plan.allow_private,
            discovery: Discovery::Pending,
            round: None,
            due_ms: if is_wanted { Some(0) } else { None },
            is_stale: false,
            limiter: RateLimiter::new(ROUNDS_BURST, ROUND_PERIOD_MS),
            backoff: Backoff::new(),
        }
    }

    pub(super) const fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// The addresses of this machine changed, so the public address may have changed.
    pub(super) fn handle_change(&mut self, now: Now) {
        if self.due_ms.is_none() {
            return;
        }
        match self.round {
            Some(_) => self.is_stale = true,
            None => self.due_ms = Some(now.ms),
        }
    }

    /// When a round is due.
    pub(super) fn wake_ms(&self) -> Option<u64> {
        self.due_ms.filter(|_| self.round.is_none()).map(|due| due.max(self.limiter.next_ms()))
    }

    /// Begins a round if one is due. Returns the probes to query, each with its token.
    pub(super) fn poll(&mut self, now: Now, tokens: &mut u64) -> Vec<(u64, usize)> {
        if self.wake_ms().is_none_or(|due| due > now.ms) {
            return Vec::new();
        }
        self.limiter.take(now.ms);
        self.is_stale = false;
        self.round = Some(Round::default());
        self.start_probes(tokens)
    }

    /// Handles the answer of a probe. Returns the next probes to query, and the result of the round if it is finished.
    pub(super) fn handle_answer(
        &mut self,
        token: u64,
        answer: Option<IpAddr>,
        now: Now,
        tokens: &mut u64,
        rng: &mut Rng,
    ) -> (Vec<(u64, usize)>, Option<RoundResult>) {
        let Some(round) = &mut self.round else { return (Vec::new(), None) };
        if round.waiting.remove(&token).is_none() {
            return (Vec::new(), None);
        }
        let fits = |address: &IpAddr| {
            let may_be = if self.allow_private { is_usable(address) } else { is_public(address) };
            Family::of(address) == self.family && may_be
        };
        if let Some(address) = answer.filter(fits) {
            *round.answers.entry(address).or_default() += 1;
        }
        let agreed = round.answers.iter().find(|(_, count)| **count >= self.agree).map(|(address, _)| *address);
        if let Some(address) = agreed {
            return (Vec::new(), Some(self.end_round(RoundResult::Agreed(address), now, rng)));
        }
        let started = self.start_probes(tokens);
        match &self.round {
            Some(round) if round.waiting.is_empty() => {
                let answered = round.answers.values().sum();
                (started, Some(self.end_round(RoundResult::Disagreed(answered), now, rng)))
            }
            _ => (started, None),
        }
    }

    /// Queries as many more probes as are needed for an agreement.
    fn start_probes(&mut self, tokens: &mut u64) -> Vec<(u64, usize)> {
        let Some(round) = &mut self.round else { return Vec::new() };
        let best = round.answers.values().max().copied().unwrap_or_default();
        let mut started = Vec::new();
        while best + round.waiting.len() < self.agree && round.next_probe < self.probes {
            *tokens += 1;
            round.waiting.insert(*tokens, round.next_probe);
            started.push((*tokens, round.next_probe));
            round.next_probe += 1;
        }
        started
    }

    fn end_round(&mut self, result: RoundResult, now: Now, rng: &mut Rng) -> RoundResult {
        self.round = None;
        let pause_ms = match result {
            RoundResult::Agreed(address) => {
                self.discovery = Discovery::Address(address);
                self.backoff.reset();
                // 10 % jitter, so that many clients do not query a probe at the same time.
                self.period_ms - self.period_ms / 10 + rng.random_below(self.period_ms / 5 + 1)
            }
            RoundResult::Disagreed(_) => {
                // An earlier address is kept: failing probes do not mean that it changed.
                if self.discovery == Discovery::Pending {
                    self.discovery = Discovery::Failed;
                }
                self.backoff.delay_ms(rng).min(self.period_ms)
            }
        };
        self.due_ms = Some(if std::mem::take(&mut self.is_stale) { now.ms } else { now.ms + pause_ms });
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { ms: 1_000_000, unix_s: 1_700_000_000 };

    fn public_address(probes: usize, agree: usize) -> (PublicAddress, u64, Rng) {
        let plan = Plan { probes, agree, period_ms: 300_000, allow_private: false };
        (PublicAddress::new(Family::V4, plan, true), 0, Rng::new(7))
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_failed_probe_is_followed_by_the_next_one() {
        let (mut public_address, mut tokens, mut rng) = public_address(3, 1);
        assert_eq!(public_address.poll(NOW, &mut tokens), [(1, 0)]);
        assert_eq!(public_address.poll(NOW, &mut tokens), [], "a round is running");
        assert_eq!(public_address.handle_answer(1, None, NOW, &mut tokens, &mut rng), (vec![(2, 1)], None));
        // Unusable answers: a private address, and one of the other family.
        assert_eq!(
            public_address.handle_answer(2, address("10.0.0.1"), NOW, &mut tokens, &mut rng),
            (vec![(3, 2)], None)
        );
        assert_eq!(public_address.handle_answer(2, address("1.1.1.1"), NOW, &mut tokens, &mut rng), (vec![], None));
        let result = public_address.handle_answer(3, address("2600::1"), NOW, &mut tokens, &mut rng);
        assert_eq!(result, (vec![], Some(RoundResult::Disagreed(0))));
        assert_eq!(*public_address.discovery(), Discovery::Failed);
        assert!(public_address.wake_ms().unwrap() <= NOW.ms + 1_001);
    }

    #[test]
    fn two_probes_must_agree_if_configured() {
        let (mut public_address, mut tokens, mut rng) = public_address(3, 2);
        assert_eq!(public_address.poll(NOW, &mut tokens), [(1, 0), (2, 1)]);
        assert_eq!(public_address.handle_answer(1, address("1.1.1.1"), NOW, &mut tokens, &mut rng), (vec![], None));
        assert_eq!(
            public_address.handle_answer(2, address("2.2.2.2"), NOW, &mut tokens, &mut rng),
            (vec![(3, 2)], None)
        );
        let result = public_address.handle_answer(3, address("2.2.2.2"), NOW, &mut tokens, &mut rng);
        assert_eq!(result, (vec![], Some(RoundResult::Agreed("2.2.2.2".parse().unwrap()))));
        assert_eq!(*public_address.discovery(), Discovery::Address("2.2.2.2".parse().unwrap()));
        let next = public_address.wake_ms().unwrap() - NOW.ms;
        assert!((270_000..=330_000).contains(&next), "{next}");
    }

    #[test]
    fn the_address_is_kept_while_probes_fail() {
        let (mut public_address, mut tokens, mut rng) = public_address(1, 1);
        public_address.poll(NOW, &mut tokens);
        public_address.handle_answer(1, address("1.1.1.1"), NOW, &mut tokens, &mut rng);
        let later = Now { ms: NOW.ms + 400_000, ..NOW };
        assert_eq!(public_address.poll(later, &mut tokens), [(2, 0)]);
        let result = public_address.handle_answer(2, None, later, &mut tokens, &mut rng);
        assert_eq!(result.1, Some(RoundResult::Disagreed(0)));
        assert_eq!(*public_address.discovery(), Discovery::Address("1.1.1.1".parse().unwrap()));
    }

    #[test]
    fn a_change_during_a_round_begins_another_and_rounds_are_limited() {
        let (mut public_address, mut tokens, mut rng) = public_address(1, 1);
        public_address.poll(NOW, &mut tokens);
        public_address.handle_change(NOW);
        public_address.handle_answer(1, address("1.1.1.1"), NOW, &mut tokens, &mut rng);
        assert_eq!(public_address.wake_ms(), Some(NOW.ms));
        let mut rounds = 0;
        for ms in 0..60_000 {
            let now = Now { ms: NOW.ms + ms, ..NOW };
            public_address.handle_change(now);
            for (token, _) in public_address.poll(now, &mut tokens) {
                rounds += 1;
                public_address.handle_answer(token, address("1.1.1.1"), now, &mut tokens, &mut rng);
            }
        }
        assert!((5..=9).contains(&rounds), "{rounds} rounds in a minute");
    }
}
