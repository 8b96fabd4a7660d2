//! A fault of a node, and its effects.

use super::net::Cut;
use std::time::Duration;

/// Duration before a fault, during the fault, and after its end.
pub(crate) const BEFORE: Duration = Duration::from_secs(2);
pub(crate) const DURING: Duration = Duration::from_secs(3);
/// Length of a step. Answers are counted per step.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// Steps before a fault, and steps from the fault on.
pub(crate) const STEPS_BEFORE: usize = 20;
pub(crate) const STEPS: usize = 70;

/// A fault of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fault {
    /// `kill -9`.
    Kill,
    /// The node is cut off from the other nodes, in both directions or in one.
    Cut(Cut),
}

impl Fault {
    /// The faults in a part of the bench.
    pub(crate) fn of_part(part: &str) -> &'static [Self] {
        match part {
            "kills" => &[Self::Kill],
            "partitions" => &[Self::Cut(Cut::Both)],
            "one-way" => &[Self::Cut(Cut::Mute), Self::Cut(Cut::Deaf)],
            _ => &[],
        }
    }

    /// Describes the fault of a node in this role.
    pub(crate) fn label(self, role: Role) -> String {
        let done = match self {
            Self::Kill => "killed",
            Self::Cut(Cut::Both) => "cut off",
            Self::Cut(Cut::Mute) => "not heard by the others",
            Self::Cut(Cut::Deaf) => "not hearing the others",
        };
        format!("{} {done}", role.label())
    }

    /// The same as part of a file name.
    pub(crate) fn file(self, role: Role) -> String {
        let done = match self {
            Self::Kill => "killed",
            Self::Cut(Cut::Both) => "cut",
            Self::Cut(Cut::Mute) => "mute",
            Self::Cut(Cut::Deaf) => "deaf",
        };
        format!("failover-{}-{done}", role.label())
    }
}

/// The role of the faulty node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Role {
    Leader,
    Follower,
}

impl Role {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
        }
    }
}

/// One fault and its effects.
pub(crate) struct Outcome {
    /// Time from the fault until the first acknowledgement of a later update, at a node without the fault.
    pub(crate) resumed: Duration,
    /// The longest time without an acknowledgement during the fault, over all nodes without the fault.
    pub(crate) writes_gap: Duration,
    /// The same for answers to queries.
    pub(crate) reads_gap: Duration,
    /// Time from the end of the fault until the node has caught up.
    pub(crate) back: Duration,
    /// New terms.
    pub(crate) terms: u64,
    pub(crate) acknowledged: u64,
    pub(crate) lost: u64,
    /// Updates that were refused but applied.
    pub(crate) refused_and_done: u64,
    /// Updates refused by nodes without the fault.
    pub(crate) refused: u64,
    /// Updates refused by the faulty node. Without a majority, it refuses them after a while.
    pub(crate) refused_there: u64,
    /// Shares of answered messages by step: queries of the faulty node, queries of the other nodes, then updates in the
    /// same order.
    pub(crate) shares: [Vec<f64>; 4],
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
