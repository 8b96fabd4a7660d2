//! All of the node's metrics on one page.

use super::handle::Shared;
use super::replica_thread::ReplicaCounters;
use crate::listen::ListenCounters;
use crate::metrics::DurationHistogram;
use crate::metrics::text::{Kind, Page};
use crate::peer::PeerCounters;
use crate::service::counters::{self, TransportCounters};
use crate::service::deferred::Desk;
use replica::Status;
use replica::io::{Role, Serving};
use std::sync::Arc;

/// Everything that counts.
pub(crate) struct NodeMetrics {
    pub(crate) transports: Vec<TransportCounters>,
    pub(crate) listen: Vec<Arc<ListenCounters>>,
    pub(crate) peer: Arc<PeerCounters>,
    pub(crate) replica: Arc<ReplicaCounters>,
    pub(crate) log_sync: Arc<DurationHistogram>,
    pub(crate) bulk_sync: Arc<DurationHistogram>,
    pub(crate) desk: Desk,
}

impl NodeMetrics {
    /// The page as it is now.
    pub(crate) fn page(&self, status: &Status, shared: &Shared, serving: Serving, zone_count: usize) -> String {
        let mut page = Page::default();
        counters::write(&mut page, &self.transports);
        self.listeners(&mut page);
        self.raft(&mut page, status);
        page.single("catamaran_zones", Kind::Gauge, "Zones that are served.", zone_count);
        let serving = match serving {
            Serving::No => 0,
            Serving::Stale => 1,
            Serving::Yes => 2,
        };
        page.single("catamaran_serving", Kind::Gauge, "0: not yet, 1: stale, 2: yes.", serving);
        self.queues(&mut page, shared);
        page.histogram("catamaran_log_sync_seconds", "Time of one sync of the log.", &self.log_sync);
        page.histogram("catamaran_bulk_sync_seconds", "Time of one sync of a checkpoint.", &self.bulk_sync);
        page.histogram(
            "catamaran_replica_round_seconds",
            "Time of one round of the replica.",
            &self.replica.round_time,
        );
        page.finish()
    }

    fn listeners(&self, page: &mut Page) {
        let sum = |counter: fn(&ListenCounters) -> u64| self.listen.iter().map(|of| counter(of)).sum::<u64>();
        let mut single = |name, help, counter| page.single(name, Kind::Counter, help, sum(counter));
        single("catamaran_udp_not_sent_total", "Responses that the kernel did not take.", |of| of.udp_not_sent.get());
        single("catamaran_panics_total", "Panics that were caught; each is a bug.", |of| of.panics.get());
        single("catamaran_tcp_accepted_total", "Connections accepted.", |of| of.tcp_accepted.get());
        single("catamaran_tcp_over_limit_total", "Connections refused because of a limit.", |of| {
            of.tcp_over_limit.get()
        });
        single("catamaran_tcp_idle_total", "Connections closed for silence.", |of| of.tcp_idle.get());
        single("catamaran_tcp_slow_reader_total", "Connections closed because the client did not read.", |of| {
            of.tcp_slow_reader.get()
        });
        page.single("catamaran_tcp_open", Kind::Gauge, "Connections open now.", sum(|of| of.tcp_open.get()));
    }

    fn raft(&self, page: &mut Page, status: &Status) {
        let gauge = Kind::Gauge;
        page.single("catamaran_raft_term", gauge, "The term.", status.term);
        page.single("catamaran_raft_is_leader", gauge, "1 on the leader.", u8::from(status.role == Role::Leader));
        page.single(
            "catamaran_raft_leader",
            gauge,
            "Number of the leader's node; 0: none known.",
            status.leader.map_or(0, crate::peer::node_number),
        );
        page.single("catamaran_raft_commit_index", gauge, "Newest committed entry.", status.commit_index);
        page.single("catamaran_raft_applied_index", gauge, "Newest applied entry.", status.applied_index);
        let help = "Time since a leader confirmed that nothing newer is committed.";
        page.single("catamaran_staleness_seconds", gauge, help, status.staleness_ms as f64 / 1_000.0);
        let alarms = &status.alarms;
        let mut family = page.family("catamaran_alarms_total", Kind::Counter, "Things that must never happen.");
        family.series(&[("alarm", "entries_misfit")], alarms.entries_misfit);
        family.series(&[("alarm", "evaluations_misfit")], alarms.evaluations_misfit);
        family.series(&[("alarm", "hashes_differ")], alarms.hashes_differ);
        family.series(&[("alarm", "frames_malformed")], alarms.frames_malformed);
        family.series(&[("alarm", "messages_refused")], alarms.messages_refused);
        page.single(
            "catamaran_fenced",
            gauge,
            "1: the state differs from what a majority has.",
            u8::from(status.is_fenced),
        );
        page.single("catamaran_sessions", gauge, "Updates whose repeats are known.", status.session_count);
        page.single("catamaran_checkpoint_index", gauge, "Index of the newest checkpoint.", status.checkpoint_index);
        let counter = Kind::Counter;
        let replica = &status.counters;
        page.single(
            "catamaran_checkpoints_written_total",
            counter,
            "Checkpoints written.",
            replica.checkpoints_written,
        );
        page.single(
            "catamaran_checkpoints_installed_total",
            counter,
            "Checkpoints of a leader installed.",
            replica.checkpoints_installed,
        );
        page.single(
            "catamaran_proposals_dropped_total",
            counter,
            "Batches that raft did not take.",
            replica.proposals_dropped,
        );
        page.single(
            "catamaran_disk_hung_transfers_total",
            counter,
            "Leaderships handed over because the disk hung.",
            replica.disk_hung_transfers,
        );
        page.single(
            "catamaran_raft_role_changes_total",
            counter,
            "Changes of role, term or leader.",
            self.replica.role_changes.get(),
        );
        page.single(
            "catamaran_published_total",
            counter,
            "Times that queries were shown something newer.",
            self.replica.published.get(),
        );
        page.single("catamaran_peer_sent_total", counter, "Frames sent to peers.", self.peer.sent.get());
        page.single(
            "catamaran_peer_dropped_total",
            counter,
            "Frames dropped: lane full or down.",
            self.peer.dropped.get(),
        );
        page.single("catamaran_peer_received_total", counter, "Frames received from peers.", self.peer.received.get());
        page.single(
            "catamaran_peer_refused_total",
            counter,
            "Connections from peers that were refused or broke.",
            self.peer.refused.get(),
        );
        page.single(
            "catamaran_peer_dialled_total",
            counter,
            "Connections to peers that were made.",
            self.peer.dialled.get(),
        );
    }

    fn queues(&self, page: &mut Page, shared: &Shared) {
        let mut family = page.family("catamaran_queue_depth", Kind::Gauge, "What waits, by queue.");
        family.series(&[("queue", "deferred")], self.desk.waiting());
        family.series(&[("queue", "updates")], shared.updates.get());
        family.series(&[("queue", "admin")], shared.admins.get());
        family.series(&[("queue", "replica")], shared.waiting.get());
    }
}
