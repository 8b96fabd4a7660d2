//! The verdict on one message: equal to the majority, explained, or unexplained.

use super::case::Case;
use super::case_text::Unexplained;
use super::predicates;
use super::response::Reaction;
use std::collections::BTreeMap;
use std::fmt;

/// Examples kept for each predicate.
const EXAMPLES_MAX: usize = 5;

/// Messages that needed a predicate.
#[derive(Default)]
pub struct PredicateUse {
    /// Number of messages.
    pub count: usize,
    /// The first messages.
    pub examples: Vec<String>,
}

/// Totals of a run.
#[derive(Default)]
pub struct Tally {
    /// Judged messages.
    pub judged: usize,
    /// Of these, messages repeated over TCP because the UDP response was incomplete.
    pub repeated_over_tcp: usize,
    /// Messages for which ours equals at least two peers.
    pub equal: usize,
    /// Messages for which predicates explain all differences.
    pub explained: usize,
    /// By predicate, the number of messages that needed it, and the first of them.
    pub predicates: BTreeMap<&'static str, PredicateUse>,
    /// Messages without a response from ours.
    pub silent: usize,
    /// Unexplained differences.
    pub unexplained: Vec<Unexplained>,
}

impl Tally {
    /// Judges one message.
    pub fn judge(&mut self, case: &Case<'_>) {
        self.judged += 1;
        self.silent += usize::from(*case.ours == Reaction::Silence);
        if case.is_equal() {
            self.equal += 1;
            return;
        }
        // Prefers the peers that need the least explanation.
        let mut verdicts: Vec<_> =
            case.peers.iter().filter_map(|(kind, reaction)| predicates::explain(case, *kind, reaction)).collect();
        verdicts.sort_by_key(Vec::len);
        if verdicts.len() < case.agreeing_min() {
            self.unexplained.push(Unexplained::new(case));
            return;
        }
        self.explained += 1;
        let mut needed: Vec<_> = verdicts.into_iter().take(case.agreeing_min()).flatten().collect();
        needed.sort_unstable();
        needed.dedup();
        for name in needed {
            let needed = self.predicates.entry(name).or_default();
            needed.count += 1;
            if needed.examples.len() < EXAMPLES_MAX {
                needed.examples.push(case.to_string());
            }
        }
    }

    /// Unexplained differences by class, the most frequent class first.
    #[must_use]
    pub fn classes(&self) -> Vec<(&str, Vec<&Unexplained>)> {
        let mut classes = BTreeMap::<&str, Vec<_>>::new();
        for unexplained in &self.unexplained {
            classes.entry(&unexplained.class).or_default().push(unexplained);
        }
        let mut classes: Vec<_> = classes.into_iter().collect();
        classes.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
        classes
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8} judged, {} of them sent again over TCP", self.judged, self.repeated_over_tcp)?;
        writeln!(f, "{:>8} equal to at least two peers; ours silent in {} of all", self.equal, self.silent)?;
        writeln!(f, "{:>8} explained, by these predicates:", self.explained)?;
        for predicate in predicates::TABLE {
            if let Some(PredicateUse { count, .. }) = self.predicates.get(predicate.name) {
                writeln!(f, "{count:>16} {:<32} {}", predicate.name, predicate.rule)?;
            }
        }
        writeln!(f, "unexplained = {}", self.unexplained.len())
    }
}
