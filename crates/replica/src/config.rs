//! Configuration of a replica.

use crate::io::{NodeId, SuspectedLoss};
use crate::limits::{
    HISTORY_BYTES_MAX, HISTORY_COUNT_MAX, HISTORY_TOTAL_BYTES_MAX, SESSION_COUNT_MAX, START_BEHIND_AFTER_MS,
    START_STALE_AFTER_MS,
};
use crate::log::LogConfig;
use crate::peer::FEATURE_LEVEL;
use crate::secrets::DataKey;
use zone::set::StoreConfig;

/// Identity, secrets and sizes of one replica. Sizes that affect replicated state (`session_count_max`, `history_*`)
/// must be equal on all members of a cluster.
#[derive(Debug)]
pub struct ReplicaConfig {
    /// The raft group; zero is the only one today.
    pub group: u16,
    /// This member's raft id.
    pub id: NodeId,
    /// The cluster.
    pub cluster_id: [u8; 16],
    /// Drawn at random when the process started.
    pub boot_id: u64,
    /// Seed of election timeouts: random in production, the seed of the run in a simulation.
    pub seed: u64,
    /// The highest feature level that this software supports: [`FEATURE_LEVEL`], except in tests of an upgrade.
    pub feature_level: u32,
    /// Seals secrets.
    pub data_key: DataKey,
    /// Sizes of the log.
    pub log: LogConfig,
    /// Memory of the zones.
    pub store: StoreConfig,
    /// Number of executed updates that are remembered, to recognize repeats.
    pub session_count_max: usize,
    /// Number of differences kept per zone.
    pub history_count_max: usize,
    /// Bytes of differences kept per zone.
    pub history_bytes_max: usize,
    /// Bytes of differences kept for all zones together.
    pub history_total_bytes_max: usize,
    /// Updates up to this index were audited. At start, the replica reports later ones that are still in its log.
    pub audit_after: u64,
    /// Milliseconds after the start before a replica that hears no leader answers queries, marked stale.
    pub start_stale_after_ms: u64,
    /// The same delay for a replica whose log holds entries that it does not know to be committed.
    pub start_behind_after_ms: u64,
    /// Whether clients query this member. Updates do not wait for a member that answers no queries.
    pub answers_queries: bool,
    /// What the log may lack, as an earlier process of this member recorded it. It comes from
    /// [`Replica::suspected_loss`](crate::Replica::suspected_loss), or from the leader's message that contradicted the
    /// log and ended that process. `None` once it is resolved.
    pub suspected_loss: Option<SuspectedLoss>,
    /// Bytes of records by which one key may make one zone larger while this member leads. The count starts at zero
    /// with the process.
    pub key_growth_bytes_max: u64,
    /// For tests, only in builds with debug assertions: applying an update panics if it adds a record whose owner
    /// name contains these bytes.
    pub panics_at: Option<Vec<u8>>,
}

impl ReplicaConfig {
    /// Sizes for production.
    #[must_use]
    pub fn new(cluster_id: [u8; 16], id: NodeId, boot_id: u64, seed: u64, data_key: DataKey) -> Self {
        Self {
            group: 0,
            id,
            cluster_id,
            boot_id,
            seed,
            feature_level: FEATURE_LEVEL,
            data_key,
            log: LogConfig::default(),
            store: StoreConfig::default(),
            session_count_max: SESSION_COUNT_MAX,
            history_count_max: HISTORY_COUNT_MAX,
            history_bytes_max: HISTORY_BYTES_MAX,
            history_total_bytes_max: HISTORY_TOTAL_BYTES_MAX,
            audit_after: u64::MAX,
            start_stale_after_ms: START_STALE_AFTER_MS,
            start_behind_after_ms: START_BEHIND_AFTER_MS,
            answers_queries: true,
            suspected_loss: None,
            key_growth_bytes_max: u64::MAX,
            panics_at: None,
        }
    }
}
