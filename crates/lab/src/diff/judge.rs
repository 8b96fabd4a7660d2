//! The verdict on one message: equal to the majority, explained, or unexplained.

use super::predicates;
use super::report::Unexplained;
use super::response::{Got, Reply, Response};
use super::served::Served;
use crate::peers::Kind;
use crate::trace::Recorded;
use std::collections::BTreeMap;
use std::fmt;

/// So many peers must agree with ours, or as many as there are.
const AGREEING_MIN: usize = 2;
/// Messages that are kept for each predicate.
const EXAMPLES_MAX: usize = 5;

/// One judged message.
pub struct Case<'a> {
    /// As it was sent.
    pub message: &'a Recorded,
    /// What ours did.
    pub ours: &'a Got,
    /// Bytes of the response of ours.
    pub ours_bytes: usize,
    /// What each peer did.
    pub peers: Vec<(Kind, &'a Got)>,
    /// What ours answers to the same query over TCP, where nothing is left out for want of room.
    pub whole: Option<&'a Response>,
    /// Bytes of that.
    pub whole_bytes: usize,
    /// What the peers said in the whole run: what is not in here, nobody but ours says.
    pub served: &'a Served,
}

impl<'a> Case<'a> {
    /// A case without an answer over TCP.
    #[must_use]
    pub fn new(message: &'a Recorded, ours: &'a Reply, peers: &[(Kind, &'a Reply)], served: &'a Served) -> Self {
        let peers = peers.iter().map(|(kind, reply)| (*kind, &reply.got)).collect();
        Self { message, ours: &ours.got, ours_bytes: ours.byte_count, peers, whole: None, whole_bytes: 0, served }
    }

    /// Whether ours does what so many peers do that nothing needs to be explained.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        let agreeing = self.peers.iter().filter(|(_, got)| *got == self.ours).count();
        agreeing >= self.agreeing_min()
    }

    fn agreeing_min(&self) -> usize {
        AGREEING_MIN.min(self.peers.len())
    }
}

/// Messages that a predicate was needed for.
#[derive(Default)]
pub struct Needed {
    /// How many.
    pub count: usize,
    /// The first of them.
    pub examples: Vec<String>,
}

/// What a run has seen.
#[derive(Default)]
pub struct Tally {
    /// Messages that were judged.
    pub judged: usize,
    /// Of these, messages that were sent again over TCP, since a datagram left something out.
    pub again_over_tcp: usize,
    /// Ours equalled at least two peers.
    pub equal: usize,
    /// With what predicates take away it does.
    pub explained: usize,
    /// How many messages each predicate was needed for, and the first of them.
    pub predicates: BTreeMap<&'static str, Needed>,
    /// Messages to which ours gave no response.
    pub silent: usize,
    /// Differences that nothing explains.
    pub unexplained: Vec<Unexplained>,
}

impl Tally {
    /// Judges one message.
    pub fn judge(&mut self, case: &Case<'_>) {
        self.judged += 1;
        self.silent += usize::from(*case.ours == Got::Silence);
        if case.is_equal() {
            self.equal += 1;
            return;
        }
        // The peers that need least explanation come first.
        let mut verdicts: Vec<_> =
            case.peers.iter().filter_map(|(kind, got)| predicates::explain(case, *kind, got)).collect();
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

    /// Unexplained differences by their class, the most frequent first.
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
        writeln!(f, "{:>8} judged, {} of them sent again over TCP", self.judged, self.again_over_tcp)?;
        writeln!(f, "{:>8} equal to at least two peers; ours silent in {} of all", self.equal, self.silent)?;
        writeln!(f, "{:>8} explained, by these predicates:", self.explained)?;
        for predicate in predicates::TABLE {
            if let Some(Needed { count, .. }) = self.predicates.get(predicate.name) {
                writeln!(f, "{count:>16} {:<32} {}", predicate.name, predicate.rule)?;
            }
        }
        writeln!(f, "unexplained = {}", self.unexplained.len())
    }
}
