//! Starts the threads of a node.

use super::client_protection::ClientProtection;
use super::counters::Counters;
use super::worker::Worker;
use crate::answer::context::Service;
use crate::answer::cookies::file::SharedSecrets;
use crate::api::join_offer::JoinOffer;
use crate::api::state::Api;
use crate::audit_log::{self, AuditBarrier, AuditQueue};
use crate::limits::{DATAGRAM_BYTES_MAX, ZONES_HELD_SHARE};
use crate::listen::batch::BatchSocket;
use crate::listen::udp::UdpWorker;
use crate::peer::accept::Acceptor;
use crate::peer::admission::Admission;
use crate::peer::announce::{Announcer, PeerCheck};
use crate::peer::data_keys::DataKeyHandler;
use crate::peer::frame::Welcome;
use crate::peer::join::JoinHandler;
use crate::peer::links::Links;
use crate::peer::supersede::{SupersededNode, Superseder};
use crate::peer::{ChannelRuntimes, PeerEvents};
use crate::published::readers::Zones;
use crate::published::serving::ServingReader;
use crate::replica_host::disk::{DiskDone, DiskWork, Writer};
use crate::replica_host::event::Event;
use crate::replica_host::handle::ReplicaHandle;
use crate::replica_host::identity::Identity;
use crate::replica_host::idle::IdleThread;
use crate::replica_host::members_file::MembersKeeper;
use crate::replica_host::peer_links::PeerLinks;
use crate::replica_host::replica_thread::{DiskQueues, ReplicaThread};
use crate::replica_host::scrub::{Scrub, ScrubCounters};
use crate::replica_host::{background, generation};
use crate::sys::priority::{API_NICE_STEP, PACKET_NICE_STEP, STRANGER_NICE_STEP, give_way};
use crate::threads::{runtime_failed, spawn};
use crate::tls::client_secrets::ClientSecrets;
use crate::tls::public::PublicTls;
use crate::transfer::{Transfers, start_transfers};
use crate::trust::cert_manager::CertManager;
use crate::trust::data_keys::DataKeyManager;
use crate::update::UpdateThread;
use crate::update::external::ExternalClient;
use crate::update_queue::Work;
use config::Config;
use config::files::layout::{audit_of, peer_address_of};
use process::log::abort_on_panic;
use process::problem::Problem;
use process::stop::Stop;
use replica::disk::DiskQueue;
use replica::io::{Input, Member, Membership};
use std::fs::File;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Starts the threads that write to the disk.
pub(super) fn writers(
    config: &Config,
    handle: &ReplicaHandle,
    counters: &Counters,
) -> Result<(DiskQueues, AuditQueue, Vec<JoinHandle<()>>), Problem> {
    let (audit, writer) = audit(config, counters)?;
    handle.shared.refusals.connect(audit.refusals());
    let (disks, mut writers) = disks(config, handle, counters, audit.barrier())?;
    writers.push(writer);
    Ok((disks, audit, writers))
}

/// Starts the thread that searches the disk for damage, unless the configuration disables it.
pub(super) fn scrub(
    config: &Config,
    identity: &Identity,
    counters: &Arc<ScrubCounters>,
    stop: &Stop,
) -> Result<(), Problem> {
    if config.log.scrub_interval_s == 0 {
        return Ok(());
    }
    let interval = Duration::from_secs(config.log.scrub_interval_s);
    let (dir, counters, stop) = (config.dir.clone(), counters.clone(), stop.clone());
    let scrub = Scrub { dir, interval, seed: identity.seed, counters, stop };
    spawn("scrub".to_owned(), move || scrub.run()).map(|_| ())
}

/// Starts the thread that writes the audit log.
fn audit(config: &Config, counters: &Counters) -> Result<(AuditQueue, JoinHandle<()>), Problem> {
    let path = audit_of(&config.dir);
    let (counters, bytes_max) = (counters.audit.clone(), config.audit.bytes_max);
    let (queue, work) = AuditQueue::new(audit_log::last_index(&path), counters.clone());
    let writer = spawn("audit".to_owned(), move || audit_log::run(&path, bytes_max, &work, &counters))?;
    Ok((queue, writer))
}

