//! The verdict on one message: equal to the majority, explained, or unexplained.

use super::predicates::{self, Case};
use super::response::Got;
use crate::trace::Recorded;
use std::collections::BTreeMap;
use std::fmt;

/// What a run has seen.
#[derive(Default)]
pub struct Tally {
    /// Messages that were judged.
    pub judged: usize,
    /// Ours equalled at least two peers.
    pub equal: usize,
    /// How often each predicate explained a difference.
    pub explained: BTreeMap<&'static str, usize>,
    /// Differences that nothing explains.
    pub unexplained: Vec<String>,
}

/// Judges one message; `peers` are NSD, Knot and BIND in this order, `None` where one is not installed.
pub fn judge(message: &Recorded, ours: &Got, peers: [Option<&Got>; 3], tally: &mut Tally) {
    tally.judged += 1;
    let present = peers.iter().flatten().count();
    let agreeing = peers.iter().flatten().filter(|peer| **peer == ours).count();
    if agreeing >= 2.min(present) {
        tally.equal += 1;
        return;
    }
    let case = Case { message, ours, peers };
    match predicates::explain(&case) {
        Some(name) => *tally.explained.entry(name).or_default() += 1,
        None => tally.unexplained.push(format!("{case}")),
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} judged, {} equal to at least two peers", self.judged, self.equal)?;
        for (name, count) in &self.explained {
            writeln!(f, "{count:>8} {name}")?;
        }
        writeln!(f, "unexplained = {}", self.unexplained.len())
    }
}
