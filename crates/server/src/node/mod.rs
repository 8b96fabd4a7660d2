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

use crate::api::backup::Backups;
use crate::api::{Api, Hosts};
use crate::config::Config;
use crate::files::layout::audit_of;
use crate::limits::{AT_WAITING_MAX, UPDATE_THREADS_MAX};
use crate::listen::Transport;
use crate::listen::counters::{AllConnections, ListenCounters};
use crate::listen::desk::ConnectionLimits;
use crate::log;
use crate::peer::announce::hints_of;
use crate::peer::resolve;
use crate::problem::{Exit, Problem};
use crate::sandbox;
use crate::service::answer::{AnswerOptions, QueryResponder, Service};
use crate::service::cookies::SecretSource;
use crate::service::deferred::Desk;
use crate::service::serving::{ServingReader, ServingState, ZoneLimits};
use crate::stop::Stop;
use crate::tls::client_secrets::ClientSecrets;
use crate::tls::public::PublicTls;
use counters::Counters;
use drops::SocketDrops;
use ending::Ending;
use expiry::ExpiryClock;
use guards::Guards;
use handle::{Event, ReplicaHandle, Shared};
use identity::Identity;
use metrics::NodeMetrics;
use open::NotOpened;
use readers::Readers;
use reload::{Reload, Source};
use replica::Replica;
use replica::io::{Input, Serving};
use replica_thread::ReplicaThread;
use sockets::{ClientSockets, Sockets};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use streams::{EncryptedWorkers, StreamWorkers};

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
        crate::memory::give_back();
        let mut node = Node::start(&config, &identity, sockets, replica)?;
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

/// Threads that check signatures of updates.
fn update_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(UPDATE_THREADS_MAX)
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
    /// Cut off when all connections have ended.
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

/// A node that has no state of its own yet knows nobody: it takes the word of the node that it joined through, which
/// its configuration has.
fn vouch_for_members(config: &Config, replica: &mut Replica) {
    if replica.membership().members().next().is_none() {
        for member in threads::members(config) {
            replica.handle(Input::PeerVouched { id: member.id }, system::now());
        }
    }
}

