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

// Who this node is.
mod identity;
// Getting all sockets.
mod sockets;
// The replica: how it is opened, its thread, how others talk to it.
mod expiry;
pub(crate) mod handle;
mod open;
pub(crate) mod readers;
pub(crate) mod replica_thread;
pub(crate) mod rights;
// The disk of the replica.
pub(crate) mod disk;
// All metrics on one page.
pub(crate) mod metrics;
// Clocks and limits of the system.
mod system;

use crate::api::{Api, JoinOffer};
use crate::config::Config;
use crate::limits::{DATAGRAM_OCTETS_MAX, UPDATE_THREADS};
use crate::listen::ListenCounters;
use crate::listen::batch::BatchSocket;
use crate::listen::clients::Clients;
use crate::listen::tcp::TcpService;
use crate::listen::udp::UdpWorker;
use crate::metrics::{DurationHistogram, Gauge};
use crate::peer::PeerCounters;
use crate::peer::accept::Acceptor;
use crate::peer::frame::Welcome;
use crate::peer::join::{JoinDesk, JoinToken};
use crate::peer::links::Links;
use crate::problem::{Exit, Problem};
use crate::service::answer::{AnswerOptions, QueryResponder, Service};
use crate::service::counters::{TransportCounters, WorkerCounters};
use crate::service::deferred::{Desk, UpdateThread, Work};
use crate::service::serving::{ExpiredZones, ServingState};
use crate::stop::Stop;
use disk::{DiskDone, DiskWork, Writer};
use expiry::ExpiryClock;
use handle::{Event, ReplicaHandle, Shared};
use identity::Identity;
use metrics::NodeMetrics;
use readers::{Readers, Zones};
use replica::Replica;
use replica::io::{Input, Member};
use replica_thread::{DiskQueues, ReplicaCounters, ReplicaThread};
use sockets::Sockets;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a stopping node waits for its replica to hand over, and for the disk.
const STOP_MS: u64 = 4_000;
/// Threads of the runtime for connections between nodes: a heartbeat never waits for the encryption of a checkpoint.
const PEER_THREADS: usize = 2;

/// Runs a node until told to stop.
pub(crate) fn run(config: Config, stop: &Stop) -> Result<(), Problem> {
    system::raise_file_limit();
    let identity = Identity::load(&config)?;
    let sockets = Sockets::bind(&config)?;
    let replica = open::open(&config, &identity)?;
    let node = Node::start(&config, identity, sockets, replica)?;
    while !stop.wait(Duration::from_secs(3_600)) {}
    node.stop()
}

/// What all parts of a node are started with.
struct Node {
    config: Config,
    started_at: Instant,
    handle: ReplicaHandle,
    stop_workers: Stop,
    replica_ended: Receiver<()>,
    writers: Vec<JoinHandle<()>>,
    /// Connections between nodes, and the API.
    runtimes: Vec<tokio::runtime::Runtime>,
}

/// What counts, handed to those who count and to the page that shows it.
#[derive(Default)]
struct Counters {
    listen: Vec<Arc<ListenCounters>>,
    udp: Vec<Arc<WorkerCounters>>,
    tcp: Vec<Arc<WorkerCounters>>,
    signed: Vec<Arc<WorkerCounters>>,
}

