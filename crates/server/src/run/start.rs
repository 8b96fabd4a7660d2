//! Starts a node: creates the state that its threads share, and starts all threads except those for clients.

use super::client_protection::ClientProtection;
use super::counters::Counters;
use super::node::Node;
use super::reload::Reload;
use super::sockets::Sockets;
use super::streams::{EncryptedWorkers, StreamWorkers};
use super::threads;
use super::worker::Worker;
use crate::answer::QueryResponder;
use crate::answer::context::{AnswerOptions, Service};
use crate::api::backups::Backups;
use crate::api::host_names::Hosts;
use crate::api::metrics::NodeMetrics;
use crate::api::state::Api;
use crate::limits::{AT_WAITING_MAX, UPDATE_THREADS_MAX};
use crate::listen::handler::ConnectionLimits;
use crate::listen::{Transport, client_sockets};
use crate::peer::announce::hints_of;
use crate::published::readers::{Readers, Zones};
use crate::published::serving::{ServingReader, ServingState, ZoneLimits};
use crate::replica_host::expiry::ExpiryClock;
use crate::replica_host::fatal::FatalExit;
use crate::replica_host::handle::ReplicaHandle;
use crate::replica_host::identity::Identity;
use crate::replica_host::replica_thread::ReplicaThread;
use crate::replica_host::shared::Shared;
use crate::sys::clock;
use crate::tls::client_secrets::ClientSecrets;
use crate::tls::public::PublicTls;
use crate::update_queue::UpdateQueue;
use config::Config;
use config::files::layout::audit_of;
use process::problem::{Exit, Problem};
use process::stop::Stop;
use replica::Replica;
use replica::io::Input;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Starts a node. It does not listen to clients yet.
pub(super) fn start(config: &Config, identity: &Identity, sockets: Sockets, replica: Replica) -> Result<Node, Problem> {
    let replica = confirm_members(config, replica);
    let (events, event_queue) = channel();
    let handle = ReplicaHandle::new(events, Shared::with_hints(hints_of(config)));
    let (update_queue, update_receivers) = UpdateQueue::new(update_threads());
    let (service, readers) = (Arc::new(service(config, &update_queue)), Arc::<Readers>::default());
    let (serving, limits) = <(Arc<ServingState>, Arc<ZoneLimits>)>::default();
    let (mut counters, stop_workers) = (Counters::default(), Stop::default());
    let reader = || (readers.add(replica.zone_reader()), ServingReader::new(serving.clone(), limits.clone()));
    let clients = ClientSecrets::new(&identity.data_keys.keys);
    let (count, protection) = (client_sockets::worker_count(config), ClientProtection::new(config, &clients)?);
    let transfers = threads::updates(config, &service, reader, &protection, &handle, &mut counters, update_receivers)?;
    let ((api_reader, _), tls) = (reader(), public_tls(config, &clients, &counters)?);
    let worker = |transport| {
        let (counters, listen) = counters.worker(transport);
        let (service, (zones, serving)) = (service.clone(), reader());
        let responder = QueryResponder::new(service, zones, serving, counters, protection.cookies());
        Worker { responder: protection.limited(responder, transport, count), listen }
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
        update_queue: update_queue.clone(),
        serving: serving.clone(),
        readers,
        expiry: ExpiryClock::new(limits.clone()),
        stop_workers: stop_workers.clone(),
        fatal_exit: FatalExit::new(config.id, &config.dir),
        counters: counters.replica.clone(),
        pending: Default::default(),
        clock_watch: Default::default(),
        zones_changed: Some(Instant::now()),
        zones_taken: 0,
        checkpoints_written: 0,
        deferred: Default::default(),
        audited_through: None,
        is_over: false,
    };
    let (connections, drops) = (counters.connections.clone(), counters.drops.clone());
    let reload = reload_of(config, &protection, &service, &counters, tls.as_ref());
    let metrics = counters.into_metrics(update_queue, transfers);
    let api = api_of(config, identity, &handle, (&serving, limits), metrics, api_reader);
    let tasks = threads::background_tasks(config, identity, clients, &handle);
    let api = threads::api((sockets.api, sockets.api_local), api, tasks)?;
    Ok(Node {
        config: config.clone(),
        serving,
        udp,
        streams,
        tls,
        cookies: protection.secrets,
        reload,
        connections,
        drops,
        streams_ended: None,
        started_at: Instant::now(),
        replica_ended: threads::replica(thread, event_queue, &handle)?,
        handle,
        stop_workers,
        writers,
        runtimes: peers.0.into_iter().chain([api]).collect(),
    })
}

/// A node without state trusts the members in its configuration. It got them when it joined.
fn confirm_members(config: &Config, mut replica: Replica) -> Replica {
    if replica.membership().members().next().is_none() {
        for member in threads::members(config) {
            replica.handle(Input::PeerConfirmed { id: member.id }, clock::now());
        }
    }
    replica
}

/// Number of threads that check signatures of updates.
fn update_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(UPDATE_THREADS_MAX)
}

/// The parts of the node that a reload can change.
fn reload_of(
    config: &Config,
    protection: &ClientProtection,
    service: &Service,
    counters: &Counters,
    tls: Option<&Arc<PublicTls>>,
) -> Reload {
    Reload {
        config: config.clone(),
        rate_limit: protection.rate_limit.clone(),
        connections: service.connections.clone(),
        audit: counters.audit.clone(),
        certificate: tls.map(|tls| tls.certificate.clone()),
        cookies: protection.secrets.clone(),
    }
}

/// The HTTP API.
fn api_of(
    config: &Config,
    identity: &Identity,
    handle: &ReplicaHandle,
    (serving, limits): (&Arc<ServingState>, Arc<ZoneLimits>),
    metrics: NodeMetrics,
    zones: Zones,
) -> Api {
    Api {
        node: u64::from(config.id),
        started_at: Instant::now(),
        has_dns: config.answers_queries(),
        token: identity.token.clone(),
        uid: process::user::effective_user(),
        hosts: Hosts::new(config.api.listen.ip(), &config.api.hosts),
        handle: handle.clone(),
        serving: serving.clone(),
        limits,
        metrics,
        zones: Mutex::new(zones),
        backups: Backups::new(&config.dir),
        serial_wait_permits: tokio::sync::Semaphore::new(AT_WAITING_MAX),
        join: threads::join_offer(config, identity),
        peer_check: Some(threads::peer_check(config, identity, handle)),
        audit: audit_of(&config.dir),
        data_key_file: config.data_key(),
    }
}

/// Workers for UDP and for connections.
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

/// The TLS configuration for clients, if an encrypted transport is configured.
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
            .hint("set `cert_file` and `key_file` in [dns.tls] to PEM files, or remove the table")
    })
}

/// State shared by all workers.
fn service(config: &Config, update_queue: &UpdateQueue) -> Service {
    let connections = ConnectionLimits::new(&config.dns.tcp, &config.dns.rate_limit.exempt);
    Service { options: answer_options(config), update_queue: update_queue.clone(), connections }
}

fn answer_options(config: &Config) -> AnswerOptions {
    let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    AnswerOptions {
        udp_payload: config.dns.udp_payload,
        nsid: bytes(&config.dns.nsid),
        chaos_id: bytes(&config.dns.chaos_id),
        chaos_version: bytes(&config.dns.chaos_version),
    }
}
