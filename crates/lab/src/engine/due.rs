//! Whose turn it is, and since when.

use super::{Pace, Plan};
use crate::population::Crowd;
use crate::replay::Feed;
use crate::schedule::{Part, Times};
use crate::workload::Workload;
use std::iter::Peekable;

/// A worker's own share of the pace.
pub(super) enum Due {
    /// At planned times; whoever has room.
    Planned(Box<Peekable<Times>>),
    /// As many as are to wait at any time.
    Filling { in_flight: usize, until_ns: u64 },
    /// Each client has times of its own.
    Crowd(Box<Crowd>),
    /// Each query of a trace has its time, its client and its bytes.
    Traced(Box<Feed>),
}

/// A query that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    pub(super) planned_ns: u64,
    /// Whose it is; `None` when clients are all alike.
    pub(super) client: Option<u32>,
}

impl Due {
    /// The share of worker `index`; of a trace that is `feed`.
    pub(super) fn new(plan: &Plan, index: usize, feed: Option<Feed>) -> Self {
        if let Some(feed) = feed {
            return Self::Traced(Box::new(feed));
        }
        match &plan.pace {
            Pace::Open(schedule) => {
                let (index, count) = plan.place(index);
                Self::Planned(Box::new(schedule.share(index, count).peekable()))
            }
            Pace::Closed { in_flight, duration } => Self::Filling {
                in_flight: Part { index, count: plan.worker_count }.of(plan.part.of(*in_flight)),
                until_ns: duration.as_nanos() as u64,
            },
            Pace::Population { population, duration } => {
                let (index, count) = plan.place(index);
                Self::Crowd(Box::new(population.crowd(index, count, *duration)))
            }
            // Nothing without a feed.
            Pace::Traced(_) => Self::Filling { in_flight: 0, until_ns: 0 },
        }
    }

    /// Whether anything is still to be sent.
    pub(super) fn goes_on(&mut self, now: u64) -> bool {
        match self {
            Self::Planned(times) => times.peek().is_some(),
            Self::Filling { until_ns, .. } => now < *until_ns,
            Self::Crowd(crowd) => crowd.goes_on(now),
            Self::Traced(feed) => feed.goes_on(),
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
            Self::Traced(feed) => {
                let (planned_ns, client) = feed.peek(now)?;
                Some(Turn { planned_ns, client: Some(client) })
            }
        }
    }

    /// Whether what is due is so late that the run is to end.
    pub(super) fn is_too_late(&mut self, turn: Turn, now: u64) -> bool {
        match self {
            Self::Traced(feed) => feed.is_too_late(turn.planned_ns, now),
            Self::Planned(_) | Self::Filling { .. } | Self::Crowd(_) => false,
        }
    }

    /// Writes the message of what is due, with a cookie where one was learned, and gives its length.
    pub(super) fn fill(&self, workload: &mut Workload, out: &mut [u8], cookie: &[u8]) -> usize {
        match self {
            Self::Traced(feed) => feed.fill(out),
            Self::Planned(_) | Self::Filling { .. } | Self::Crowd(_) => workload.fill_with(out, cookie),
        }
    }

    /// It has been sent, now.
    pub(super) fn advance(&mut self, now: u64) {
        match self {
            Self::Planned(times) => {
                times.next();
            }
            Self::Filling { .. } => {}
            Self::Crowd(crowd) => crowd.advance(),
            Self::Traced(feed) => feed.advance(now),
        }
    }

    /// When the next is planned; `None` when that depends on answers.
    pub(super) fn next_ns(&mut self, now: u64) -> Option<u64> {
        match self {
            Self::Planned(times) => times.peek().copied(),
            Self::Filling { .. } => None,
            Self::Crowd(crowd) => crowd.peek().map(|(planned, _)| planned),
            Self::Traced(feed) => feed.next_ns(now),
        }
    }
}
