//! Where the queries of a worker come from: which one is due next, and since when.

use super::{Pace, Plan};
use crate::population::ClientScheduler;
use crate::replay::Feed;
use crate::schedule::{Part, Times};
use crate::workload::Workload;
use std::iter::Peekable;

/// The queries of one worker, in the order of sending.
pub(super) enum QuerySource {
    /// At planned times, from any client with room.
    Scheduled(Box<Peekable<Times>>),
    /// A fixed number of queries in flight.
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
    /// The queries of worker `index`; for a trace they come from `feed`.
    pub(super) fn new(plan: &Plan, index: usize, feed: Option<Feed>) -> Self {
        if let Some(feed) = feed {
            return Self::Trace(Box::new(feed));
        }
        match &plan.pace {
            Pace::Open(schedule) => {
                let (index, count) = plan.worker_position(index);
                Self::Scheduled(Box::new(schedule.times_of(index, count).peekable()))
            }
            Pace::Closed { in_flight, duration } => Self::ClosedLoop {
                in_flight: Part { index, count: plan.worker_count }.of(plan.part.of(*in_flight)),
                until_ns: duration.as_nanos() as u64,
            },
            Pace::Population { population, duration } => {
                let (index, count) = plan.worker_position(index);
                Self::Population(Box::new(population.scheduler(index, count, *duration)))
            }
            // Nothing without a feed.
            Pace::Traced(_) => Self::ClosedLoop { in_flight: 0, until_ns: 0 },
        }
    }

    /// Whether queries are left.
    pub(super) fn goes_on(&mut self, now: u64) -> bool {
        match self {
            Self::Scheduled(times) => times.peek().is_some(),
            Self::ClosedLoop { until_ns, .. } => now < *until_ns,
            Self::Population(scheduler) => scheduler.goes_on(now),
            Self::Trace(feed) => feed.goes_on(),
        }
    }

    /// The next due query, when `waiting` are in flight.
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

    /// Whether a query is so late that the run must end.
    pub(super) fn is_too_late(&mut self, query: DueQuery, now: u64) -> bool {
        match self {
            Self::Trace(feed) => feed.is_too_late(query.planned_ns, now),
            Self::Scheduled(_) | Self::ClosedLoop { .. } | Self::Population(_) => false,
        }
    }

    /// Writes the message of the due query, with the learned cookie if there is one. Returns its length.
    pub(super) fn fill(&self, workload: &mut Workload, out: &mut [u8], cookie: &[u8]) -> usize {
        match self {
            Self::Trace(feed) => feed.fill(out),
            Self::Scheduled(_) | Self::ClosedLoop { .. } | Self::Population(_) => workload.fill_with(out, cookie),
        }
    }

    /// The due query was sent.
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