pub(super) fn updates(
    config: &Config,
    service: &Arc<Service>,
    reader: impl Fn() -> (Zones, ServingReader),
    protection: &ClientProtection,
    handle: &ReplicaHandle,
    counters: &mut Counters,
    queues: Vec<Receiver<Work>>,
) -> Result<Arc<Transfers>, Problem> {
    let transfer = config.dns.transfer.within(config.zones.memory_bytes() / ZONES_HELD_SHARE);
    let transfers = Arc::new(Transfers::new(transfer, handle.shared.zone_memory.clone()));
    let listen = counters.thread();
    let (external, workers) = ExternalClient::new(&service.update_queue, &counters.external, &listen);
    for (index, worker) in workers.into_iter().enumerate() {
        let work = move || {
            give_way(PACKET_NICE_STEP);
            worker();
        };
        spawn(format!("external-{index}"), work)?;
    }
    let (transfer_queue, queued_transfers) = channel();
    let start_transfers = move || {
        give_way(PACKET_NICE_STEP);
        start_transfers(&queued_transfers);
    };
    spawn("transfers".to_owned(), start_transfers)?;
    let threads = queues.len();
    for (index, queue) in queues.into_iter().enumerate() {
        let (of_transports, listen) = counters.update_thread();
        let (zones, serving) = reader();
        let thread = UpdateThread {
            index: index as u64,
            threads: threads as u64,
            service: service.clone(),
            zones,
            serving,
            counters: of_transports,
            listen,
            submit: Arc::new(handle.clone()),
            external: external.clone(),
            transfers: transfers.clone(),
            transfer_queue: transfer_queue.clone(),
            out: vec![0; DATAGRAM_BYTES_MAX],
            pending: Default::default(),
            cookies: Some(protection.cookies()),
            rate_limit: protection.rate_limit_of(threads),
            started_at: Instant::now(),
        };
        let work = move || {
            // A flood of updates must not delay queries.
            give_way(PACKET_NICE_STEP);
            thread.run(&queue);
        };
        spawn(format!("update-{index}"), work)?;
    }
    Ok(transfers)
}

pub(super) fn udp(sockets: Vec<Vec<BatchSocket>>, workers: Vec<Worker>, stop: &Stop) -> Result<(), Problem> {
    for (index, (sockets, Worker { responder, listen })) in sockets.into_iter().zip(workers).enumerate() {
        let (worker, stop) = (UdpWorker::new(sockets, responder, listen), stop.clone());
        let work = move || {
            give_way(PACKET_NICE_STEP);
            worker.run(&stop);
        };
        spawn(format!("udp-{index}"), work)?;
    }
    Ok(())
}

/// Starts the thread that detects that the machine was reset to a snapshot.
fn watch_generation(socket: Option<File>, handle: &ReplicaHandle) -> Result<(), Problem> {
    let Some(socket) = socket else { return Ok(()) };
    let handle = handle.clone();
    spawn("generation".into(), move || generation::run(socket, &handle)).map(|_| ())
}

/// Starts the thread that reloads the certificate for clients.
pub(super) fn certificate(tls: &Arc<PublicTls>, stop: &Stop) -> Result<(), Problem> {
    let (certificate, stop) = (tls.certificate.clone(), stop.clone());
    spawn("certificate".into(), move || certificate.watch(&stop)).map(|_| ())
}

pub(super) fn cookie_secrets(secrets: &Arc<SharedSecrets>, stop: &Stop) -> Result<(), Problem> {
    let (secrets, stop) = (secrets.clone(), stop.clone());
    spawn("cookie-secrets".into(), move || secrets.watch(&stop)).map(|_| ())
}

