//! The metrics of a node, as one page of text.

use crate::answer::counters::{self, TransportCounters};
use crate::audit_log::AuditCounters;
use crate::listen::counters::{AllConnections, ListenCounters};
use crate::listen::drops::SocketDrops;
use crate::metrics::DurationHistogram;
use crate::peer::PeerCounters;
use crate::replica_host::replica_thread::ReplicaCounters;
use crate::replica_host::scrub::ScrubCounters;
use crate::replica_host::shared::Shared;
use crate::tls::certificate::CertificateCounters;
use crate::transfer::Transfers;
use crate::update::external::ExternalCounters;
use crate::update_queue::UpdateQueue;
use metrics_text::{Kind, Page};
use replica::Status;
use replica::io::{Role, Serving};
use replica::update::LimitReached;
use std::sync::Arc;

/// All counters of a node.
pub(crate) struct NodeMetrics {
    pub(crate) transports: Vec<TransportCounters>,
    pub(crate) connections: AllConnections,
    pub(crate) drops: Arc<SocketDrops>,
    pub(crate) certificate: Arc<CertificateCounters>,
    pub(crate) listen: Vec<Arc<ListenCounters>>,
    pub(crate) peer: Arc<PeerCounters>,
    pub(crate) replica: Arc<ReplicaCounters>,
    pub(crate) log_fsync: Arc<DurationHistogram>,
    pub(crate) bulk_sync: Arc<DurationHistogram>,
    pub(crate) audit: Arc<AuditCounters>,
    pub(crate) external: Arc<ExternalCounters>,
    pub(crate) scrub: Arc<ScrubCounters>,
    pub(crate) update_queue: UpdateQueue,
    pub(crate) transfers: Arc<Transfers>,
}

