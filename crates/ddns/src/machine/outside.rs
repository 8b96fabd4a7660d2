//! The address that others see, when that is not one of an interface: several probes are asked, and so many must agree.

use super::Now;
use super::pace::{Backoff, Dice, Pace};
use crate::address::{Family, is_public, is_usable};
use crate::limits::{ROUND_PERIOD_MS, ROUNDS_BURST};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What is known of the outside address of one family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Known {
    /// No round has ended.
    NotYet,
    /// So many probes agreed on it.
    Address(IpAddr),
    /// The last round found none, and none before did: the probes do not answer, or not alike.
    Nothing,
}

/// Rounds of probes for one family.
#[derive(Debug)]
pub(super) struct Outside {
    family: Family,
    agree: usize,
    probes: usize,
    period_ms: u64,
    allow_private: bool,
    known: Known,
    round: Option<Round>,
    /// When the next round is due; `None`: this family is not probed.
    due_ms: Option<u64>,
    /// Something changed during a round: another is due behind it.
    is_stale: bool,
    pace: Pace,
    backoff: Backoff,
}

/// One round: the first probes are asked at once, another for each that fails or says something else.
#[derive(Debug, Default)]
struct Round {
    asked: usize,
    /// Those whose answer is awaited, by token.
    waiting: BTreeMap<u64, usize>,
    answers: BTreeMap<IpAddr, usize>,
}

/// How a round ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    Agreed(IpAddr),
    /// How many answered at all.
    Disagreed(usize),
}

/// How probes are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) probes: usize,
    pub(super) agree: usize,
    pub(super) period_ms: u64,
    /// Answers that are no public address are taken too.
    pub(super) allow_private: bool,
}

impl Outside {
    pub(super) const fn new(family: Family, plan: Plan, is_wanted: bool) -> Self {
        Self {
            family,
            agree: plan.agree,
            probes: plan.probes,
            period_ms: plan.period_ms,
            allow_private: plan.allow_private,
            known: Known::NotYet,
            round: None,
            due_ms: if is_wanted { Some(0) } else { None },
            is_stale: false,
            pace: Pace::new(ROUNDS_BURST, ROUND_PERIOD_MS),
            backoff: Backoff::new(),
        }
    }

    pub(super) const fn known(&self) -> &Known {
        &self.known
    }

