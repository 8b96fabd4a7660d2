//! A running node.

use super::reload::Reload;
use super::streams::{self, StreamWorkers};
use super::threads;
use super::worker::Worker;
use crate::answer::cookies::SecretSource;
use crate::listen::client_sockets::ClientSockets;
use crate::listen::counters::AllConnections;
use crate::listen::drops::SocketDrops;
use crate::published::serving::ServingState;
use crate::replica_host::event::Event;
use crate::replica_host::handle::ReplicaHandle;
use crate::tls::public::PublicTls;
use config::Config;
use config::tls::Tls;
use process::problem::Problem;
use process::stop::Stop;
use replica::io::{Input, Serving};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time after which a node that does not serve yet starts to answer with SERVFAIL.
const LISTEN_AFTER_MS: u64 = 1_000;
/// Time limit of a stopping node for the leader transfer and the disk.
const STOP_MS: u64 = 4_000;

/// A running node.
pub(super) struct Node {
    pub(super) config: Config,
    pub(super) serving: Arc<ServingState>,
    /// The UDP workers; empty once they are started.
    pub(super) udp: Vec<Worker>,
    pub(super) streams: Vec<StreamWorkers>,
    pub(super) tls: Option<Arc<PublicTls>>,
    pub(super) cookies: SecretSource,
    pub(super) reload: Reload,
    pub(super) connections: AllConnections,
    pub(super) drops: Arc<SocketDrops>,
    /// Disconnected when all connections have ended.
    pub(super) streams_ended: Option<Receiver<()>>,
    pub(super) started_at: Instant,
    pub(super) handle: ReplicaHandle,
    pub(super) stop_workers: Stop,
    pub(super) replica_ended: Receiver<()>,
    pub(super) writers: Vec<JoinHandle<()>>,
    /// Connections between nodes, and the API.
    pub(super) runtimes: Vec<tokio::runtime::Runtime>,
}

impl Node {
    /// Waits until the node may serve, up to a time limit. Returns false if the node is stopped or was removed.
    pub(super) fn wait_until_serving(&self, stop: &Stop) -> bool {
        let deadline = Instant::now() + Duration::from_millis(LISTEN_AFTER_MS);
        while self.serving.get() == Serving::No && Instant::now() < deadline {
            if stop.wait(Duration::from_millis(2)) || self.handle.shared.removal.is_removed() {
                return false;
            }
        }
        true
    }

    /// Starts to answer clients.
    pub(super) fn listen(&mut self) -> Result<(), Problem> {
        if !self.config.answers_queries() {
            let (api, peer) = (self.config.api.listen, self.config.peer.listen);
            tracing::info!(
                %api, %peer,
                "no address for DNS is configured: this node votes and stores data, and answers no queries"
            );
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
        self.log_addresses();
        Ok(())
    }

    fn log_addresses(&self) {
        let list = |addresses: &[SocketAddr]| {
            let texts: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
            (!texts.is_empty()).then(|| texts.join(" "))
        };
        let Config { dns, api, peer, .. } = &self.config;
        let encrypted = |of: fn(&Tls) -> &[SocketAddr]| dns.tls.as_ref().and_then(|tls| list(of(tls)));
        tracing::info!(
            dns = list(&dns.listen),
            dot = encrypted(|tls| &tls.dot),
            doh = encrypted(|tls| &tls.doh),
            doq = encrypted(|tls| &tls.doq),
            api = %api.listen,
            peer = %peer.listen,
            "answering queries"
        );
    }

    /// Transfers the leadership, waits for the disk, and ends all threads.
    pub(super) fn stop(self) -> Result<(), Problem> {
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
