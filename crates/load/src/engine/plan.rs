//! The plan of a run.

use super::endpoint::ConnectionPolicy;
use super::stream::HttpPlan;
use super::tls::TlsPlan;
use super::traffic::{Traffic, UdpSockets};
use crate::limits::{BUSY_QUERIES_DEFAULT, OVERDUE_MIN};
use crate::per_query::RowSink;
use crate::schedule::{Part, Schedule};
use crate::workload::Workload;
use measure::{AnswerChecking, Transport};
use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When queries are sent.
#[derive(Clone, Debug)]
pub enum Pace {
    /// At planned times, independently of answers.
    Open(Schedule),
    /// A fixed number in flight: the next query is sent when another one is answered or times out.
    Closed {
        /// In flight over all workers.
        in_flight: usize,
        /// How long queries are sent.
        duration: Duration,
    },
    /// As clients do, or as in a trace.
    Traffic(Arc<dyn Traffic>),
}

impl Pace {
    /// The pace of this traffic.
    #[must_use]
    pub fn of(traffic: impl Traffic) -> Self {
        Self::Traffic(Arc::new(traffic))
    }

    /// The traffic, if it is of this type.
    #[must_use]
    pub fn traffic<T: Traffic>(&self) -> Option<&T> {
        let Self::Traffic(traffic) = self else { return None };
        let any: &dyn Any = &**traffic;
        any.downcast_ref()
    }

    /// Whether a client's next query depends on its answers.
    pub(super) fn depends_on_answers(&self) -> bool {
        matches!(self, Self::Traffic(traffic) if traffic.depends_on_answers())
    }

    /// How long queries are sent.
    #[must_use]
    pub fn duration(&self) -> Duration {
        match self {
            Self::Open(schedule) => schedule.duration(),
            Self::Closed { duration, .. } => *duration,
            Self::Traffic(traffic) => traffic.duration(),
        }
    }

    /// After this time no queries are sent, even if some are left.
    pub(super) fn give_up_after(&self) -> Duration {
        match self {
            Self::Open(_) | Self::Closed { .. } => 2 * self.duration() + OVERDUE_MIN,
            Self::Traffic(traffic) => traffic.give_up_after(),
        }
    }

    /// From which sockets queries are sent over UDP.
    pub(super) fn udp_sockets(&self) -> UdpSockets {
        match self {
            Self::Open(_) | Self::Closed { .. } => UdpSockets::Shared,
            Self::Traffic(traffic) => traffic.udp_sockets(),
        }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The servers, in rotation.
    pub servers: Vec<SocketAddr>,
    /// The transport.
    pub transport: Transport,
    /// What the queries are.
    pub workload: Workload,
    /// When they are sent.
    pub pace: Pace,
    /// Timeout of a query.
    pub timeout: Duration,
    /// Number of sending threads. Each has its own sockets.
    pub worker_count: usize,
    /// Number of sockets of each worker to each server. Each has its own client port.
    pub socket_count: usize,
    /// Connections of each worker if all clients are equal.
    pub connection_count: usize,
    /// How those connections are used.
    pub connection_policy: ConnectionPolicy,
    /// How long a connection and its handshake may take.
    pub handshake_timeout: Duration,
    /// Which certificates to trust.
    pub tls: TlsPlan,
    /// How HTTP requests are made.
    pub http: HttpPlan,
    /// Source addresses, in rotation. If empty, the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Accepted RCODEs. If empty, all are accepted.
    pub expected_rcodes: Vec<u8>,
    /// How answers are checked, if at all.
    pub checking: Option<Arc<dyn AnswerChecking>>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Clients of a trace or population with at least this many queries are busy.
    pub busy_queries: u32,
    /// Records one row for each query, if set.
    pub per_query: Option<Arc<RowSink>>,
    /// Which process this is, if several execute the plan together.
    pub part: Part,
    /// When the clock of the run starts. If unset, it starts as soon as all workers are ready.
    pub start: Option<Instant>,
}

impl Plan {
    /// A run over UDP with one worker. Set the fields to change it.
    #[must_use]
    pub fn new(servers: Vec<SocketAddr>, workload: Workload, pace: Pace) -> Self {
        Self {
            servers,
            transport: Transport::Udp,
            workload,
            pace,
            timeout: Duration::from_secs(2),
            worker_count: 1,
            socket_count: 8,
            connection_count: 8,
            connection_policy: ConnectionPolicy::default(),
            handshake_timeout: Duration::from_secs(5),
            tls: TlsPlan::default(),
            http: HttpPlan::default(),
            sources: Vec::new(),
            expected_rcodes: Vec::new(),
            checking: None,
            seed: 1,
            busy_queries: BUSY_QUERIES_DEFAULT,
            per_query: None,
            part: Part::default(),
            start: None,
        }
    }

    /// The index of a worker among the workers of all processes, and their count.
    pub(crate) const fn worker_position(&self, worker: usize) -> (usize, usize) {
        self.part.worker(worker, self.worker_count)
    }

    /// How many queries this process will send; `None` if that depends on answers or on chance.
    #[must_use]
    pub fn query_count(&self) -> Option<f64> {
        match &self.pace {
            Pace::Open(schedule) => Some(schedule.query_count_of(self.part)),
            Pace::Closed { .. } => None,
            Pace::Traffic(traffic) => traffic.query_count(),
        }
    }

    /// The idle timeout of all clients; `None` if they have none, or different ones.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        match &self.pace {
            Pace::Traffic(traffic) => traffic.idle_timeout(self.connection_policy.idle_timeout),
            Pace::Open(_) | Pace::Closed { .. } => self.connection_policy.idle_timeout,
        }
    }
}
