//! The load engine: workers send queries on time, receive answers and count them.
//!
//! ```text
//!   Workload ------+                            +-> matched -> Second -> TransportTimelines -+
//!   QuerySource ---+-> worker -> Transports ----+                                            +-> collect
//!   Feed ----------+   (one a core)             +-> strays, late, duplicate -----------------+
//! ```

// How queries travel.
mod transport;
// Nanoseconds since the start of the run.
mod clock;
// Which query is due next; who sends it to whom.
mod endpoint;
mod query_source;
// Matches answers to queries.
mod matching;
// Statistics of a worker.
mod worker_stats;
// Local ports.
mod port_count;
// Datagrams; connections, over TCP and over QUIC.
mod connection_pool;
mod quic;
pub(crate) mod stream;
mod transports;
pub(crate) mod udp;
// TLS of the client's side.
mod tls;
// The loop of one thread; all threads start together.
mod start_barrier;
mod worker;
// Merges the results of all workers.
mod collect;
// What the operating system counts and allows.
mod system;
mod usage;

pub use collect::{Outcome, Progress, TransportResults, WorkerTotals, run};
pub use endpoint::{ConnectionPolicy, Endpoint};
pub(crate) use port_count::range as port_range;
pub use stream::HttpPlan;
pub use system::raise_open_files;
pub(crate) use system::{lower_this_thread, tell_destinations};
pub use tls::TlsPlan;
pub use transport::Transport;

pub(crate) use matching::question_of;

use crate::answers::Checking;
use crate::per_query::RowSink;
use crate::population::Clients;
use crate::replay::Replay;
use crate::schedule::{Part, Schedule};
use crate::workload::Workload;
use clock::Clock;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use worker_stats::WorkerStats;

/// How queries follow one another.
#[derive(Clone, Debug)]
pub enum Pace {
    /// At planned times, whatever the server does.
    Open(Schedule),
    /// A fixed number in flight: a new query goes out when one was answered or has timed out.
    Closed {
        /// Over all workers.
        in_flight: usize,
        /// How long queries are sent.
        duration: Duration,
    },
    /// Each client of a population in its own time.
    Population {
        /// The clients.
        population: Clients,
        /// How long queries are sent.
        duration: Duration,
    },
    /// Each query of a trace at its time, from its source.
    Traced(Replay),
}

impl Pace {
    /// Whether a client's next query depends on its answers.
    fn depends_on_answers(&self) -> bool {
        match self {
            Self::Population { .. } => true,
            Self::Traced(replay) => replay.mode().is_dependent,
            Self::Open(_) | Self::Closed { .. } => false,
        }
    }

    /// How long queries are sent.
    #[must_use]
    pub fn duration(&self) -> Duration {
        match self {
            Self::Open(schedule) => schedule.duration(),
            Self::Closed { duration, .. } | Self::Population { duration, .. } => *duration,
            Self::Traced(replay) => replay.duration(),
        }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The servers; queries go to them in rotation.
    pub servers: Vec<SocketAddr>,
    /// The transport.
    pub transport: Transport,
    /// What the queries are.
    pub workload: Workload,
    /// When they are sent.
    pub pace: Pace,
    /// A query without an answer has timed out after this.
    pub timeout: Duration,
    /// Threads that send; each has its own sockets.
    pub worker_count: usize,
    /// Sockets of each worker to each server: as many client ports.
    pub socket_count: usize,
    /// Connections of each worker when clients are all alike.
    pub connection_count: usize,
    /// How those connections are used.
    pub connection_policy: ConnectionPolicy,
    /// How long a connection and its handshake may take.
    pub handshake_timeout: Duration,
    /// Which certificates to trust.
    pub tls: TlsPlan,
    /// How HTTP requests are made.
    pub http: HttpPlan,
    /// Source addresses, in rotation; if empty, the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Accepted RCODEs; if empty, all are.
    pub expected_rcodes: Vec<u8>,
    /// How answers are checked, if at all.
    pub checking: Option<Checking>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Records one row for each query, if set.
    pub per_query: Option<Arc<RowSink>>,
    /// Which process this is, if several execute the plan together.
    pub part: Part,
    /// When the clock of the run starts; if unset, as soon as all workers are ready.
    pub start: Option<Instant>,
}

impl Plan {
    /// A run over UDP with one worker; set the fields to change it.
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
            Pace::Traced(replay) => Some(replay.survey().queries as f64),
            Pace::Closed { .. } | Pace::Population { .. } => None,
        }
    }

    /// The idle timeout of all clients; `None` if they have none, or different ones.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        match &self.pace {
            Pace::Population { population, .. } => population.idle_timeout(),
            _ => self.connection_policy.idle_timeout,
        }
    }
}

/// Drives one transport of a worker.
trait TransportDriver {
    /// Queries in flight.
    fn waiting(&self) -> usize;
    /// Sends the queued queries.
    fn flush(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()>;
    /// Reads available answers without blocking, until about `until_ns`. Returns whether there were any.
    fn receive(&mut self, stats: &mut WorkerStats, until_ns: u64) -> io::Result<bool>;
    /// Times out overdue queries.
    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()>;
    /// Adds the sockets to poll.
    fn watch(&self, watched: &mut Vec<libc::pollfd>);
    /// Counts the queries that are still in flight.
    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()>;
    /// Whether connections are being opened.
    fn is_opening(&self) -> bool {
        false
    }
    /// Whether connections failed and none has ever been opened.
    fn has_only_failed(&self) -> bool {
        false
    }
    /// Makes the system calls of a query once, so that the first query is not slower.
    fn warm_up(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// The run starts: its clock is this one.
    fn restart(&mut self, clock: Clock);
    /// When it must be called at the latest.
    fn next_timer(&self) -> Option<Instant> {
        None
    }
}
