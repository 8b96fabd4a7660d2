//! The load engine: workers send queries on time, receive answers and count them.
//!
//! ```text
//!   Workload ------+                            +-> matched -> Second -> TransportTimelines -+
//!   QuerySource ---+-> worker -> Transports ----+                                            +-> collect
//!                      (one a core)             +-> strays, late, duplicate -----------------+
//! ```

// Nanoseconds since the start of the run.
mod clock;
// The plan.
mod plan;
// Which query is due next, and the clients.
mod endpoint;
mod traffic;
// Matches answers to queries.
mod matching;
// Statistics of a worker.
mod client_latencies;
mod worker_stats;
// Local ports.
mod port_count;
// Datagrams, and connections over TCP and QUIC.
mod connection_pool;
mod quic;
mod stream;
mod transport_driver;
mod transports;
mod udp;
// TLS of the client.
mod tls;
// The loop of one thread. All threads start together.
mod start_barrier;
mod worker;
// Merges the results of all workers.
mod collect;
mod worker_report;
// CPU time of a thread.
mod usage;

pub use collect::{Outcome, Progress, TransportResults, run};
pub use endpoint::{ConnectionPolicy, Endpoint};
pub use plan::{Pace, Plan};
pub use port_count::range as port_range;
pub use stream::HttpPlan;
pub use tls::TlsPlan;
pub use traffic::{
    CreateQueries, DueQuery, QuerySource, SecondReading, SourceResults, StartedTraffic, Traffic, UdpSockets,
    WorkerQueries,
};
pub use worker_report::WorkerTotals;

pub use matching::question_of;
