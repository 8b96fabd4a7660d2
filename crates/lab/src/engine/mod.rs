//! The load engine: workers that send on time, take answers in, and keep the account.
//!
//! ```text
//!   Workload --+                                                +-> matched -> Second -> Ledger --+
//!   QuerySource -------+-> worker (one a core) -> TransportDriver (udp | stream | --+                               +-> collect
//!   Feed ------+-> worker ...                         quic)     +-> strays, late, duplicate -----+
//! ```

// How queries travel.
mod transport;
// Nanoseconds since the start of the run.
mod clock;
// Who asks whom; whose turn it is.
mod endpoint;
mod query_source;
// Whose answer it is.
mod matching;
// What is written down.
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
// The loop of one thread; all threads begin together.
mod start_barrier;
mod worker;
// One account out of many.
mod collect;
// What the operating system counts and allows.
mod system;
mod usage;

pub use collect::{Outcome, Progress, TransportResults, WorkerTotals, run};
pub use endpoint::{Endpoint, Habits};
pub(crate) use port_count::range as port_range;
pub use stream::HttpPlan;
pub use system::raise_open_files;
pub(crate) use system::{lower_this_thread, tell_destinations};
pub use tls::TlsPlan;
pub use transport::Transport;

pub(crate) use matching::question_of;

use crate::answers::Checking;
use crate::per_query::Spool;
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
    /// So many wait for an answer at any time; a new one goes out when one has been answered or has timed out.
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
    /// Whether what a client does depends on the answers that it gets.
    fn depends_on_answers(&self) -> bool {
        match self {
            Self::Population { .. } => true,
            Self::Traced(replay) => replay.manner().is_dependent,
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
    /// Whom to ask; queries take turns.
    pub servers: Vec<SocketAddr>,
    /// How.
    pub transport: Transport,
    /// What to ask.
    pub workload: Workload,
    /// When.
    pub pace: Pace,
    /// After how long a query counts as unanswered.
    pub timeout: Duration,
    /// Threads that send; each has its own sockets.
    pub worker_count: usize,
    /// Sockets of each worker to each server: as many client ports.
    pub socket_count: usize,
    /// Connections of each worker when clients are all alike.
    pub connection_count: usize,
    /// How those are treated.
    pub habits: Habits,
    /// How long a connection and its handshake may take.
    pub handshake_timeout: Duration,
    /// Whom to trust.
    pub tls: TlsPlan,
    /// How HTTP requests are made.
    pub http: HttpPlan,
    /// Source addresses, in turn; without one it is left to the kernel.
    pub sources: Vec<IpAddr>,
    /// RCODEs that are right; empty when any is.
    pub expected_rcodes: Vec<u8>,
    /// What answers are held against; nothing otherwise.
    pub checking: Option<Checking>,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Where each query gets a row of its own, if anywhere.
    pub per_query: Option<Arc<Spool>>,
    /// Which of several processes this is, where they carry the plan out together.
    pub part: Part,
    /// When the clock of the run starts, unless workers are ready later; as soon as they are, if nothing is said.
    pub start: Option<Instant>,
}

impl Plan {
    /// A run over UDP with one worker; what else there is to say is said by its fields.
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
            habits: Habits::default(),
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

    /// The place of a worker of this process among those of all, and how many places there are.
    pub(crate) const fn place(&self, worker: usize) -> (usize, usize) {
        self.part.worker(worker, self.worker_count)
    }

    /// How many queries this process is to send; `None` where that depends on answers or on chance alone.
    #[must_use]
    pub fn query_count(&self) -> Option<f64> {
        match &self.pace {
            Pace::Open(schedule) => Some(schedule.query_count_of(self.part)),
            Pace::Traced(replay) => Some(replay.survey().queries as f64),
            Pace::Closed { .. } | Pace::Population { .. } => None,
        }
    }

    /// The silence after which all clients close; `None` when they do not, or not after the same.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        match &self.pace {
            Pace::Population { population, .. } => population.idle_timeout(),
            _ => self.habits.idle_timeout,
        }
    }
}

/// A transport of one worker.
trait TransportDriver {
    /// Queries that wait.
    fn waiting(&self) -> usize;
    /// Hands over what is queued.
    fn flush(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()>;
    /// Takes in some of what has come, without waiting and not much longer than until `until_ns`; gives whether there
    /// was anything.
    fn receive(&mut self, stats: &mut WorkerStats, until_ns: u64) -> io::Result<bool>;
    /// Gives up what is overdue.
    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()>;
    /// Adds what tells of something to take in.
    fn watch(&self, watched: &mut Vec<libc::pollfd>);
    /// Accounts for all that still waits.
    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()>;
    /// Whether connections are being opened.
    fn is_opening(&self) -> bool {
        false
    }
    /// Whether connections failed and none has ever been opened.
    fn has_only_failed(&self) -> bool {
        false
    }
    /// Makes the calls of the first query, without a query.
    fn warm_up(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// The clock begins anew: it is this one.
    fn restart(&mut self, clock: Clock);
    /// When it wants to be called at the latest.
    fn next_timer(&self) -> Option<Instant> {
        None
    }
}
