//! The counters of a node. Each thread has its own, and the metrics page reads all.

use crate::answer::counters::{TransportCounters, UpdateCounters, WorkerCounters};
use crate::api::metrics::NodeMetrics;
use crate::audit_log::AuditCounters;
use crate::listen::Transport;
use crate::listen::counters::{AllConnections, ListenCounters};
use crate::listen::drops::SocketDrops;
use crate::metrics::DurationHistogram;
use crate::peer::PeerCounters;
use crate::replica_host::replica_thread::ReplicaCounters;
use crate::replica_host::scrub::ScrubCounters;
use crate::tls::certificate::CertificateCounters;
use crate::transfer::Transfers;
use crate::update::external::ExternalCounters;
use crate::update_queue::UpdateQueue;
use std::sync::Arc;

/// Counters, shared with the threads that update them and the metrics page.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) listen: Vec<Arc<ListenCounters>>,
    pub(super) workers: [Vec<Arc<WorkerCounters>>; Transport::ALL.len()],
    pub(super) connections: AllConnections,
    pub(super) drops: Arc<SocketDrops>,
    pub(super) certificate: Arc<CertificateCounters>,
    pub(super) peer: Arc<PeerCounters>,
    pub(super) replica: Arc<ReplicaCounters>,
    pub(super) log_fsync: Arc<DurationHistogram>,
    pub(super) bulk_sync: Arc<DurationHistogram>,
    pub(super) audit: Arc<AuditCounters>,
    pub(super) external: Arc<ExternalCounters>,
    pub(super) scrub: Arc<ScrubCounters>,
}

impl Counters {
    /// The counters of one more thread that takes messages of one transport.
    pub(super) fn worker(&mut self, transport: Transport) -> (Arc<WorkerCounters>, Arc<ListenCounters>) {
        let (worker, listen) = (Arc::<WorkerCounters>::default(), Arc::<ListenCounters>::default());
        self.workers[transport as usize].push(worker.clone());
        self.listen.push(listen.clone());
        (worker, listen)
    }

    /// The counters of one more update thread.
    pub(super) fn update_thread(&mut self) -> (UpdateCounters, Arc<ListenCounters>) {
        let counters = UpdateCounters::default();
        for transport in Transport::ALL {
            self.workers[transport as usize].push(counters.of(transport).clone());
        }
        (counters, self.thread())
    }

    /// The panic counter of one more thread.
    pub(super) fn thread(&mut self) -> Arc<ListenCounters> {
        let listen = Arc::<ListenCounters>::default();
        self.listen.push(listen.clone());
        listen
    }

    pub(super) fn into_metrics(self, update_queue: UpdateQueue, transfers: Arc<Transfers>) -> NodeMetrics {
        let transports = Transport::ALL.into_iter().zip(self.workers);
        let transport =
            |(transport, workers): (Transport, _)| TransportCounters { transport: transport.label(), workers };
        NodeMetrics {
            transports: transports.map(transport).collect(),
            connections: self.connections,
            drops: self.drops,
            certificate: self.certificate,
            listen: self.listen,
            peer: self.peer,
            replica: self.replica,
            log_fsync: self.log_fsync,
            bulk_sync: self.bulk_sync,
            audit: self.audit,
            external: self.external,
            scrub: self.scrub,
            update_queue,
            transfers,
        }
    }
}
