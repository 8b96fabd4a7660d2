//! One running node: its threads, and what they share.
//!
//! ```text
//!   udp-N      packet workers, one for each core
//!   tcp-N      connections, one runtime for each core
//!   update-N   authenticate and sign
//!   replica    owns the replica: raft, zones; a tick each 10 ms
//!   log        writes and syncs the log; clients wait for it
//!   bulk       writes checkpoints
//!   reads      reads checkpoints and old log for peers
//!   peers      connections between nodes
//!   api        HTTP
//! ```
//! No packet worker ever waits for one of the others.

// Who this node is, and how it ends when it is a member no more.
mod identity;
mod removal;
// Getting all sockets.
mod sockets;
// Starting all threads.
mod threads;
// The replica: how it is opened, its thread, how others talk to it.
mod expiry;
pub(crate) mod handle;
mod open;
pub(crate) mod readers;
pub(crate) mod replica_thread;
pub(crate) mod rights;
mod rounds;
// The disk of the replica.
pub(crate) mod disk;
// All metrics on one page.
pub(crate) mod metrics;
// Clocks and limits of the system.
mod system;

use crate::api::Api;
use crate::config::Config;
use crate::limits::UPDATE_THREADS;
use crate::listen::ListenCounters;
use crate::metrics::DurationHistogram;
use crate::peer::PeerCounters;
use crate::problem::Problem;
use crate::service::answer::{AnswerOptions, QueryResponder, Service};
use crate::service::cookie::CookieSecret;
use crate::service::counters::{TransportCounters, WorkerCounters};
use crate::service::deferred::Desk;
use crate::service::serving::{ExpiredZones, ServingReader, ServingState};
use crate::stop::Stop;
use expiry::ExpiryClock;
use handle::{Event, ReplicaHandle, Shared};
use identity::Identity;
use metrics::NodeMetrics;
use readers::Readers;
use replica::Replica;
use replica::io::{Input, Serving};
use replica_thread::{ReplicaCounters, ReplicaThread};
use sockets::{ClientSockets, Sockets};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zone::answer::Batch;

/// Time after which a node that may not answer yet begins to say so.
const LISTEN_AFTER_MS: u64 = 1_000;
/// How long a stopping node waits for its replica to hand over, and for the disk.
const STOP_MS: u64 = 4_000;

/// Runs a node until told to stop.
pub(crate) fn run(config: Config, stop: &Stop) -> Result<(), Problem> {
    system::raise_file_limit();
    let identity = Identity::load(&config)?;
    let sockets = Sockets::bind(&config)?;
    let replica = open::open(&config, &identity)?;
    let mut node = Node::start(&config, identity, sockets, replica)?;
    if node.wait_until_serving(stop) {
        node.listen()?;
    }
    node.handle.shared.removal.wait(stop);
    let (shared, id) = (node.handle.shared.clone(), node.config.id);
    node.stop()?;
    shared.removal.problem(id)
}

/// A node that runs.
struct Node {
    config: Config,
    serving: Arc<ServingState>,
    /// Those who will answer clients; empty once they do.
    udp: Vec<Worker>,
    tcp: Vec<Worker>,
    started_at: Instant,
    handle: ReplicaHandle,
    stop_workers: Stop,
    replica_ended: Receiver<()>,
    writers: Vec<JoinHandle<()>>,
    /// Connections between nodes, and the API.
    runtimes: Vec<tokio::runtime::Runtime>,
}

/// What one packet worker, or one TCP runtime, answers with.
struct Worker {
    responder: QueryResponder,
    listen: Arc<ListenCounters>,
}

/// What counts, handed to those who count and to the page that shows it.
#[derive(Default)]
struct Counters {
    listen: Vec<Arc<ListenCounters>>,
    udp: Vec<Arc<WorkerCounters>>,
    tcp: Vec<Arc<WorkerCounters>>,
    peer: Arc<PeerCounters>,
    replica: Arc<ReplicaCounters>,
    log_sync: Arc<DurationHistogram>,
    bulk_sync: Arc<DurationHistogram>,
}

impl Counters {
    /// The counters of one more thread that takes messages.
    fn worker(
        &mut self,
        of: fn(&mut Self) -> &mut Vec<Arc<WorkerCounters>>,
    ) -> (Arc<WorkerCounters>, Arc<ListenCounters>) {
        let (worker, listen) = (Arc::<WorkerCounters>::default(), Arc::<ListenCounters>::default());
        of(self).push(worker.clone());
        self.listen.push(listen.clone());
        (worker, listen)
    }