fn disks(
    config: &Config,
    handle: &ReplicaHandle,
    counters: &Counters,
    audit: AuditBarrier,
) -> Result<(DiskQueues, Vec<JoinHandle<()>>), Problem> {
    let mut writers = Vec::new();
    let mut start = |name: &str, nice_step: i32, writer: Writer| -> Result<Sender<DiskWork>, Problem> {
        let (sender, queue) = channel();
        let handle = handle.clone();
        let done = move |done| {
            match done {
                // A client may wait for this, and the log takes no other job until it is done.
                DiskDone::Persisted(queue @ DiskQueue::Log, ticket) => {
                    handle.run_inline(Event::Input(Input::Persisted { queue, ticket }))
                }
                DiskDone::Persisted(queue, ticket) => handle.send(Event::Input(Input::Persisted { queue, ticket })),
                DiskDone::Full(queue) => handle.send(Event::Input(Input::DiskFull { queue })),
                DiskDone::Room(queue) => handle.send(Event::Input(Input::DiskRoom { queue })),
                DiskDone::Read(ticket, bytes) => handle.send(Event::Input(Input::FileRead { ticket, bytes })),
            };
        };
        let work = move || {
            give_way(nice_step);
            writer.run(&queue, done);
        };
        writers.push(spawn(name.to_owned(), work)?);
        Ok(sender)
    };
    let log = start("log", 0, Writer::of_log(&config.dir, counters.log_fsync.clone()))?;
    let bulk = Writer::of_checkpoints(&config.dir, counters.bulk_sync.clone(), audit);
    // These are less urgent than responses, but a spare log segment must be ready in time.
    let bulk = start("bulk", PACKET_NICE_STEP, bulk)?;
    let reads = start("reads", PACKET_NICE_STEP, Writer::new(&config.dir, counters.bulk_sync.clone()))?;
    let (background, messages) = channel();
    let (handle, workers) = (handle.clone(), counters.workers.concat());
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    // This thread is not joined at shutdown: on busy cores that would take long.
    let idle = IdleThread::start()?;
    let notify = move || {
        handle.send(Event::Input(Input::Idle));
    };
    spawn("background".into(), move || background::run(&messages, idle, &workers, cores, notify))?;
    Ok((DiskQueues { log, bulk, reads, background }, writers))
}

pub(super) fn peers(
    config: &Config,
    identity: &Identity,
    (listener, generation): (std::net::TcpListener, Option<File>),
    handle: &ReplicaHandle,
    counters: &Counters,
) -> Result<([Runtime; 3], Box<dyn PeerLinks>), Problem> {
    watch_generation(generation, handle)?;
    let start = |name, nice_step| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).thread_name(name).on_thread_start(move || give_way(nice_step));
        builder.enable_all().build().map_err(runtime_failed)
    };
    let started = [start("peers", 0)?, start("peers-bulk", 0)?, start("peers-strangers", STRANGER_NICE_STEP)?];
    let [quick, bulk, strangers] = started.each_ref().map(|runtime| runtime.handle().clone());
    let runtimes = ChannelRuntimes { quick: quick.clone(), bulk, strangers };
    let (own, events) = (config.raft_id(), Arc::new(handle.clone()));
    let admission = admission(config, handle);
    let welcome = Welcome { id: own, boot_id: identity.boot_id };
    let join = JoinHandler {
        handle: handle.clone(),
        ca_cert: config.peer.ca_file.clone(),
        cluster_id: identity.cluster_id,
        data_key_file: config.data_key(),
        api_token: identity.token.clone(),
        node: SupersededNode { id: config.id, data: config.dir.clone() },
    };
    let keys =
        DataKeyHandler { handle: handle.clone(), data_key_file: config.data_key(), data_dir: config.dir.clone() };
    let (tls, counters) = (&identity.tls, &counters.peer);
    let acceptor = Acceptor::new(
        tls.clone(),
        welcome,
        events.clone(),
        counters.clone(),
        admission.clone(),
        Some((join, keys)),
        runtimes.clone(),
    );
    let entered = quick.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(runtime_failed)?;
    drop(entered);
    quick.spawn(abort_on_panic("accept peers", acceptor.run(listener)));
    let advertised = config.advertised().map(|address| address.to_string()).unwrap_or_default();
    if let Some(superseder) = Superseder::load(&config.dir, advertised) {
        quick.spawn(abort_on_panic("supersede", superseder.run()));
    }
    let mut links = Links::new(own, identity.boot_id, tls.clone(), admission, runtimes, events, counters.clone());
    links.set_members(&members(config), &Membership::default());
    Ok((started, Box::new(links)))
}

