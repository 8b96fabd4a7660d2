//! One running node: its threads, and what they share.
//!
//! ```text
//!   udp-N      packet workers, one for each core
//!   tcp-N      connections (TCP, TLS, HTTPS, QUIC), one runtime for each core
//!   certificate  looks whether the one that clients see has changed
//!   update-N   authenticate and sign
//!   replica    owns the replica: raft, zones; a tick each 10 ms
//!   log        writes and syncs the log; clients wait for it
//!   bulk       writes checkpoints
//!   reads      reads checkpoints and old log for peers
//!   scrub      looks for damage in log and checkpoints, once a week
//!   peers      connections between nodes
//!   peers-bulk the same, of checkpoints
//!   generation waits for events of the kernel: the machine was put back to a snapshot
//!   api        HTTP
//! ```
//! No packet worker ever waits for one of the others. udp-N and tcp-N lower themselves (`nice`): in a flood of queries
//! the replica has its time first.

// Who this node is, and how it ends when it is a member no more, or cannot go on.
pub(crate) mod doubt;
pub(crate) mod ending;
pub(crate) mod identity;
mod idle;
mod leisure;
mod removal;
// Getting all sockets.
mod sockets;
// Starting all threads.
mod start;
mod streams;
mod threads;
// Reload of the configuration.
pub(crate) mod reload;
// The replica: how it is opened, its thread, how others talk to it.
mod expiry;
pub(crate) mod first_state;
pub(crate) mod handle;
pub(crate) mod open;
pub(crate) mod readers;
mod repair;
pub(crate) mod replica_thread;
mod scrub;
// Who updated what.
pub(crate) mod audit_log;
pub(crate) mod rights;
// What nodes know each other by.
pub(crate) mod data_keys;
mod rounds;
pub(crate) mod trust_keeper;
// The disk of the replica.
mod block_size;
mod direct;
pub(crate) mod disk;
mod room;
// All counters, the page that shows them, and what the kernel counts.
mod counters;
mod drops;
pub(crate) mod metrics;
// Cookies and the rate limit.
mod guards;
// Clocks, limits and precedence, of the system.
pub(crate) mod system;
// What the zones take of it, for those who hold versions.
pub(crate) mod memory_size;
pub(crate) mod zone_memory;
// The cluster's time, from the clocks of all nodes.
pub(crate) mod cluster_clock;
// Whether the machine was put back to a snapshot.
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

/// Time after which a node that may not answer yet begins to say so.
const LISTEN_AFTER_MS: u64 = 1_000;
/// Files that a node opens beside those for clients: log, checkpoints, peers, the API.
const OTHER_FILES: u64 = 768;
/// How long a stopping node waits for its replica to hand over, and for the disk.
const STOP_MS: u64 = 4_000;

/// A node that has its files and sockets and no thread yet, in its sandbox.
pub(crate) struct Prepared {
    config: Config,
    /// Kept until the end: with it goes the hold on the directory.
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

    /// Runs the node until told to stop.
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
        // What reading checkpoint and log took is no longer needed, and this thread will ask for little.
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

/// Warns when fewer files may be open than connections are allowed, and sockets wanted: the limit that an operator sets
/// should be the one that holds.
fn check_file_limit(config: &Config, files_max: u64) {
    let connections_max = config.dns.tcp.connections_max;
    let wanted = (connections_max + sockets::client_files(config)) as u64 + OTHER_FILES;
    if files_max < wanted {
        tracing::warn!(
            files_max,
            wanted,
            connections_max,
            "few files may be open: raise the limit (LimitNOFILE of systemd, `ulimit -n`), or lower \
             dns.tcp.connections_max"
        );
    }
}

/// A node that runs.
struct Node {
    config: Config,
    serving: Arc<ServingState>,
    /// Those who will answer clients; empty once they do.
    udp: Vec<Worker>,
    streams: Vec<StreamWorkers>,
    tls: Option<Arc<PublicTls>>,
    cookies: SecretSource,
    reload: Reload,
    connections: AllConnections,
    drops: Arc<SocketDrops>,
    /// CloseReason off when all connections have ended.
    streams_ended: Option<Receiver<()>>,
    started_at: Instant,
    handle: ReplicaHandle,
    stop_workers: Stop,
    replica_ended: Receiver<()>,
    writers: Vec<JoinHandle<()>>,
    /// Connections between nodes, and the API.
    runtimes: Vec<tokio::runtime::Runtime>,
}

/// What one packet worker, or one runtime of connections, answers with on one transport.
struct Worker {
    responder: QueryResponder,
    listen: Arc<ListenCounters>,
}

impl Node {
    /// Waits until the node may answer, but not for ever: then it says that it may not. False when told to stop, and
    /// for a node that was removed.
    fn wait_until_serving(&self, stop: &Stop) -> bool {
        let deadline = Instant::now() + Duration::from_millis(LISTEN_AFTER_MS);
        while self.serving.get() == Serving::No && Instant::now() < deadline {
            if stop.wait(Duration::from_millis(2)) || self.handle.shared.removal.is_removed() {
                return false;
            }
        }
        true
    }

    /// Begins to answer clients.
    fn listen(&mut self) -> Result<(), Problem> {
        if !self.config.answers_queries() {
            tracing::info!("no address for DNS: this node votes and stores, and answers nobody");
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

    /// Hands over, lets the disk finish, and ends all threads.
    fn stop(self) -> Result<(), Problem> {
        tracing::info!(node = self.config.id, uptime_s = self.started_at.elapsed().as_secs(), "stopping");
        self.handle.send(Event::Input(Input::Stop));
        let ended = self.replica_ended.recv_timeout(Duration::from_millis(STOP_MS));
        // A port that nobody reads any more must not be held open.
        self.drops.forget();
        self.stop_workers.order();
        // Clients are told while the disk finishes.
        let told_until = Instant::now() + streams::ENDED;
        let wait_for_streams = || {
            let left = told_until.saturating_duration_since(Instant::now());
            self.streams_ended.iter().for_each(|ended| _ = ended.recv_timeout(left));
        };
        if ended.is_err() {
            // Nothing is lost by that: what was acknowledged is durable.
            tracing::warn!("the replica did not hand over in time");
            wait_for_streams();
            return Ok(());
        }
        for runtime in self.runtimes {
            runtime.shutdown_background();
        }
        // The replica's end closed the writers' queues, and this the last one; they finish what is in them.
        self.handle.shared.refusals.disconnect();
        for writer in self.writers {
            let _ = writer.join();
        }
        wait_for_streams();
        Ok(())
    }
}
