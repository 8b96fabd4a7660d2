//! What only tests may see of a replica, and what only tests may do to it.

use crate::command::Command;
use crate::config::ReplicaConfig;
use crate::entry::{SettingsChange, StageId};
use crate::io::{NodeId, SuspectedLoss};
use crate::limits::SPARSE_HASH_STEP;
use crate::log::{Log, Repair};
use crate::log_loss::loss_of_torn_record;
use crate::machine::HashRing;
use crate::peer::Frame;
use crate::propose::Origin;
use crate::raft::{ConfChange, Guard};
use crate::replica::Replica;
use raft::eraftpb::ConfState;
use std::collections::BTreeMap;
use wire::name::Name;
use wire::number::Rcode;
use zone::ZoneId;

/// Views for tests.
impl Replica {
    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &ReplicaConfig {
        &self.local.config
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        self.driver.log()
    }

    /// Raft's configuration of the cluster.
    #[must_use]
    pub fn conf_state(&self) -> ConfState {
        self.driver.conf_state()
    }

    /// Whether raft's configuration is joint.
    #[must_use]
    pub fn is_joint(&self) -> bool {
        self.driver.is_joint()
    }

    /// Whether it leads and has applied the first entry of its term.
    #[must_use]
    pub fn has_applied_own_term(&self) -> bool {
        self.driver.has_applied_own_term()
    }

    /// The time of the last applied entry, in milliseconds since 1970.
    #[must_use]
    pub const fn entry_time_ms(&self) -> u64 {
        self.machine.time_ms
    }

    /// The epoch of the settings.
    #[must_use]
    pub const fn settings_epoch(&self) -> u64 {
        self.machine.settings.epoch()
    }

    /// The members of the rotation, and the index at which each was added.
    #[must_use]
    pub const fn rotation(&self) -> &BTreeMap<NodeId, u64> {
        self.machine.settings.rotation()
    }

    /// Whether updates of a zone wait for all live members.
    #[must_use]
    pub fn is_all_live(&self, zone: &ZoneId) -> bool {
        self.machine.settings.is_all_live(zone)
    }

    /// The import in progress for a zone.
    #[must_use]
    pub fn import_of(&self, zone: &ZoneId) -> Option<StageId> {
        self.machine.stages.of_zone(zone)
    }

    /// Number of entries that are evaluated or proposed, and not applied.
    #[must_use]
    pub fn uncommitted_count(&self) -> usize {
        self.head.uncommitted_count()
    }

    /// Whether a checkpoint is about to replace the state.
    #[must_use]
    pub const fn is_installing(&self) -> bool {
        self.transfers.is_installing
    }

    /// Whether this member must not campaign, because its log may lack what it acknowledged.
    #[must_use]
    pub const fn must_not_campaign(&self) -> bool {
        self.log_loss.is_suspected()
    }

    /// Whether a record of the log is waiting for room.
    #[must_use]
    pub const fn has_full_log(&self) -> bool {
        self.full.is_log_full()
    }

    /// When the last lease was requested, on this member's clock.
    #[must_use]
    pub fn lease_requested_ms(&self) -> Option<u64> {
        self.rotation.requested.back().map(|&(_, at_ms)| at_ms)
    }

    /// Number of leases that were voided.
    #[must_use]
    pub const fn leases_voided(&self) -> u64 {
        self.rotation.leases_voided
    }

    /// Whether a member answered this leader lately.
    #[must_use]
    pub fn is_reachable(&self, id: NodeId) -> bool {
        self.progress.is_alive(id, self.local.now.monotonic_ms)
    }

    /// Number of members that others have confirmed.
    #[must_use]
    pub fn confirmed_count(&self) -> usize {
        self.driver.senders.confirmed.len()
    }

    /// Whether raft would get the raft message in a frame. Nothing changes.
    #[must_use]
    pub fn passes_to_raft(&self, from: NodeId, frame: &[u8]) -> bool {
        let Ok((_, Frame::Raft(message))) = Frame::decode(frame) else { return false };
        matches!(self.driver.judge(from, &message), Guard::Step | Guard::Contradicts(_))
    }

    /// The suspected loss after these repairs of its log.
    #[must_use]
    pub fn loss_after(&self, repairs: &[Repair]) -> Option<SuspectedLoss> {
        loss_of_torn_record(self.driver.log(), repairs)
    }
}

/// Changes that no input causes.
impl Replica {
    /// The configuration, to change it while the replica runs.
    pub const fn config_mut(&mut self) -> &mut ReplicaConfig {
        &mut self.local.config
    }

    /// Sets the feature level of the cluster to any value. The state hash stays the same.
    pub const fn pretend_feature_level(&mut self, level: u32) {
        self.machine.settings.pretend_feature_level(level);
    }

    /// Applies a change of the settings without an entry.
    pub fn apply_settings(&mut self, change: &SettingsChange, index: u64) {
        self.machine.settings.apply(change, index, 0);
    }

    /// Remembers an update that was never sent, so that the state differs from that of the other members.
    pub fn remember_unsent_update(&mut self, key: &Name) {
        self.machine.sessions.insert([9; 16], key, 1, [0; 16], Rcode::NOERROR, None);
    }

    /// Replaces the remembered state hashes by those of another state.
    pub fn replace_hashes(&mut self) {
        let last = self.machine.applied.0;
        self.machine.hashes = HashRing::default();
        (last - last % SPARSE_HASH_STEP..=last).for_each(|index| self.machine.hashes.push(index, 7));
    }

    /// Takes a command for evaluation, as if a client of this member had sent it. Returns `false` if there is no room.
    pub fn enqueue(&mut self, token: u64, command: Command) -> bool {
        self.head.enqueue(Origin { peer: None, token }, command)
    }

    /// Proposes an entry with these bytes.
    ///
    /// # Panics
    /// If raft does not accept it.
    pub fn propose_bytes(&mut self, entry: Vec<u8>) {
        self.driver.propose(vec![entry]).expect("a leader takes a small entry");
    }

    /// Proposes to raft that a learner gets the vote of a voter. Returns whether raft accepts that.
    pub fn propose_swap(&mut self, gone: NodeId, new: NodeId) -> bool {
        self.driver.propose_conf_change(ConfChange::Swap { gone, new }, Vec::new()).is_ok()
    }

    /// Makes the next proposal fail, as raft does when too much is uncommitted.
    pub fn drop_next_proposal(&mut self) {
        self.driver.drop_next_proposal();
    }

    /// Transfers the leadership without a command.
    pub fn transfer_leadership(&mut self, to: NodeId) {
        self.driver.transfer_leader(to);
    }

    /// Campaigns now, even if there is a leader.
    pub fn campaign_now(&mut self) {
        self.driver.campaign();
    }

    /// Forgets the leader.
    pub fn forget_leader(&mut self) {
        self.driver.forget_leader();
    }

    /// Forgets the terms of forwarded commands, as if their entries had been applied without being checked.
    pub fn forget_terms(&mut self) {
        self.requests.waiters.forget_terms();
    }

    /// Abandons an import.
    pub fn abandon_import(&mut self, stage: StageId) {
        let (requests, mut shared) = self.requests();
        requests.abandon_stage(&mut shared, stage);
    }
}