impl NodeMetrics {
    /// Writes the page with the current values.
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
        page.single(
            "catamaran_serving",
            Kind::Gauge,
            "Whether the node serves; 0: not yet, 1: stale data, 2: yes.",
            serving,
        );
        write_sandbox(&mut page);
        shared.zone_memory.write(&mut page);
        self.transfers.write(&mut page);
        self.audit.write(&mut page);
        let help = "Log lines that were lost: their output was full, closed or too slow.";
        page.single("catamaran_log_lines_lost_total", Kind::Counter, help, process::log::lost_lines());
        self.external.write(&mut page);
        self.scrub.write(&mut page);
        self.queues(&mut page, shared);
        let (name, help) = ("catamaran_log_fsync_duration_seconds", "Duration of an fsync of the log.");
        self.log_fsync.write(&mut page, name, help);
        let (name, help) = ("catamaran_checkpoint_fsync_duration_seconds", "Time of one sync of a checkpoint.");
        self.bulk_sync.write(&mut page, name, help);
        let (name, help) = ("catamaran_replica_round_duration_seconds", "Time of one round of the replica.");
        self.replica.round_time.write(&mut page, name, help);
        page.finish()
    }

    fn listeners(&self, page: &mut Page) {
        let sum = |counter: fn(&ListenCounters) -> u64| self.listen.iter().map(|of| counter(of)).sum::<u64>();
        counters(
            page,
            &[
                ("udp_not_sent", "Responses that the kernel refused to send.", sum(|of| of.udp_not_sent.get())),
                ("panics", "Panics that were caught; each is a bug.", sum(|of| of.panics.get())),
            ],
        );
        self.drops.write(page);
        self.connections.write(page);
        let help = "Reads of the certificate for clients, by result.";
        let mut family = page.family("catamaran_certificate_loads_total", Kind::Counter, help);
        family.series(&[("result", "taken")], self.certificate.loaded.get());
        family.series(&[("result", "refused")], self.certificate.refused.get());
        let help = "Expiry of the certificate for clients, in seconds since 1970; +Inf if there is none.";
        let expires_s =
            self.certificate.expires_s().map_or_else(|| "+Inf".to_owned(), |expires_s| expires_s.to_string());
        page.single("catamaran_client_certificate_expiry_timestamp_seconds", Kind::Gauge, help, expires_s);
    }

    fn raft(&self, page: &mut Page, status: &Status) {
        let leader = status.leader.map_or(0, crate::tls::names::node_number);
        gauges(
            page,
            &[
                ("raft_term", "Current term.", status.term),
                ("raft_is_leader", "1 on the leader.", u64::from(status.role == Role::Leader)),
                ("raft_leader", "Node number of the leader; 0: unknown.", leader),
                ("raft_commit_index", "Newest committed entry.", status.commit_index),
                ("raft_applied_index", "Newest applied entry.", status.applied_index),
                ("raft_checkpoint_index", "Index of the newest checkpoint.", status.checkpoint_index),
                ("fenced", "1: the state differs from what a majority has.", u64::from(status.is_fenced)),
                ("disk_full", "1: a write is waiting for room on the disk.", u64::from(status.is_disk_full)),
                ("sessions", "Updates whose repeats are recognized.", status.session_count as u64),
            ],
        );
        let help = "Time since a leader confirmed that nothing newer is committed.";
        page.single("catamaran_staleness_seconds", Kind::Gauge, help, status.staleness_ms as f64 / 1_000.0);
        let replica = &status.counters;
        counters(
            page,
            &[
                ("raft_role_changes", "Changes of role, term or leader.", self.replica.role_changes.get()),
                ("raft_proposals_dropped", "Batches that raft rejected.", replica.proposals_dropped),
                ("replica_events", "Events of the replica.", self.replica.events.get()),
                (
                    "replica_events_inline",
                    "Of them, handled by the thread that received them.",
                    self.replica.inline_events.get(),
                ),
                ("published", "Publications of newer data to queries.", self.replica.published.get()),
                ("checkpoints_written", "Checkpoints written.", replica.checkpoints_written),
                ("checkpoints_abandoned", "Checkpoints that were abandoned.", replica.checkpoints_abandoned),
                ("checkpoints_installed", "Checkpoints installed from a leader.", replica.checkpoints_installed),
                ("checkpoint_blocks_kept", "Checkpoint blocks kept over a restart.", replica.checkpoint_blocks_kept),
                ("disk_hung_transfers", "Leadership transfers because of a hung disk.", replica.disk_hung_transfers),
                ("disk_full_transfers", "Leadership transfers because of a full disk.", replica.disk_full_transfers),
                ("disk_full_refusals", "Updates and commands refused because of full disks.", replica.refused_for_disk),
                (
                    "updates_overloaded",
                    "Updates refused because a queue of the leader was full.",
                    replica.updates_overloaded,
                ),
                ("forwards_repeated", "Forwarded commands that were received again.", replica.forwards_repeated),
                ("non_member_frames", "Frames from ids that are not members.", replica.non_member_frames),
                (
                    "raft_messages_ignored",
                    "Messages from members that were late or had no vote.",
                    replica.messages_ignored,
                ),
                ("raft_votes_withheld", "Votes withheld because the log may lack entries.", replica.votes_withheld),
            ],
        );
        self.peers(page, status);
        Self::clocks(page, status);
        refusals(page, replica);
        invariants(page, &status.invariant_violations);
    }

    fn peers(&self, page: &mut Page, status: &Status) {
        counters(
            page,
            &[
                ("peer_sent", "Frames sent to peers.", self.peer.sent.get()),
                ("peer_dropped", "Frames dropped: channel full or down.", self.peer.dropped.get()),
                ("peer_received", "Frames received from peers.", self.peer.received.get()),
                ("peer_refused", "Connections from peers that were refused or failed.", self.peer.refused.get()),
                ("peer_dialled", "Connections to peers that were made.", self.peer.dialled.get()),
            ],
        );
        let help = "1: this node is connected to the peer; 0: it cannot connect to it.";
        let reach = self.peer.reachability.all();
        // A cluster of one node has no peers, and a metric family must have at least one series.
        if !reach.is_empty() {
            let mut family = page.family("catamaran_peer_connected", Kind::Gauge, help);
            for (id, is_connected) in reach {
                family.series(&[("peer", &crate::tls::names::node_number(id).to_string())], u64::from(is_connected));
            }
        }
        let help = "Expiry of a node's certificate between nodes, in seconds since 1970.";
        let mut family = page.family("catamaran_node_certificate_expiry_timestamp_seconds", Kind::Gauge, help);
        for (of, progress) in status.members.iter().filter_map(|of| Some((of, of.credentials?))) {
            let node = crate::tls::names::node_number(of.member.id).to_string();
            family.series(&[("node", &node)], progress.expires_s);
        }
    }

    fn clocks(page: &mut Page, status: &Status) {
        let help = "Seconds by which a node's clock is ahead of the median clock, for nodes that reported recently.";
        let mut family = page.family("catamaran_clock_ahead_seconds", Kind::Gauge, help);
        for (of, ahead_ms) in status.members.iter().filter_map(|of| Some((of, of.clock_ahead_ms?))) {
            let node = crate::tls::names::node_number(of.member.id).to_string();
            family.series(&[("node", &node)], ahead_ms as f64 / 1_000.0);
        }
    }

    fn queues(&self, page: &mut Page, shared: &Shared) {
        let mut family = page.family("catamaran_queue_depth", Kind::Gauge, "Entries in a queue.");
        family.series(&[("queue", "update_queue")], self.update_queue.waiting());
        family.series(&[("queue", "updates")], shared.updates.get());
        family.series(&[("queue", "admin")], shared.admins.get());
        family.series(&[("queue", "replica")], shared.waiting.get());
    }
}

