//! Where the queries of a run come from, and when each is due. The engine sees populations and traces only through
//! this.

use super::endpoint::{ConnectionPolicy, Endpoint};
use super::plan::{Pace, Plan};
use crate::limits::OVERDUE_MIN;
use crate::schedule::{Part, Times};
use measure::{ClientTally, Pacing, Transport};
use std::any::Any;
use std::fmt;
use std::io;
use std::iter::Peekable;
use std::sync::Arc;
use std::time::Duration;

/// The queries of a run: the client, the message and the time of each.
pub trait Traffic: Any + fmt::Debug + Send + Sync {
    /// How long queries are sent.
    fn duration(&self) -> Duration;

    /// After this time no queries are sent, even if some are left.
    fn give_up_after(&self) -> Duration {
        2 * self.duration() + OVERDUE_MIN
    }

    /// Whether a client's next query depends on its answers.
    fn depends_on_answers(&self) -> bool;

    /// How many queries will be sent. `None` if that depends on answers or on chance.
    fn query_count(&self) -> Option<f64> {
        None
    }

    /// The idle timeout of all clients, given that of the plan. `None` if they have none, or different ones.
    fn idle_timeout(&self, of_plan: Option<Duration>) -> Option<Duration> {
        of_plan
    }

    /// From which sockets queries are sent over UDP.
    fn udp_sockets(&self) -> UdpSockets {
        UdpSockets::Shared
    }

    /// Starts the traffic.
    ///
    /// # Errors
    /// If a thread cannot be started.
    fn start(&self, plan: &Plan) -> io::Result<StartedTraffic>;
}

/// From which sockets queries are sent over UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpSockets {
    /// From any socket of the worker.
    Shared,
    /// Each client has its own socket.
    PerClient,
    /// From one socket for each server. Each message names its source address.
    NamedSource {
        /// Queries are sent as fast as possible.
        is_fast: bool,
    },
}

/// Creates the queries of a worker on its own thread, because that may take long.
pub type CreateQueries = Box<dyn FnOnce() -> WorkerQueries + Send>;

/// Traffic that has been started.
pub struct StartedTraffic {
    /// One for each worker.
    pub workers: Vec<CreateQueries>,
    /// Waits for the end of the source, after all workers have ended.
    pub finish: Box<dyn FnOnce() -> SecondReading>,
}

/// The queries of a worker, and its clients.
pub struct WorkerQueries {
    /// The queries.
    pub source: Box<dyn QuerySource>,
    /// The clients, by number. Empty if all are equal and need no connections.
    pub clients: Arc<[Endpoint]>,
    /// The connection policies, by their index in the clients.
    pub policies: Arc<[ConnectionPolicy]>,
}

/// The outcome of the second reading.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SecondReading {
    /// Why the reading ended early, if it did.
    pub unread: Option<String>,
    /// Number of queries, if the reading was complete.
    pub queries: Option<u64>,
    /// Queries of clients that the first reading did not have. They are not sent.
    pub newcomers: u64,
}

/// A query that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DueQuery {
    /// The planned time.
    pub planned_ns: u64,
    /// Its client. `None` if all clients are equal.
    pub client: Option<u32>,
}

/// The results of a source at its end.
#[derive(Default)]
pub struct SourceResults {
    /// The results of each client.
    pub tallies: Vec<ClientTally>,
    /// How closely the plan was followed.
    pub pacing: Option<Box<Pacing>>,
}

/// The queries of one worker, in the order of sending.
pub trait QuerySource {
    /// Whether queries are left.
    fn has_more(&mut self, now: u64) -> bool;

    /// The next due query, when `waiting` are in flight.
    fn peek(&mut self, now: u64, waiting: usize) -> Option<DueQuery>;

    /// Whether a query is so late that the run must end.
    fn is_too_late(&mut self, _query: DueQuery, _now: u64) -> bool {
        false
    }

    /// Writes the message of the due query, and returns its length. `None` if the workload makes the messages.
    fn message(&self, _out: &mut [u8]) -> Option<usize> {
        None
    }

