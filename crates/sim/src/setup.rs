//! The parameters of a run, drawn once.

use crate::clock::{RATE_ERROR_PPM, RATE_ERROR_PPM_MAX};
use crate::disk::DiskConfig;
use crate::network::NetworkConfig;
use crate::rng::Rng;
use crate::swarm::Swarm;
use replica::DataKey;
use replica::io::{Member, NodeId};
use replica::log::LogConfig;
use replica::peer::FEATURE_LEVEL;
use zone::set::StoreConfig;

/// The ID of the simulated cluster.
pub(crate) const CLUSTER_ID: [u8; 16] = [7; 16];
/// Memory reserved for the zones of one member.
const STORE_BYTES: usize = 64 << 20;

/// The parameters of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The seed.
    pub(crate) seed: u64,
    /// Founding members.
    pub(crate) members: u64,
    /// The faults and commands of the run.
    pub(crate) swarm: Swarm,
    /// The feature level of the build that founds the cluster.
    pub(crate) level: u32,
    /// Quality of the network during faults.
    pub(crate) network: NetworkConfig,
    /// Speed of the disks.
    pub(crate) disk: DiskConfig,
    /// Sizes of logs. They are so small that there are many checkpoints, and lagging members need one.
    pub(crate) log: LogConfig,
    /// Number of executed updates in the table of repeats.
    pub(crate) session_count_max: usize,
    /// Time without a leader after which a member answers with data marked as stale.
    pub(crate) start_stale_after_ms: u64,
    /// The same time for a member that does not know which entries of its log are committed.
    pub(crate) start_behind_after_ms: u64,
    /// Whether updates are acknowledged only when every member that answers shows them.
    pub(crate) all_live: bool,
    /// Whether members join, leave, and die for good.
    pub(crate) changes_members: bool,
    /// Whether an attacker sends frames. Then members are removed too, so that the attacker may be a former member.
    pub(crate) is_attacked: bool,
    /// Largest error in the rate of clocks, in parts of a million.
    pub(crate) rate_error_ppm: u64,
    /// Largest error of wall clocks, in milliseconds.
    pub(crate) wall_error_ms: u64,
    /// Longest delay from an input to the work on it.
    pub(crate) wake_us_max: u64,
    /// Clients that send updates.
    pub(crate) clients: usize,
    /// Shortest and longest pause of a client between two updates.
    pub(crate) pause_us: (u64, u64),
    /// Shortest and longest time between two faults.
    pub(crate) fault_pause_us: (u64, u64),
    /// Minimum duration of the faults.
    pub(crate) chaos_us: u64,
}

/// Chooses the feature level: the newest build founds half of the clusters, and the build before it most of the others.
fn drawn_level(rng: &mut Rng) -> u32 {
    match rng.below(20) {
        0..10 => FEATURE_LEVEL,
        10..17 => FEATURE_LEVEL - 1,
        // The option `all-live` needs level 2.
        _ => 2,
    }
}

impl Setup {
    /// Draws the parameters of a seed.
    pub(crate) fn random(seed: u64, members: u64) -> Self {
        let rng = &mut Rng::new(seed).fork("setup");
        let forgets = rng.happens(250_000);
        let log = LogConfig {
            segment_bytes: 1 << rng.between(15, 17),
            entries_behind_checkpoint: rng.between(10, 60),
            bytes_behind_checkpoint: 1 << 14,
            checkpoint_due_bytes: 1 << rng.between(14, 17),
            ..LogConfig::default()
        };
        let quickest_us = rng.between(1_000, 20_000);
        let other = &mut Rng::new(seed).fork("all-live");
        let is_attacked = Rng::new(seed).fork("hostile").happens(333_333);
        Self {
            seed,
            members,
            swarm: Swarm::random(seed),
            level: drawn_level(&mut Rng::new(seed).fork("level")),
            network: NetworkConfig::random(rng),
            disk: DiskConfig::random(rng),
            log,
            session_count_max: if forgets { 400 } else { 100_000 },
            start_stale_after_ms: if rng.happens(500_000) { 1_000 } else { 5_000 },
            start_behind_after_ms: if Rng::new(seed).fork("behind").happens(500_000) { 1_500 } else { 15_000 },
            all_live: other.happens(350_000),
            changes_members: Rng::new(seed).fork("members").happens(300_000) || is_attacked,
            is_attacked,
            rate_error_ppm: if other.happens(500_000) { RATE_ERROR_PPM_MAX } else { RATE_ERROR_PPM },
            // A table that forgets early refuses clients whose clocks are behind.
            wall_error_ms: if forgets { 500 } else { rng.between(0, 100_000) },
            wake_us_max: rng.between(1, 300),
            clients: rng.between(3, 6) as usize,
            pause_us: (quickest_us, quickest_us + rng.between(1_000, 60_000)),
            fault_pause_us: (100_000, rng.between(400_000, 2_000_000)),
            chaos_us: rng.between(6_000_000, 14_000_000),
        }
    }

    /// Whether the table of repeats forgets so early that an old repeat may get BADTIME.
    pub(crate) fn forgets(&self) -> bool {
        self.session_count_max < 100_000
    }

    /// The ids of all members.
    pub(crate) fn ids(&self) -> Vec<NodeId> {
        (1..=self.members).collect()
    }

    /// The founding members.
    pub(crate) fn founders(&self) -> Vec<Member> {
        let founder = |id| Member { id, address: format!("[::1]:{}", 7_000 + id) };
        self.ids().into_iter().map(founder).collect()
    }

    /// The configuration of a member.
    pub(crate) fn config(&self, id: NodeId, boot_id: u64) -> replica::ReplicaConfig {
        let data_key = DataKey::new(1, &[9; 32]);
        let mut config = replica::ReplicaConfig::new(CLUSTER_ID, id, boot_id, self.seed ^ boot_id, data_key);
        config.feature_level = self.level;
        config.log = self.log.clone();
        config.store = StoreConfig { reserve_bytes: STORE_BYTES, huge_pages: false };
        config.session_count_max = self.session_count_max;
        config.history_count_max = 50;
        config.start_stale_after_ms = self.start_stale_after_ms;
        config.start_behind_after_ms = self.start_behind_after_ms;
        config
    }
}

/// Returns the data keys up to this number.
pub(crate) fn data_keys(last: u32) -> DataKey {
    (2..=last).fold(DataKey::new(1, &[9; 32]), |keys, number| keys.with(number, &[number as u8; 32]))
}