pub(super) fn join_offer(config: &Config, identity: &Identity) -> JoinOffer {
    JoinOffer {
        member: config.raft_id(),
        address: config.advertised(),
        ca_file: config.peer.ca_file.clone(),
        tls: Some(identity.tls.clone()),
    }
}

pub(super) fn peer_check(config: &Config, identity: &Identity, handle: &ReplicaHandle) -> PeerCheck {
    PeerCheck { tls: identity.tls.clone(), admission: admission(config, handle) }
}

/// The check whether a peer is a member.
fn admission(config: &Config, handle: &ReplicaHandle) -> Admission {
    Admission::new(handle.membership(), handle.trust(), members(config), handle.shared().hints.clone())
}

/// The members in the configuration.
pub(super) fn members(config: &Config) -> Vec<Member> {
    config.peer.members.iter().map(|member| Member { id: member.id, address: member.address.to_string() }).collect()
}

pub(super) fn replica(
    thread: ReplicaThread,
    events: Receiver<Event>,
    handle: &ReplicaHandle,
) -> Result<Receiver<()>, Problem> {
    let (ended, replica_ended) = channel();
    let combiner = handle.combiner.clone();
    let work = move || {
        // Dropped when the thread ends, even by a panic.
        let _ended: Sender<()> = ended.clone();
        thread.run(&events, &combiner);
        let _ = ended.send(());
    };
    spawn("replica".into(), work)?;
    Ok(replica_ended)
}

/// The task that renews the certificate of this node and maintains the accepted CAs.
fn cert_manager(
    config: &Config,
    identity: &Identity,
    clients: Arc<ClientSecrets>,
    handle: &ReplicaHandle,
) -> CertManager {
    let (files, tls) = (identity.peer_files.clone(), identity.tls.clone());
    let local = config.dns.tls.as_ref().map(|tls| (tls.cert_file.clone(), tls.key_file.clone()));
    let (own, admission) = (config.raft_id(), admission(config, handle));
    let keys = DataKeyManager::new(own, config.data_key(), identity.data_keys.keys.clone(), clients, admission);
    CertManager::new(config.raft_id(), files, local, tls, keys, handle.clone())
}

/// Background tasks of the API's runtime.
pub(super) fn background_tasks(
    config: &Config,
    identity: &Identity,
    clients: Arc<ClientSecrets>,
    handle: &ReplicaHandle,
) -> (CertManager, Option<Announcer>, MembersKeeper) {
    let members = MembersKeeper::new(&config.dir, handle.shared().trust.subscribe());
    (cert_manager(config, identity, clients, handle), announcer(config, identity, handle), members)
}

/// Makes the task that announces this node's address, if the configuration has one.
fn announcer(config: &Config, identity: &Identity, handle: &ReplicaHandle) -> Option<Announcer> {
    let (own, tls, admission) = (config.raft_id(), identity.tls.clone(), admission(config, handle));
    let (handle, announced_file) = (handle.clone(), peer_address_of(&config.dir));
    config.advertised().map(|address| Announcer { own, address, tls, admission, handle, announced_file })
}

/// The certificate manager runs here too, so that its fsyncs do not delay heartbeats.
pub(super) fn api(
    (tcp, local): (std::net::TcpListener, Option<std::os::unix::net::UnixListener>),
    api: Api,
    (cert_manager, announcer, members): (CertManager, Option<Announcer>, MembersKeeper),
) -> Result<Runtime, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("api")
        .on_thread_start(|| give_way(API_NICE_STEP))
        .enable_all()
        .build()
        .map_err(runtime_failed)?;
    let entered = runtime.enter();
    let tcp = tokio::net::TcpListener::from_std(tcp).map_err(runtime_failed)?;
    let local = local.map(tokio::net::UnixListener::from_std).transpose().map_err(runtime_failed)?;
    drop(entered);
    runtime.spawn(abort_on_panic("certificate manager", cert_manager.run()));
    runtime.spawn(abort_on_panic("members keeper", members.run()));
    announcer.map(|announcer| runtime.spawn(abort_on_panic("announcer", announcer.run())));
    runtime.spawn(abort_on_panic("api", crate::api::serve(tcp, local, Arc::new(api))));
    Ok(runtime)
}
