//! Whose turn it is, and since when.

use super::{Pace, Plan};
use crate::population::Crowd;
use crate::schedule::Times;
use std::iter::Peekable;

/// A worker's own share of the pace.
pub(super) enum Due {
    /// At planned times; whoever has room.
    Planned(Box<Peekable<Times>>),
    /// As many as are to wait at any time.
    Filling { in_flight: usize, until_ns: u64 },
    /// Each client has times of its own.
    Crowd(Box<Crowd>),
}

/// A query that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    pub(super) planned_ns: u64,
    /// Whose it is; `None` when clients are all alike.
    pub(super) client: Option<u32>,
}

impl Due {
    pub(super) fn new(plan: &Plan, index: usize) -> Self {
        match &plan.pace {
            Pace::Open(schedule) => Self::Planned(Box::new(schedule.share(index, plan.worker_count).peekable())),
            Pace::Closed { in_flight, duration } => Self::Filling {
                in_flight: in_flight / plan.worker_count + usize::from(index < in_flight % plan.worker_count),
                until_ns: duration.as_nanos() as u64,
            },
            Pace::Population { population, duration } => {
                Self::Crowd(Box::new(population.crowd(index, plan.worker_count, *duration)))
            }
        }
    }

    /// Whether anything is still to be sent.
    pub(super) fn goes_on(&mut self, now: u64) -> bool {
        match self {
            Self::Planned(times) => times.peek().is_some(),
            Self::Filling { until_ns, .. } => now < *until_ns,
            Self::Crowd(crowd) => crowd.goes_on(now),
        }
    }

    /// The next that is due; `waiting` is how many wait already.
    pub(super) fn peek(&mut self, now: u64, waiting: usize) -> Option<Turn> {
        match self {
            Self::Planned(times) => {
                let planned_ns = *times.peek().filter(|&&planned| planned <= now)?;
                Some(Turn { planned_ns, client: None })
            }
            Self::Filling { in_flight, .. } => (waiting < *in_flight).then_some(Turn { planned_ns: now, client: None }),
            Self::Crowd(crowd) => {
                let (planned_ns, client) = crowd.peek().filter(|&(planned, _)| planned <= now)?;
                Some(Turn { planned_ns, client: Some(client) })
            }
        }
    }

    /// It has been sent.
    pub(super) fn advance(&mut self) {
        match self {
            Self::Planned(times) => {
                times.next();
            }
            Self::Filling { .. } => {}
            Self::Crowd(crowd) => crowd.advance(),
        }
    }

    /// When the next is planned; `None` when that depends on answers.
    pub(super) fn next_ns(&mut self) -> Option<u64> {
        match self {
            Self::Planned(times) => times.peek().copied(),
            Self::Filling { .. } => None,
            Self::Crowd(crowd) => crowd.peek().map(|(planned, _)| planned),
        }
    }
}
