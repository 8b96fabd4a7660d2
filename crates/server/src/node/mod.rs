//! One running node: its threads, and what they share.
//!
//! ```text
//!   udp-N      packet workers, one for each core
//!   tcp-N      connections (TCP, TLS, HTTPS, QUIC), one runtime for each core
//!   certificate  reloads the certificate for clients when its file changes
//!   update-N   authenticate and sign
//!   replica    runs the replica: raft, zones; one tick every 10 ms
//!   log        writes and fsyncs the log; updates wait for it
//!   bulk       writes checkpoints
//!   reads      reads checkpoints and old log for peers
//!   scrub      checks the log and checkpoints for damage, once a week
//!   peers      connections between nodes
//!   peers-bulk connections that carry checkpoints
//!   generation waits for kernel events: the machine was reset to a snapshot
//!   api        HTTP
//! ```
//! Packet workers never wait for the other threads. udp-N and tcp-N have a lower priority (`nice`), so that the replica
//! gets CPU time during a flood of queries.

// The identity of the node, and how it exits when it is removed or cannot continue.
mod background;
pub(crate) mod doubt;
pub(crate) mod fatal;
pub(crate) mod identity;
mod idle;
mod removal;
// Opens all sockets.
mod sockets;
// Starts all threads.
mod start;
mod streams;
mod threads;
// Reloads the configuration.
pub(crate) mod reload;
// The replica: opening it, its thread, and the handle for other threads.
mod expiry;
pub(crate) mod first_state;
pub(crate) mod handle;
pub(crate) mod open;
pub(crate) mod readers;
mod repair;
pub(crate) mod replica_thread;
mod scrub;
// The audit log, and the rights of keys.
pub(crate) mod audit_log;
pub(crate) mod rights;
// Certificates, CAs and data keys.
pub(crate) mod cert_manager;
pub(crate) mod data_keys;
mod tick_schedule;
// The disk of the replica.
mod block_size;
mod direct;
pub(crate) mod disk;
mod room;
// Counters, the metrics page, and kernel counters.
mod counters;
mod drops;
pub(crate) mod metrics;
// DNS cookies and the rate limit.
mod client_protection;
// System calls: clocks, limits and priorities.
pub(crate) mod system;
// The memory of the machine, and the memory use of the zones.
pub(crate) mod memory_size;
pub(crate) mod zone_memory;
// The cluster's time, from the clocks of all nodes.
pub(crate) mod cluster_clock;
// Detects that the machine was reset to a snapshot.
mod generation;

use crate::config::Config;
use crate::listen::counters::{AllConnections, ListenCounters};
use crate::log;
use crate::peer::resolve;
use crate::problem::Problem;
use crate::sandbox;
use crate::service::answer::QueryResponder;
use crate::service::cookies::SecretSource;
use crate::service::serving::ServingState;
use crate::stop::Stop;
use crate::tls::public::PublicTls;
use drops::SocketDrops;
use handle::{Event, ReplicaHandle};
use identity::Identity;
use open::NotOpened;
use reload::{Reload, Source};
use replica::io::{Input, Serving};
use sockets::{ClientSockets, Sockets};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use streams::StreamWorkers;

/// Time after which a node that does not serve yet starts to answer with SERVFAIL.
const LISTEN_AFTER_MS: u64 = 1_000;
/// Open files besides those for clients: log, checkpoints, peers, the API.
const OTHER_FILES: u64 = 768;
/// Time limit of a stopping node for the leader transfer and the disk.
const STOP_MS: u64 = 4_000;

/// A node with its files and sockets, in its sandbox, before any thread starts.
pub(crate) struct Prepared {
    config: Config,
    /// Kept until the end, because it holds the lock of the directory.
    identity: Identity,
    sockets: Sockets,
}

impl Prepared {
    /// Opens everything that needs privileges, then drops them. `file` is the configuration file.
    pub(crate) fn new(config: Config, file: &Path) -> Result<Self, Problem> {
        check_file_limit(&config, system::raise_file_limit());
        let identity = Identity::load(&config)?;
        let sockets = Sockets::bind(&config)?;
        // The resolver threads enter their own sandbox, so they start before the node's sandbox.
        resolve::start(config.sandbox.is_on())?;
        sandbox::enter_as_node(&config, file);
        log::start();
        Ok(Self { config, identity, sockets })
    }

