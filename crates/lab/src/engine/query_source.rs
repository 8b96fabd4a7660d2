//! Whose turn it is, and since when.

use super::{Pace, Plan};
use crate::population::ClientScheduler;
use crate::replay::Feed;
use crate::schedule::{Part, Times};
use crate::workload::Workload;
use std::iter::Peekable;

/// A worker's own share of the pace.
pub(super) enum QuerySource {
    /// At planned times; whoever has room.
    Scheduled(Box<Peekable<Times>>),
    /// As many as are to wait at any time.
    ClosedLoop { in_flight: usize, until_ns: u64 },
    /// Each client has times of its own.
    Population(Box<ClientScheduler>),
    /// Each query of a trace has its time, its client and its bytes.
    Trace(Box<Feed>),
}

/// A query that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DueQuery {
    pub(super) planned_ns: u64,
    /// Whose it is; `None` when clients are all alike.
    pub(super) client: Option<u32>,
}

impl QuerySource {
    /// The share of worker `index`; of a trace that is `feed`.
    pub(super) fn new(plan: &Plan, index: usize, feed: Option<Feed>) -> Self {
        if let Some(feed) = feed {
            return Self::Trace(Box::new(feed));
        }
        match &plan.pace {
            Pace::Open(schedule) => {
                let (index, count) = plan.place(index);
                Self::Scheduled(Box::new(schedule.share(index, count).peekable()))
            }
            Pace::Closed { in_flight, duration } => Self::ClosedLoop {
                in_flight: Part { index, count: plan.worker_count }.of(plan.part.of(*in_flight)),
                until_ns: duration.as_nanos() as u64,
            },
            Pace::Population { population, duration } => {
                let (index, count) = plan.place(index);
                Self::Population(Box::new(population.scheduler(index, count, *duration)))
            }
            // Nothing without a feed.
            Pace::Traced(_) => Self::ClosedLoop { in_flight: 0, until_ns: 0 },
        }
    }

    /// Whether anything is still to be sent.
    pub(super) fn goes_on(&mut self, now: u64) -> bool {
        match self {
            Self::Scheduled(times) => times.peek().is_some(),
            Self::ClosedLoop { until_ns, .. } => now < *until_ns,
            Self::Population(scheduler) => scheduler.goes_on(now),
            Self::Trace(feed) => feed.goes_on(),
        }
    }

    /// The next that is due; `waiting` is how many wait already.
    pub(super) fn peek(&mut self, now: u64, waiting: usize) -> Option<DueQuery> {
        match self {
            Self::Scheduled(times) => {
                let planned_ns = *times.peek().filter(|&&planned| planned <= now)?;
                Some(DueQuery { planned_ns, client: None })
            }
            Self::ClosedLoop { in_flight, .. } => {
                (waiting < *in_flight).then_some(DueQuery { planned_ns: now, client: None })
            }
            Self::Population(scheduler) => {
                let (planned_ns, client) = scheduler.peek().filter(|&(planned, _)| planned <= now)?;
                Some(DueQuery { planned_ns, client: Some(client) })
            }
            Self::Trace(feed) => {
                let (planned_ns, client) = feed.peek(now)?;
                Some(DueQuery { planned_ns, client: Some(client) })
            }
        }
    }

    /// Whether what is due is so late that the run is to end.
    pub(super) fn is_too_late(&mut self, query: DueQuery, now: u64) -> bool {
        match self {
            Self::Trace(feed) => feed.is_too_late(query.planned_ns, now),
            Self::Scheduled(_) | Self::ClosedLoop { .. } | Self::Population(_) => false,
        }
    }

    /// Writes the message of what is due, with a cookie where one was learned, and gives its length.
    pub(super) fn fill(&self, workload: &mut Workload, out: &mut [u8], cookie: &[u8]) -> usize {
        match self {
            Self::Trace(feed) => feed.fill(out),
            Self::Scheduled(_) | Self::ClosedLoop { .. } | Self::Population(_) => workload.fill_with(out, cookie),
        }
    }

    /// It has been sent, now.
    pub(super) fn advance(&mut self, now: u64) {
        match self {
            Self::Scheduled(times) => {
                times.next();
            }
            Self::ClosedLoop { .. } => {}
            Self::Population(scheduler) => scheduler.advance(),
            Self::Trace(feed) => feed.advance(now),
        }
    }

    /// When the next is planned; `None` when that depends on answers.
    pub(super) fn next_ns(&mut self, now: u64) -> Option<u64> {
        match self {
            Self::Scheduled(times) => times.peek().copied(),
            Self::ClosedLoop { .. } => None,
            Self::Population(scheduler) => scheduler.peek().map(|(planned, _)| planned),
            Self::Trace(feed) => feed.next_ns(now),
        }
    }
}