impl Node {
    fn start(config: &Config, identity: Identity, sockets: Sockets, replica: Replica) -> Result<Self, Problem> {
        let (events, event_queue) = channel();
        let handle = ReplicaHandle::new(events, Arc::<Shared>::default());
        let serving = Arc::<ServingState>::default();
        let (desk, desk_queues) = Desk::new(UPDATE_THREADS);
        let expired = Arc::<ExpiredZones>::default();
        let service = Arc::new(Service {
            options: answer_options(config),
            serving: serving.clone(),
            expired: expired.clone(),
            desk: desk.clone(),
        });
        let mut counters = Counters::default();
        let stop_workers = Stop::default();
        let readers = Arc::<Readers>::default();
        let reader = || readers.add(replica.zone_reader());
        start_update_threads(&service, reader, &handle, &mut counters, desk_queues)?;
        start_udp(sockets.udp, &service, reader, &mut counters, &stop_workers)?;
        start_tcp(config, sockets.tcp, &service, reader, &mut counters)?;
        let api_reader = reader();

        let (log_sync, bulk_sync) = (Arc::<DurationHistogram>::default(), Arc::<DurationHistogram>::default());
        let (disks, writers) = start_disks(config, &handle, &log_sync, &bulk_sync)?;
        let peer_counters = Arc::<PeerCounters>::default();
        let (peers, links) = start_peers(config, &identity, sockets.peer, &handle, &peer_counters)?;
        let replica_counters = Arc::<ReplicaCounters>::default();
        let thread = ReplicaThread {
            replica,
            shared: handle.shared.clone(),
            links,
            disks,
            desk: desk.clone(),
            serving: serving.clone(),
            readers: readers.clone(),
            expiry: ExpiryClock::new(expired.clone()),
            counters: replica_counters.clone(),
            admins: Default::default(),
            next_admin: 0,
        };
        let replica_ended = start_replica(thread, event_queue)?;
        let metrics = NodeMetrics {
            transports: vec![
                TransportCounters { transport: "udp", workers: counters.udp },
                TransportCounters { transport: "tcp", workers: counters.tcp },
                TransportCounters { transport: "signed", workers: counters.signed },
            ],
            listen: counters.listen,
            peer: peer_counters,
            replica: replica_counters,
            log_sync,
            bulk_sync,
            desk,
        };
        let started_at = Instant::now();
        let api = Api {
            node: u64::from(config.id),
            started_at,
            token: identity.token.clone(),
            handle: handle.clone(),
            serving,
            metrics,
            zones: Mutex::new(api_reader),
            join: join_offer(config, &identity),
        };
        let api = start_api(sockets.api, api)?;
        Ok(Self {
            config: config.clone(),
            started_at,
            handle,
            stop_workers,
            replica_ended,
            writers,
            runtimes: vec![peers, api],
        })
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

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Problem> {
    let failed = |error| Problem::new(Exit::Failed, "a thread cannot be started", error);
    std::thread::Builder::new().name(name).spawn(work).map_err(failed)
}

fn runtime_failed(error: std::io::Error) -> Problem {
    Problem::new(Exit::Failed, "a runtime cannot be started", error)
}

fn answer_options(config: &Config) -> AnswerOptions {
    let octets = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    AnswerOptions {
        udp_payload: config.dns.udp_payload,
        nsid: octets(&config.dns.nsid),
        chaos_id: octets(&config.dns.chaos_id),
        chaos_version: octets(&config.dns.chaos_version),
        keepalive: u16::try_from(config.dns.tcp.idle_ms / 100).unwrap_or(u16::MAX),
    }
}

fn start_update_threads(
    service: &Arc<Service>,
    reader: impl Fn() -> Zones,
    handle: &ReplicaHandle,
    counters: &mut Counters,
    queues: Vec<Receiver<Work>>,
) -> Result<(), Problem> {
    let transfers = Arc::<Gauge>::default();
    let threads = queues.len() as u64;
    for (index, queue) in queues.into_iter().enumerate() {
        let (worker, listen) = (Arc::<WorkerCounters>::default(), Arc::<ListenCounters>::default());
        counters.signed.push(worker.clone());
        counters.listen.push(listen.clone());
        let thread = UpdateThread {
            index: index as u64,
            threads,
            service: service.clone(),
            zones: reader(),
            counters: worker,
            listen,
            submit: Arc::new(handle.clone()),
            transfers: transfers.clone(),
            out: vec![0; DATAGRAM_OCTETS_MAX],
            waiting: Default::default(),
        };
        spawn(format!("update-{index}"), move || thread.run(&queue))?;
    }
    Ok(())
}

fn start_udp(
    sockets: Vec<Vec<BatchSocket>>,
    service: &Arc<Service>,
    reader: impl Fn() -> Zones,
    counters: &mut Counters,
    stop: &Stop,
) -> Result<(), Problem> {
    for (index, sockets) in sockets.into_iter().enumerate() {
        let (worker, listen) = (Arc::<WorkerCounters>::default(), Arc::<ListenCounters>::default());
        counters.udp.push(worker.clone());
        counters.listen.push(listen.clone());
        let responder = QueryResponder { service: service.clone(), zones: reader(), counters: worker };
        let (worker, stop) = (UdpWorker::new(sockets, responder, listen), stop.clone());
        spawn(format!("udp-{index}"), move || worker.run(&stop))?;
    }
    Ok(())
}

fn start_tcp(
    config: &Config,
    listeners: Vec<Vec<std::net::TcpListener>>,
    service: &Arc<Service>,
    reader: impl Fn() -> Zones,
    counters: &mut Counters,
) -> Result<(), Problem> {
    let limits = &config.dns.tcp;
    let clients = Clients::new(limits.connections_max, limits.connections_per_client_max);
    for (index, listeners) in listeners.into_iter().enumerate() {
        let (worker, listen) = (Arc::<WorkerCounters>::default(), Arc::<ListenCounters>::default());
        counters.tcp.push(worker.clone());
        counters.listen.push(listen.clone());
        let responder = QueryResponder { service: service.clone(), zones: reader(), counters: worker };
        let (clients, idle) = (clients.clone(), Duration::from_millis(limits.idle_ms));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(runtime_failed)?;
        let serve = move || {
            let service = TcpService::new(responder, clients, listen, idle);
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                for listener in listeners {
                    match tokio::net::TcpListener::from_std(listener) {
                        Ok(listener) => drop(tokio::task::spawn_local(service.clone().accept(listener))),
                        Err(error) => tracing::error!(%error, "a listener cannot be used"),
                    }
                }
                // The process ends this thread.
                std::future::pending::<()>().await;
            });
        };
        spawn(format!("tcp-{index}"), serve)?;
    }
    Ok(())
}

