//! Messages from workers to the collector.

use measure::{ClientClasses, ClientTally, Pacing, Transport, TransportSecond, WrongAnswer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A message from a worker to the collector.
pub(super) enum WorkerReport {
    /// A completed second of each transport.
    Second(u64, Vec<(Transport, TransportSecond)>),
    /// The worker has ended.
    Done {
        /// Its totals.
        totals: Box<WorkerTotals>,
        /// Why it failed, if it did.
        failure: Option<String>,
        /// Results of its clients, for a population.
        tallies: Vec<ClientTally>,
        /// Latency by class of its clients, for a population or a trace.
        client_classes: Option<Box<ClientClasses>>,
        /// The first wrong answers, if answers are checked.
        wrong_answers: Vec<WrongAnswer>,
    },
}

/// Totals of a worker over the whole run.
#[derive(Clone, Default, Debug)]
pub struct WorkerTotals {
    /// How often no ID was free for a due query.
    pub id_shortages: u64,
    /// ICMP messages that the port is closed.
    pub refusals: u64,
    /// Datagrams without a kernel timestamp. Their time of reading was used.
    pub unstamped: u64,
    /// Datagrams that the kernel dropped because its buffer was full.
    pub dropped: u64,
    /// The first message from another address than the queried one: the queried address, then the sender.
    pub other_address: Option<(SocketAddr, SocketAddr)>,
    /// The maximum number of local ports in use at once, by transport and server.
    pub ports: BTreeMap<(Transport, SocketAddr), u64>,
    /// Handshake messages from servers.
    pub handshake_steps: u64,
    /// Handshake messages that waited longer than [`crate::limits::HANDSHAKE_WAIT_MAX`] in this process.
    pub handshake_steps_behind: u64,
    /// How often queries were delayed because handshakes had fallen behind.
    pub handshake_pauses: u64,
    /// The longest of these waits.
    pub handshake_wait: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// The part of it spent busy-waiting for planned times.
    pub spun: Duration,
    /// How long the thread ran.
    pub wall: Duration,
    /// How long the thread had queries to send, including overdue ones.
    pub sending: Duration,
    /// Deviations from the plan of a trace.
    pub pacing: Option<Box<Pacing>>,
}
