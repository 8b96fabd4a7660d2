//! The clients of a population as traffic of the engine.

use super::{ClientScheduler, Clients};
use crate::engine::{
    DueQuery, Plan, QuerySource, SecondReading, SourceResults, StartedTraffic, Traffic, WorkerQueries,
};
use std::io;
use std::time::Duration;

/// A population during a run: each client sends at its own times.
#[derive(Clone, Debug)]
pub struct PopulationTraffic {
    /// The clients.
    pub clients: Clients,
    /// How long queries are sent.
    pub duration: Duration,
}

impl Traffic for PopulationTraffic {
    fn duration(&self) -> Duration {
        self.duration
    }

    fn depends_on_answers(&self) -> bool {
        true
    }

    fn idle_timeout(&self, _of_plan: Option<Duration>) -> Option<Duration> {
        self.clients.idle_timeout()
    }

    fn start(&self, plan: &Plan) -> io::Result<StartedTraffic> {
        let create = |index| -> crate::engine::CreateQueries {
            let (index, count) = plan.worker_position(index);
            let Self { clients, duration } = self.clone();
            Box::new(move || {
                let scheduler = clients.scheduler(index, count, duration);
                WorkerQueries {
                    clients: scheduler.endpoints().into(),
                    policies: scheduler.policies().into(),
                    source: Box::new(scheduler),
                }
            })
        };
        let workers = (0..plan.worker_count).map(create).collect();
        Ok(StartedTraffic { workers, finish: Box::new(SecondReading::default) })
    }
}

impl QuerySource for ClientScheduler {
    fn has_more(&mut self, now: u64) -> bool {
        Self::has_more(self, now)
    }

    fn peek(&mut self, now: u64, _waiting: usize) -> Option<DueQuery> {
        let (planned_ns, client) = Self::peek(self).filter(|&(planned, _)| planned <= now)?;
        Some(DueQuery { planned_ns, client: Some(client) })
    }

    fn advance(&mut self, _now: u64) {
        Self::advance(self);
    }

    fn next_ns(&mut self, _now: u64) -> Option<u64> {
        Self::peek(self).map(|(planned, _)| planned)
    }

    fn query_done(&mut self, client: u32, at_ns: u64, is_answered: bool, latency_ns: u64) {
        Self::query_done(self, client, at_ns, is_answered, latency_ns);
    }

    fn follows_truncation(&self) -> bool {
        true
    }

    fn opens_with_first_query(&self) -> bool {
        true
    }

    fn may_open(&self, _are_datagrams: bool) -> bool {
        true
    }

    fn finish(&mut self, until_ns: u64) -> SourceResults {
        SourceResults { tallies: self.tallies(until_ns), pacing: None }
    }
}