fn start_disks(
    config: &Config,
    handle: &ReplicaHandle,
    log_sync: &Arc<DurationHistogram>,
    bulk_sync: &Arc<DurationHistogram>,
) -> Result<(DiskQueues, Vec<JoinHandle<()>>), Problem> {
    let mut writers = Vec::new();
    let mut start = |name: &str, times: &Arc<DurationHistogram>| -> Result<Sender<DiskWork>, Problem> {
        let (sender, queue) = channel();
        let writer = Writer::new(&config.dir, times.clone());
        let handle = handle.clone();
        let done = move |done| {
            let input = match done {
                DiskDone::Persisted(queue, ticket) => Input::Persisted { queue, ticket },
                DiskDone::Read(ticket, octets) => Input::FileRead { ticket, octets },
            };
            handle.send(Event::Input(input));
        };
        writers.push(spawn(name.to_owned(), move || writer.run(&queue, done))?);
        Ok(sender)
    };
    let disks =
        DiskQueues { log: start("log", log_sync)?, bulk: start("bulk", bulk_sync)?, reads: start("reads", bulk_sync)? };
    Ok((disks, writers))
}

fn start_peers(
    config: &Config,
    identity: &Identity,
    listener: std::net::TcpListener,
    handle: &ReplicaHandle,
    counters: &Arc<PeerCounters>,
) -> Result<(tokio::runtime::Runtime, Links<ReplicaHandle>), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(PEER_THREADS)
        .thread_name("peers")
        .enable_all()
        .build()
        .map_err(runtime_failed)?;
    let (own, events) = (config.raft_id(), Arc::new(handle.clone()));
    let welcome = Welcome { id: own, boot_id: identity.boot_id };
    let join = JoinDesk {
        handle: handle.clone(),
        ca_cert: config.peer.ca_file.clone(),
        ca_key: ca_key_of(config),
        data_key: identity.data_key_octets,
        api_token: identity.token.clone(),
    };
    let acceptor =
        Acceptor::new(identity.tls.server.clone().into(), welcome, events.clone(), counters.clone(), Some(join));
    let entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(runtime_failed)?;
    drop(entered);
    runtime.spawn(acceptor.run(listener));
    let tls = identity.tls.clone();
    let mut links = Links::new(own, identity.boot_id, tls, runtime.handle().clone(), events, counters.clone());
    links.set_members(&members(config));
    Ok((runtime, links))
}

/// The authority's key lies beside its certificate, on the node where the cluster was made.
fn ca_key_of(config: &Config) -> PathBuf {
    config.peer.ca_file.with_extension("key")
}

fn join_offer(config: &Config, identity: &Identity) -> JoinOffer {
    JoinOffer(ca_key_of(config).exists().then(|| JoinToken {
        ca: data_encoding::BASE64.encode(&identity.ca),
        member: config.raft_id(),
        address: config.peer.listen,
        secret: String::new(),
    }))
}

/// The members as the configuration has them.
fn members(config: &Config) -> Vec<Member> {
    config.peer.members.iter().map(|member| Member { id: member.id, address: member.address.to_string() }).collect()
}

fn start_replica(thread: ReplicaThread, events: Receiver<Event>) -> Result<Receiver<()>, Problem> {
    let (ended, replica_ended) = channel();
    let work = move || {
        // Dropped when the thread ends, however it ends.
        let _ended: Sender<()> = ended.clone();
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || thread.run(&events))).is_err() {
            // The replica's state is unknown now. Peers see the reset and go on without this node.
            eprintln!("catamaran: the replica panicked, which is a bug; aborting");
            std::process::abort();
        }
        let _ = ended.send(());
    };
    spawn("replica".into(), work)?;
    Ok(replica_ended)
}

fn start_api(listener: std::net::TcpListener, api: Api) -> Result<tokio::runtime::Runtime, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("api")
        .enable_all()
        .build()
        .map_err(runtime_failed)?;
    let entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(runtime_failed)?;
    drop(entered);
    runtime.spawn(crate::api::serve(listener, Arc::new(api)));
    Ok(runtime)
}