    /// Runs the node until it is stopped.
    pub(crate) fn run(self, stop: &Stop, source: Source) -> Result<(), Problem> {
        let Self { config, identity, sockets } = self;
        let replica = match open::open(&config, &identity) {
            Ok(replica) => replica,
            Err(NotOpened::Damaged(damaged)) => {
                if repair::run(&config, &identity, &sockets, stop, damaged)? == repair::Ended::Stopped {
                    return Ok(());
                }
                open::open(&config, &identity).map_err(NotOpened::into_problem)?
            }
            Err(NotOpened::Failed(problem)) => return Err(problem),
        };
        // Give back the memory that was used to read the checkpoint and the log.
        crate::memory::trim();
        let mut node = start::start(&config, &identity, sockets, replica)?;
        node.reload.clone().start(source)?;
        if node.wait_until_serving(stop) {
            node.listen()?;
            node.serving.set_listening();
        }
        node.handle.shared.removal.wait(stop);
        let (shared, id) = (node.handle.shared.clone(), node.config.id);
        node.stop()?;
        shared.removal.problem(id)
    }
}

/// Warns if the limit of open files is too low for the configured connections and sockets.
fn check_file_limit(config: &Config, files_max: u64) {
    let connections_max = config.dns.tcp.connections_max;
    let wanted = (connections_max + sockets::client_files(config)) as u64 + OTHER_FILES;
    if files_max < wanted {
        tracing::warn!(
            files_max,
            wanted,
            connections_max,
            "the limit of open files is too low: raise it (LimitNOFILE of systemd, `ulimit -n`), or lower \
             dns.tcp.connections_max"
        );
    }
}

/// A running node.
struct Node {
    config: Config,
    serving: Arc<ServingState>,
    /// The UDP workers; empty once they are started.
    udp: Vec<Worker>,
    streams: Vec<StreamWorkers>,
    tls: Option<Arc<PublicTls>>,
    cookies: SecretSource,
    reload: Reload,
    connections: AllConnections,
    drops: Arc<SocketDrops>,
    /// Disconnected when all connections have ended.
    streams_ended: Option<Receiver<()>>,
    started_at: Instant,
    handle: ReplicaHandle,
    stop_workers: Stop,
    replica_ended: Receiver<()>,
    writers: Vec<JoinHandle<()>>,
    /// Connections between nodes, and the API.
    runtimes: Vec<tokio::runtime::Runtime>,
}

/// The responder and counters of one packet worker, or of one runtime of connections, for one transport.
struct Worker {
    responder: QueryResponder,
    listen: Arc<ListenCounters>,
}

impl Node {
    /// Waits until the node may serve, up to a time limit. Returns false if the node is stopped or was removed.
    fn wait_until_serving(&self, stop: &Stop) -> bool {
        let deadline = Instant::now() + Duration::from_millis(LISTEN_AFTER_MS);
        while self.serving.get() == Serving::No && Instant::now() < deadline {
            if stop.wait(Duration::from_millis(2)) || self.handle.shared.removal.is_removed() {
                return false;
            }
        }
        true
    }

    /// Starts to answer clients.
    fn listen(&mut self) -> Result<(), Problem> {
        if !self.config.answers_queries() {
            tracing::info!("no address for DNS is configured: this node votes and stores data, and answers no queries");
            return Ok(());
        }
        let sockets = ClientSockets::bind(&self.config)?;
        self.drops.watch(&sockets);
        threads::udp(sockets.udp, std::mem::take(&mut self.udp), &self.stop_workers)?;
        let (tls, workers) = (self.tls.as_ref(), std::mem::take(&mut self.streams));
        if let SecretSource::File(secrets) = &self.cookies {
            threads::cookie_secrets(secrets, &self.stop_workers)?;
        }
        if let Some(tls) = tls {
            threads::certificate(tls, &self.stop_workers)?;
        }
        let (node, stop) = (self.config.id, &self.stop_workers);
        self.streams_ended = Some(streams::start(node, tls, sockets.streams, workers, &self.connections, stop)?);
        Ok(())
    }

    /// Transfers the leadership, waits for the disk, and ends all threads.
    fn stop(self) -> Result<(), Problem> {
        tracing::info!(node = self.config.id, uptime_s = self.started_at.elapsed().as_secs(), "stopping");
        self.handle.send(Event::Input(Input::Stop));
        let ended = self.replica_ended.recv_timeout(Duration::from_millis(STOP_MS));
        // An open socket that no thread reads would swallow queries.
        self.drops.forget();
        self.stop_workers.order();
        // Connections are drained while the disk finishes.
        let drained_until = Instant::now() + streams::ENDED;
        let wait_for_streams = || {
            let left = drained_until.saturating_duration_since(Instant::now());
            self.streams_ended.iter().for_each(|ended| _ = ended.recv_timeout(left));
        };
        if ended.is_err() {
            // Nothing is lost: acknowledged updates are on disk.
            tracing::warn!("the replica did not stop in time");
            wait_for_streams();
            return Ok(());
        }
        for runtime in self.runtimes {
            runtime.shutdown_background();
        }
        // The queues of the writers are closed now; the writers finish the queued work.
        self.handle.shared.refusals.disconnect();
        for writer in self.writers {
            let _ = writer.join();
        }
        wait_for_streams();
        Ok(())
    }
}