/// Families of one series, each named `catamaran_..._total`.
fn counters(page: &mut Page, all: &[(&str, &str, u64)]) {
    for (name, help, value) in all {
        page.single(&format!("catamaran_{name}_total"), Kind::Counter, help, value);
    }
}

/// Families of one series, each named `catamaran_...`.
fn gauges(page: &mut Page, all: &[(&str, &str, u64)]) {
    for (name, help, value) in all {
        page.single(&format!("catamaran_{name}"), Kind::Gauge, help, value);
    }
}

/// Writes the state of the sandbox.
fn write_sandbox(page: &mut Page) {
    let help = "Enforcement of a part of the sandbox; 0: off, 1: as far as an older kernel supports it, 2: full.";
    let mut family = page.family("catamaran_sandbox", Kind::Gauge, help);
    for (part, enforced) in process::sandbox::state().parts() {
        family.series(&[("part", part)], enforced as u8);
    }
}

/// Writes the refusals of this leader.
fn refusals(page: &mut Page, replica: &replica::Counters) {
    counters(
        page,
        &[(
            "zone_growth_refused",
            "Updates and imports refused by this leader because a node has no memory for larger zones.",
            replica.refused_for_memory,
        )],
    );
    let help = "Updates refused by this leader, by the exceeded limit.";
    let mut family = page.family("catamaran_update_limits_total", Kind::Counter, help);
    for (limit, count) in LimitReached::ALL.iter().zip(replica.limits_reached) {
        family.series(&[("limit", limit.label())], count);
    }
}

/// Writes the violations of invariants.
fn invariants(page: &mut Page, violations: &replica::InvariantViolations) {
    let mut family = page.family(
        "catamaran_invariant_violations_total",
        Kind::Counter,
        "Violations of internal invariants. Each is a bug.",
    );
    family.series(&[("invariant", "apply_mismatch")], violations.entry_mismatches);
    family.series(&[("invariant", "evaluation_mismatch")], violations.evaluation_mismatches);
    family.series(&[("invariant", "evaluation_panic")], violations.evaluation_panics);
    family.series(&[("invariant", "execution_panic")], violations.apply_panics);
    family.series(&[("invariant", "state_hash_mismatch")], violations.hash_mismatches);
    family.series(&[("invariant", "malformed_frame")], violations.malformed_frames);
    family.series(&[("invariant", "refused_message")], violations.refused_messages);
}