    /// Advances after the due query was sent.
    fn advance(&mut self, now: u64);

    /// The planned time of the next query. `None` if it depends on answers.
    fn next_ns(&mut self, now: u64) -> Option<u64>;

    /// A query of a client was answered, or will not be. Then `latency_ns` is the timeout.
    fn query_done(&mut self, _client: u32, _at_ns: u64, _is_answered: bool, _latency_ns: u64) {}

    /// Whether truncated answers are repeated over TCP, if the policy of the client says so.
    fn follows_truncation(&self) -> bool {
        false
    }

    /// Whether each client opens its connection with its first query. Otherwise all are opened before the run.
    fn opens_with_first_query(&self) -> bool {
        false
    }

    /// Whether sending a query may open a connection, which takes long.
    fn may_open(&self, _are_datagrams: bool) -> bool {
        false
    }

    /// Whether the run may start.
    fn is_ready(&self) -> bool {
        true
    }

    /// The results. Queries were sent until `until_ns` at the latest.
    fn finish(&mut self, _until_ns: u64) -> SourceResults {
        SourceResults::default()
    }
}

/// Starts the traffic of a plan.
pub(super) fn start(plan: &Plan) -> io::Result<StartedTraffic> {
    if let Pace::Traffic(traffic) = &plan.pace {
        return traffic.start(plan);
    }
    let create = |index| -> CreateQueries {
        let plan = plan.clone();
        Box::new(move || WorkerQueries {
            source: planned(&plan, index),
            clients: uniform(&plan, index).into(),
            policies: [plan.connection_policy].into(),
        })
    };
    let workers = (0..plan.worker_count).map(create).collect();
    Ok(StartedTraffic { workers, finish: Box::new(SecondReading::default) })
}

fn planned(plan: &Plan, index: usize) -> Box<dyn QuerySource> {
    match &plan.pace {
        Pace::Open(schedule) => {
            let (index, count) = plan.worker_position(index);
            Box::new(Scheduled(schedule.times_of(index, count).peekable()))
        }
        Pace::Closed { in_flight, duration } => Box::new(ClosedLoop {
            in_flight: Part { index, count: plan.worker_count }.of(plan.part.of(*in_flight)),
            until_ns: duration.as_nanos() as u64,
        }),
        Pace::Traffic(_) => Box::new(ClosedLoop { in_flight: 0, until_ns: 0 }),
    }
}

/// At planned times, from any client with room.
struct Scheduled(Peekable<Times>);

impl QuerySource for Scheduled {
    fn has_more(&mut self, _now: u64) -> bool {
        self.0.peek().is_some()
    }

    fn peek(&mut self, now: u64, _waiting: usize) -> Option<DueQuery> {
        let planned_ns = *self.0.peek().filter(|&&planned| planned <= now)?;
        Some(DueQuery { planned_ns, client: None })
    }

    fn advance(&mut self, _now: u64) {
        self.0.next();
    }

    fn next_ns(&mut self, _now: u64) -> Option<u64> {
        self.0.peek().copied()
    }
}

/// A fixed number of queries in flight.
struct ClosedLoop {
    in_flight: usize,
    until_ns: u64,
}

impl QuerySource for ClosedLoop {
    fn has_more(&mut self, now: u64) -> bool {
        now < self.until_ns
    }

    fn peek(&mut self, now: u64, waiting: usize) -> Option<DueQuery> {
        (waiting < self.in_flight).then_some(DueQuery { planned_ns: now, client: None })
    }

    fn advance(&mut self, _now: u64) {}

    fn next_ns(&mut self, _now: u64) -> Option<u64> {
        None
    }
}

/// The clients of worker `index` if all are equal.
fn uniform(plan: &Plan, index: usize) -> Vec<Endpoint> {
    if plan.transport == Transport::Udp {
        return Vec::new();
    }
    let count = plan.connection_count.max(1);
    (0..count)
        .map(|at| {
            let server = plan.servers[(at + index * count) % plan.servers.len()];
            Endpoint { transport: plan.transport, server, policy: 0, source: None }
        })
        .collect()
}