    fn into_metrics(self, desk: Desk) -> NodeMetrics {
        let transport = |transport, workers| TransportCounters { transport, workers };
        NodeMetrics {
            transports: vec![transport("udp", self.udp), transport("tcp", self.tcp)],
            listen: self.listen,
            peer: self.peer,
            replica: self.replica,
            log_sync: self.log_sync,
            bulk_sync: self.bulk_sync,
            desk,
        }
    }
}

impl Node {
    fn start(config: &Config, identity: Identity, sockets: Sockets, replica: Replica) -> Result<Self, Problem> {
        let (events, event_queue) = channel();
        let handle = ReplicaHandle::new(events, Arc::<Shared>::default());
        let (desk, desk_queues) = Desk::new(UPDATE_THREADS);
        let (serving, expired) = (Arc::<ServingState>::default(), Arc::<ExpiredZones>::default());
        let service = Arc::new(Service { options: answer_options(config, &identity), desk: desk.clone() });
        let (mut counters, stop_workers) = (Counters::default(), Stop::default());
        let readers = Arc::<Readers>::default();
        let reader = || (readers.add(replica.zone_reader()), ServingReader::new(serving.clone(), expired.clone()));
        threads::updates(&service, reader, &handle, &mut counters, desk_queues)?;
        let mut workers = |of: fn(&mut Counters) -> &mut Vec<Arc<WorkerCounters>>| -> Vec<Worker> {
            let worker = |_| {
                let (counters, listen) = counters.worker(of);
                let (service, (zones, serving)) = (service.clone(), reader());
                Worker { responder: QueryResponder { service, zones, serving, counters, batch: Batch::new() }, listen }
            };
            (0..sockets::worker_count(config)).map(worker).collect()
        };
        let (udp, tcp) = (workers(|counters| &mut counters.udp), workers(|counters| &mut counters.tcp));
        let (api_reader, _) = reader();
        let (disks, writers) = threads::disks(config, &handle, &counters)?;
        let (peers, links) = threads::peers(config, &identity, sockets.peer, &handle, &counters)?;
        let thread = ReplicaThread {
            replica,
            shared: handle.shared.clone(),
            links,
            disks,
            desk: desk.clone(),
            serving: serving.clone(),
            readers,
            expiry: ExpiryClock::new(expired),
            stop_workers: stop_workers.clone(),
            counters: counters.replica.clone(),
            admins: Default::default(),
            reads: Default::default(),
            last_request: 0,
        };
        let replica_ended = threads::replica(thread, event_queue)?;
        let started_at = Instant::now();
        let api = Api {
            node: u64::from(config.id),
            started_at,
            token: identity.token.clone(),
            handle: handle.clone(),
            serving: serving.clone(),
            metrics: counters.into_metrics(desk),
            zones: Mutex::new(api_reader),
            join: threads::join_offer(config, &identity),
        };
        let runtimes = vec![peers, threads::api(sockets.api, api)?];
        let config = config.clone();
        Ok(Self { config, serving, udp, tcp, started_at, handle, stop_workers, replica_ended, writers, runtimes })
    }

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
        let sockets = ClientSockets::bind(&self.config)?;
        threads::udp(sockets.udp, std::mem::take(&mut self.udp), &self.stop_workers)?;
        threads::tcp(&self.config, sockets.tcp, std::mem::take(&mut self.tcp), &self.stop_workers)
    }

    /// Hands over, lets the disk finish, and ends all threads.
    fn stop(self) -> Result<(), Problem> {
        tracing::info!(node = self.config.id, uptime_s = self.started_at.elapsed().as_secs(), "stopping");
        self.handle.send(Event::Input(Input::Stop));
        let ended = self.replica_ended.recv_timeout(Duration::from_millis(STOP_MS));
        self.stop_workers.order();
        if ended.is_err() {
            // Nothing is lost by that: what was acknowledged is durable.
            tracing::warn!("the replica did not hand over in time");
            return Ok(());
        }
        for runtime in self.runtimes {
            runtime.shutdown_background();
        }
        // The replica's end closed the writers' queues; they finish what is in them.
        for writer in self.writers {
            let _ = writer.join();
        }
        Ok(())
    }
}

fn answer_options(config: &Config, identity: &Identity) -> AnswerOptions {
    let octets = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    AnswerOptions {
        udp_payload: config.dns.udp_payload,
        nsid: octets(&config.dns.nsid),
        chaos_id: octets(&config.dns.chaos_id),
        chaos_version: octets(&config.dns.chaos_version),
        keepalive: u16::try_from(config.dns.tcp.idle_ms / 100).unwrap_or(u16::MAX),
        cookies: Some(CookieSecret::derive(&identity.data_key_octets)),
    }
}
