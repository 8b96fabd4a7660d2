//! A replay as traffic of the engine.

use super::feed::Feed;
use super::reader::Reading;
use super::{Replay, Sources};
use crate::engine::{
    CreateQueries, DueQuery, Plan, QuerySource, SourceResults, StartedTraffic, Traffic, UdpSockets, WorkerQueries,
};
use crate::limits::{OVERDUE_MIN, RUN_MAX};
use std::io;
use std::time::Duration;

impl Traffic for Replay {
    fn duration(&self) -> Duration {
        Self::duration(self)
    }

    fn give_up_after(&self) -> Duration {
        if self.mode.is_fast { RUN_MAX } else { 2 * Self::duration(self) + OVERDUE_MIN }
    }

    fn depends_on_answers(&self) -> bool {
        self.mode.is_dependent
    }

    fn query_count(&self) -> Option<f64> {
        Some(self.survey.queries as f64)
    }

    fn udp_sockets(&self) -> UdpSockets {
        match self.sources {
            Sources::Sockets => UdpSockets::PerClient,
            Sources::Addresses | Sources::Prefix(_) => UdpSockets::NamedSource { is_fast: self.mode.is_fast },
        }
    }

    fn start(&self, plan: &Plan) -> io::Result<StartedTraffic> {
        let (count, policy) = (plan.worker_count, plan.connection_policy);
        let mut reading = Reading::start(self, count)?;
        let mut workers: Vec<CreateQueries> = Vec::new();
        while let Some(feed) = reading.next_feed() {
            let (replay, index) = (self.clone(), workers.len());
            workers.push(Box::new(move || WorkerQueries {
                source: Box::new(feed),
                clients: replay.endpoints(index, count).into(),
                policies: [policy].into(),
            }));
        }
        Ok(StartedTraffic { workers, finish: Box::new(move || reading.finish()) })
    }
}

impl QuerySource for Feed {
    fn has_more(&mut self, _now: u64) -> bool {
        Self::has_more(self)
    }

    fn peek(&mut self, now: u64, _waiting: usize) -> Option<DueQuery> {
        let (planned_ns, client) = Self::peek(self, now)?;
        Some(DueQuery { planned_ns, client: Some(client) })
    }

    fn is_too_late(&mut self, query: DueQuery, now: u64) -> bool {
        Self::is_too_late(self, query.planned_ns, now)
    }

    fn message(&self, out: &mut [u8]) -> Option<usize> {
        Some(self.fill(out))
    }

    fn advance(&mut self, now: u64) {
        Self::advance(self, now);
    }

    fn next_ns(&mut self, now: u64) -> Option<u64> {
        Self::next_ns(self, now)
    }

    fn query_done(&mut self, client: u32, at_ns: u64, _is_answered: bool, _latency_ns: u64) {
        Self::query_done(self, client, at_ns);
    }

    fn opens_with_first_query(&self) -> bool {
        true
    }

    fn may_open(&self, are_datagrams: bool) -> bool {
        !are_datagrams
    }

    fn is_ready(&self) -> bool {
        self.is_loaded()
    }

    fn finish(&mut self, _until_ns: u64) -> SourceResults {
        SourceResults { tallies: Vec::new(), pacing: Some(Box::new(self.take_pacing())) }
    }
}