    /// The addresses of this machine changed: what was found may be true no more.
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
        self.due_ms.filter(|_| self.round.is_none()).map(|due| due.max(self.pace.next_ms()))
    }

    /// Begins a round if one is due; gives the probes to be asked, each with its token.
    pub(super) fn poll(&mut self, now: Now, tokens: &mut u64) -> Vec<(u64, usize)> {
        if self.wake_ms().is_none_or(|due| due > now.ms) {
            return Vec::new();
        }
        self.pace.take(now.ms);
        self.is_stale = false;
        self.round = Some(Round::default());
        self.ask(tokens)
    }

    /// What a probe said; gives those to be asked next, and how the round ended if it did.
    pub(super) fn handle_answer(
        &mut self,
        token: u64,
        answer: Option<IpAddr>,
        now: Now,
        tokens: &mut u64,
        dice: &mut Dice,
    ) -> (Vec<(u64, usize)>, Option<Ended>) {
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
            return (Vec::new(), Some(self.end(Ended::Agreed(address), now, dice)));
        }
        let asked = self.ask(tokens);
        match &self.round {
            Some(round) if round.waiting.is_empty() => {
                let answered = round.answers.values().sum();
                (asked, Some(self.end(Ended::Disagreed(answered), now, dice)))
            }
            _ => (asked, None),
        }
    }

    /// As many more as could still make enough of them agree.
    fn ask(&mut self, tokens: &mut u64) -> Vec<(u64, usize)> {
        let Some(round) = &mut self.round else { return Vec::new() };
        let best = round.answers.values().max().copied().unwrap_or_default();
        let mut asked = Vec::new();
        while best + round.waiting.len() < self.agree && round.asked < self.probes {
            *tokens += 1;
            round.waiting.insert(*tokens, round.asked);
            asked.push((*tokens, round.asked));
            round.asked += 1;
        }
        asked
    }

    fn end(&mut self, ended: Ended, now: Now, dice: &mut Dice) -> Ended {
        self.round = None;
        let rest_ms = match ended {
            Ended::Agreed(address) => {
                self.known = Known::Address(address);
                self.backoff.reset();
                // A tenth either way: many clients of one probe do not stay together.
                self.period_ms - self.period_ms / 10 + dice.draw(self.period_ms / 5 + 1)
            }
            Ended::Disagreed(_) => {
                // What was found before is not taken back: a probe that is silent does not say that it changed.
                if self.known == Known::NotYet {
                    self.known = Known::Nothing;
                }
                self.backoff.rest_ms(dice).min(self.period_ms)
            }
        };
        self.due_ms = Some(if std::mem::take(&mut self.is_stale) { now.ms } else { now.ms + rest_ms });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { ms: 1_000_000, unix_s: 1_700_000_000 };

    fn outside(probes: usize, agree: usize) -> (Outside, u64, Dice) {
        let plan = Plan { probes, agree, period_ms: 300_000, allow_private: false };
        (Outside::new(Family::V4, plan, true), 0, Dice::new(7))
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn one_that_fails_is_followed_by_the_next() {
        let (mut outside, mut tokens, mut dice) = outside(3, 1);
        assert_eq!(outside.poll(NOW, &mut tokens), [(1, 0)]);
        assert_eq!(outside.poll(NOW, &mut tokens), [], "a round is under way");
        assert_eq!(outside.handle_answer(1, None, NOW, &mut tokens, &mut dice), (vec![(2, 1)], None));
        // Of no use: private, and of the other family.
        assert_eq!(outside.handle_answer(2, address("10.0.0.1"), NOW, &mut tokens, &mut dice), (vec![(3, 2)], None));
        assert_eq!(outside.handle_answer(2, address("1.1.1.1"), NOW, &mut tokens, &mut dice), (vec![], None));
        let ended = outside.handle_answer(3, address("2600::1"), NOW, &mut tokens, &mut dice);
        assert_eq!(ended, (vec![], Some(Ended::Disagreed(0))));
        assert_eq!(*outside.known(), Known::Nothing);
        assert!(outside.wake_ms().unwrap() <= NOW.ms + 1_001);
    }

    #[test]
    fn two_must_agree_where_that_is_wanted() {
        let (mut outside, mut tokens, mut dice) = outside(3, 2);
        assert_eq!(outside.poll(NOW, &mut tokens), [(1, 0), (2, 1)]);
        assert_eq!(outside.handle_answer(1, address("1.1.1.1"), NOW, &mut tokens, &mut dice), (vec![], None));
        assert_eq!(outside.handle_answer(2, address("2.2.2.2"), NOW, &mut tokens, &mut dice), (vec![(3, 2)], None));
        let ended = outside.handle_answer(3, address("2.2.2.2"), NOW, &mut tokens, &mut dice);
        assert_eq!(ended, (vec![], Some(Ended::Agreed("2.2.2.2".parse().unwrap()))));
        assert_eq!(*outside.known(), Known::Address("2.2.2.2".parse().unwrap()));
        let next = outside.wake_ms().unwrap() - NOW.ms;
        assert!((270_000..=330_000).contains(&next), "{next}");
    }

    #[test]
    fn what_was_found_stays_while_probes_are_silent() {
        let (mut outside, mut tokens, mut dice) = outside(1, 1);
        outside.poll(NOW, &mut tokens);
        outside.handle_answer(1, address("1.1.1.1"), NOW, &mut tokens, &mut dice);
        let later = Now { ms: NOW.ms + 400_000, ..NOW };
        assert_eq!(outside.poll(later, &mut tokens), [(2, 0)]);
        let ended = outside.handle_answer(2, None, later, &mut tokens, &mut dice);
        assert_eq!(ended.1, Some(Ended::Disagreed(0)));
        assert_eq!(*outside.known(), Known::Address("1.1.1.1".parse().unwrap()));
    }

    #[test]
    fn a_change_during_a_round_begins_another_and_many_changes_few() {
        let (mut outside, mut tokens, mut dice) = outside(1, 1);
        outside.poll(NOW, &mut tokens);
        outside.handle_change(NOW);
        outside.handle_answer(1, address("1.1.1.1"), NOW, &mut tokens, &mut dice);
        assert_eq!(outside.wake_ms(), Some(NOW.ms));
        let mut rounds = 0;
        for ms in 0..60_000 {
            let now = Now { ms: NOW.ms + ms, ..NOW };
            outside.handle_change(now);
            for (token, _) in outside.poll(now, &mut tokens) {
                rounds += 1;
                outside.handle_answer(token, address("1.1.1.1"), now, &mut tokens, &mut dice);
            }
        }
        assert!((5..=9).contains(&rounds), "{rounds} rounds in a minute");
    }
}