impl Node {
    fn start(config: &Config, identity: &Identity, sockets: Sockets, mut replica: Replica) -> Result<Self, Problem> {
        vouch_for_members(config, &mut replica);
        let (events, event_queue) = channel();
        let handle = ReplicaHandle::new(events, Shared::with_hints(hints_of(&config.peer.also_at)));
        let (desk, desk_queues) = Desk::new(update_threads());
        let (service, readers) = (Arc::new(service(config, &desk)), Arc::<Readers>::default());
        let (serving, limits) = <(Arc<ServingState>, Arc<ZoneLimits>)>::default();
        let (mut counters, stop_workers) = (Counters::default(), Stop::default());
        let reader = || (readers.add(replica.zone_reader()), ServingReader::new(serving.clone(), limits.clone()));
        let clients = ClientSecrets::new(&identity.data_keys.keys);
        let (count, guards) = (sockets::worker_count(config), Guards::new(config, &clients)?);
        let transfers = threads::updates(config, &service, reader, &guards, &handle, &mut counters, desk_queues)?;
        let ((api_reader, _), tls) = (reader(), public_tls(config, &clients, &counters)?);
        let worker = |transport| {
            let (counters, listen) = counters.worker(transport);
            let (service, (zones, serving)) = (service.clone(), reader());
            let responder = QueryResponder::new(service, zones, serving, counters, guards.cookies());
            Worker { responder: guards.limited(responder, transport, count), listen }
        };
        let (udp, streams) = workers(count, tls.is_some(), worker);
        let (disks, audit, writers) = threads::writers(config, &handle, &counters)?;
        threads::scrub(config, identity, &counters.scrub, &stop_workers)?;
        let peers = threads::peers(config, identity, (sockets.peer, sockets.generation), &handle, &counters)?;
        let thread = ReplicaThread {
            replica,
            audit,
            shared: handle.shared.clone(),
            links: peers.1,
            disks,
            desk: desk.clone(),
            serving: serving.clone(),
            readers,
            expiry: ExpiryClock::new(limits.clone()),
            stop_workers: stop_workers.clone(),
            ending: Ending::new(config.id, &config.dir),
            counters: counters.replica.clone(),
            asking: Default::default(),
            clock_watch: Default::default(),
            zones_changed: Some(Instant::now()),
            zones_taken: 0,
            checkpoints_written: 0,
            put_off: Default::default(),
            audited_through: None,
            is_over: false,
        };
        let (connections, drops) = (counters.connections.clone(), counters.drops.clone());
        let reload = reload_of(config, &guards, &service, &counters, tls.as_ref());
        let metrics = counters.into_metrics(desk, transfers);
        let api = api_of(config, identity, &handle, (&serving, limits), metrics, api_reader);
        let keepers = threads::keepers(config, identity, clients, &handle);
        let api = threads::api((sockets.api, sockets.api_local), api, keepers)?;
        Ok(Self {
            config: config.clone(),
            serving,
            udp,
            streams,
            tls,
            cookies: guards.secrets,
            reload,
            connections,
            drops,
            streams_ended: None,
            started_at: Instant::now(),
            handle,
            stop_workers,
            replica_ended: threads::replica(thread, event_queue)?,
            writers,
            runtimes: peers.0.into_iter().chain([api]).collect(),
        })
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

/// The parts of the node that a reload can change.
fn reload_of(
    config: &Config,
    guards: &Guards,
    service: &Service,
    counters: &Counters,
    tls: Option<&Arc<PublicTls>>,
) -> Reload {
    Reload {
        config: config.clone(),
        rate_limit: guards.rate_limit.clone(),
        connections: service.connections.clone(),
        audit: counters.audit.clone(),
        certificate: tls.map(|tls| tls.certificate.clone()),
        cookies: guards.secrets.clone(),
    }
}

/// What answers over HTTP.
fn api_of(
    config: &Config,
    identity: &Identity,
    handle: &ReplicaHandle,
    (serving, limits): (&Arc<ServingState>, Arc<ZoneLimits>),
    metrics: NodeMetrics,
    zones: readers::Zones,
) -> Api {
    Api {
        node: u64::from(config.id),
        started_at: Instant::now(),
        has_dns: config.answers_queries(),
        token: identity.token.clone(),
        uid: system::effective_user(),
        hosts: Hosts::new(config.api.listen.ip(), &config.api.hosts),
        handle: handle.clone(),
        serving: serving.clone(),
        limits,
        metrics,
        zones: Mutex::new(zones),
        backups: Backups::new(&config.dir),
        at_places: tokio::sync::Semaphore::new(AT_WAITING_MAX),
        join: threads::join_offer(config, identity),
        peer_check: Some(threads::peer_check(config, identity, handle)),
        audit: audit_of(&config.dir),
        data_key_file: config.data_key(),
    }
}

/// So many workers for datagrams, and for connections.
fn workers(
    count: usize,
    is_encrypted: bool,
    mut worker: impl FnMut(Transport) -> Worker,
) -> (Vec<Worker>, Vec<StreamWorkers>) {
    let udp = (0..count).map(|_| worker(Transport::Udp)).collect();
    let mut streams = |_| StreamWorkers {
        tcp: worker(Transport::Tcp),
        encrypted: is_encrypted.then(|| EncryptedWorkers {
            dot: worker(Transport::Dot),
            doh: worker(Transport::Doh),
            doq: worker(Transport::Doq),
        }),
    };
    (udp, (0..count).map(&mut streams).collect())
}

/// What clients of the encrypted transports agree on with the node, if there are any.
fn public_tls(
    config: &Config,
    clients: &Arc<ClientSecrets>,
    counters: &Counters,
) -> Result<Option<Arc<PublicTls>>, Problem> {
    let Some(tls) = config.dns.tls.as_ref().filter(|tls| tls.is_open()) else { return Ok(None) };
    let idle = Duration::from_millis(config.dns.tcp.idle_ms);
    let loaded = PublicTls::load(tls, clients, idle, counters.certificate.clone());
    loaded.map(|tls| Some(Arc::new(tls))).map_err(|error| {
        Problem::new(Exit::Input, "cannot use the certificate for clients", error)
            .at(tls.cert_file.display())
            .hint("name PEM files with `cert_file` and `key_file` in [dns.tls], or take the table out")
    })
}

/// What all workers share.
fn service(config: &Config, desk: &Desk) -> Service {
    let connections = ConnectionLimits::new(&config.dns.tcp, &config.dns.rate_limit.exempt);
    Service { options: answer_options(config), desk: desk.clone(), connections }
}

fn answer_options(config: &Config) -> AnswerOptions {
    let octets = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    AnswerOptions {
        udp_payload: config.dns.udp_payload,
        nsid: octets(&config.dns.nsid),
        chaos_id: octets(&config.dns.chaos_id),
        chaos_version: octets(&config.dns.chaos_version),
    }
}
