//! The load engine: workers that send on time, take answers in, and keep the account.
//!
//! ```text
//!   Workload --+                                    +-> matched -> Second -> Timeline --+
//!   Schedule --+-> worker (one a core) -> sockets --+                                   +-> collect -> Outcome
//!              +-> worker ...                       +-> strays, late, duplicate --------+
//! ```

// How queries travel.
mod transport;
// Nanoseconds since the start of the run.
mod clock;
// Whose answer it is.
mod matching;
// Datagrams.
mod udp;
// One account out of many.
mod collect;
// What the operating system counted meanwhile.
mod usage;

pub use collect::{Account, Outcome, Progress, Tail, run};
pub use transport::Transport;

use crate::schedule::Schedule;
use crate::workload::Workload;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

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
}

impl Pace {
    /// How long queries are sent.
    #[must_use]
    pub fn duration(&self) -> Duration {
        match self {
            Self::Open(schedule) => schedule.duration(),
            Self::Closed { duration, .. } => *duration,
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
    /// Source address; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// RCODEs that are right; empty when any is.
    pub expected_rcodes: Vec<u8>,
}
