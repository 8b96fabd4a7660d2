//! Status of a replica.

use super::Replica;
use crate::context::{Context, Counters};
use crate::io::{
    CredentialProgress, FatalReason, Member, MemoryFigures, NodeId, Right, Role, Serving, SuspectedLoss, ZoneOptions,
};
use crate::machine::InvariantViolations;
use policy::{Policy, UpdateGrant};
use std::collections::BTreeMap;
use std::sync::Arc;
use tsig::{KeyTable, TsigKey};
use wire::name::Name;
use wire::number::Serial;
use zeroize::Zeroizing;
use zone::{Changeset, ZoneId};

/// A replica's view of itself and of its cluster.
#[derive(Clone, Debug)]
pub struct Status {
    /// The cluster.
    pub cluster_id: [u8; 16],
    /// This member.
    pub id: NodeId,
    /// Its role.
    pub role: Role,
    /// The term.
    pub term: u64,
    /// The leader, if known.
    pub leader: Option<NodeId>,
    /// Index of the last entry that is known to be committed.
    pub commit_index: u64,
    /// Index of the last entry that is applied and published.
    pub applied_index: u64,
    /// Index of the last entry of the log.
    pub last_index: u64,
    /// Index of the newest checkpoint.
    pub checkpoint_index: u64,
    /// Hash of the state at `applied_index`; equal on all members that applied it.
    pub state_hash: u128,
    /// Milliseconds since a leader last confirmed that nothing newer is committed.
    pub staleness_ms: u64,
    /// Whether it answers queries.
    pub serving: Serving,
    /// Whether its state differs from the majority's.
    pub is_fenced: bool,
    /// Entries that its log may lack. Until that is settled, it votes only for members that hold them, and does not
    /// campaign.
    pub suspected_loss: Option<SuspectedLoss>,
    /// If the suspected loss is a torn record: the voters that have not yet shown that they lack the record too. Any of
    /// them can resolve the loss.
    pub unreported_voters: Vec<NodeId>,
    /// Whether a write on this member is waiting for room on the disk.
    pub is_disk_full: bool,
    /// Whether the log of this member is short of room: as the leader it proposes nothing.
    pub is_short_of_room: bool,
    /// Why it cannot continue.
    pub fatal: Option<FatalReason>,
    /// The feature level of the cluster.
    pub feature_level: u32,
    /// The members.
    pub members: Vec<MemberStatus>,
    /// The zones, by view and apex.
    pub zones: Vec<ZoneStatus>,
    /// Number of executed updates that are remembered, to recognize repeats.
    pub session_count: usize,
    /// Number of waiting updates and commands of this replica's clients.
    pub waiting_count: usize,
    /// Counts of events that must never happen.
    pub invariant_violations: InvariantViolations,
    /// Counts of other events.
    pub counters: Counters,
}

/// One member as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Id and address.
    pub member: Member,
    /// Whether it votes.
    pub is_voter: bool,
    /// Whether it stays a learner. A member without a vote that does not stay a learner is joining.
    pub stays_learner: bool,
    /// Whether updates of zones with `ack = all-live` wait for it; unknown while no zone has the option.
    pub in_rotation: Option<bool>,
    /// The index that it has applied, by its last report to the leader; unknown on other members.
    pub applied_index: Option<u64>,
    /// Milliseconds since its last report to the leader; unknown on other members.
    pub last_report_age_ms: Option<u64>,
    /// The highest feature level of its software, by its last report to the leader; unknown on other members.
    pub feature_level: Option<u32>,
    /// Its own report of its certificates and keys.
    pub credentials: Option<CredentialProgress>,
    /// Whether it has applied the next key of every member; true while there is none.
    pub has_seen_pins: bool,
    /// Memory use of its zones, from its last report to the leader. Only the leader knows it.
    pub memory: Option<MemoryFigures>,
    /// Milliseconds by which its clock is ahead of the cluster's time. `None` if it has not reported recently.
    pub clock_ahead_ms: Option<i64>,
}

/// One zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneStatus {
    /// The zone.
    pub id: ZoneId,
    /// Its serial.
    pub serial: Option<Serial>,
    /// Number of records.
    pub record_count: u64,
    /// Hash of its contents.
    pub hash: u128,
    /// Its options.
    pub options: ZoneOptions,
}

/// A TSIG key without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStatus {
    /// Its name.
    pub name: Name,
    /// Its algorithm.
    pub algorithm: tsig::KeyAlgorithm,
    /// Its rights, each with the zone; `None` is all zones.
    pub grants: Vec<(Option<ZoneId>, Right)>,
    /// Whether it has two secrets.
    pub is_rolling: bool,
}

impl Replica {
    /// The full status of this replica, for operators and for `/v1/status`. It takes a walk over all zones.
    #[must_use]
    pub fn status(&self) -> Status {
        Status { zones: self.zone_statuses(), ..self.brief_status() }
    }

    /// Like [`Self::status`], but without the zones, so its cost does not depend on their number.
    #[must_use]
    pub fn brief_status(&self) -> Status {
        let driver = &self.driver;
        let settings = &self.machine.settings;
        let context = Context::new(&self.local, driver, &self.machine);
        let voters = driver.voters();
        let rotation = Some(settings.rotation()).filter(|rotation| !rotation.is_empty());
        let members = settings.members().into_iter().map(|member| {
            let own = member.id == driver.id();
            let progress = self.progress.member(member.id).filter(|_| !own);
            MemberStatus {
                is_voter: voters.contains(&member.id),
                stays_learner: settings.is_learner(member.id),
                in_rotation: rotation.map(|rotation| rotation.contains_key(&member.id)),
                applied_index: if own {
                    Some(self.machine.applied.0)
                } else {
                    progress.map(|progress| progress.applied)
                },
                last_report_age_ms: progress.map(|progress| self.local.now.monotonic_ms.saturating_sub(progress.at_ms)),
                feature_level: if own {
                    Some(self.local.config.feature_level)
                } else {
                    progress.map(|progress| progress.feature_level)
                },
                memory: self.memory.figures_of(&context, member.id),
                clock_ahead_ms: self.clocks.ahead_ms(&context, member.id),
                credentials: settings.trust().credentials().get(&member.id).copied(),
                has_seen_pins: settings.trust().pins().seen_by(member.id)
                    >= settings.trust().pins().wanted().unwrap_or(0),
                member,
            }
        });
        Status {
            cluster_id: settings.cluster_id(),
            id: driver.id(),
            role: self.role_now(),
            term: driver.term(),
            leader: driver.leader(),
            commit_index: driver.commit(),
            applied_index: self.machine.applied.0,
            last_index: driver.last_index(),
            checkpoint_index: driver.log().checkpoint().index,
            state_hash: self.machine.state_hash(),
            staleness_ms: self.staleness_ms(),
            serving: self.local.lifecycle.serving(),
            is_fenced: self.local.lifecycle.is_fenced(),
            suspected_loss: self.suspected_loss(),
            unreported_voters: self.unreported_voters(),
            is_disk_full: self.full.is_any_full(),
            is_short_of_room: self.full.is_short_of_room(&self.driver),
            fatal: self.local.lifecycle.fatal_reason(),
            feature_level: settings.feature_level(),
            members: members.collect(),
            zones: Vec::new(),
            session_count: self.machine.sessions.len(),
            waiting_count: self.requests.waiters.len() + self.rotation.pending.len(),
            invariant_violations: self.machine.invariant_violations.and(self.outputs.invariant_violations),
            counters: self.outputs.counters,
        }
    }

    /// The voters by the applied state: those of the present configuration, and in a joint one also those of the
    /// outgoing one. A removed member is included until raft has removed its vote.
    #[must_use]
    pub fn voters(&self) -> [Vec<NodeId>; 2] {
        let mut conf_state = self.driver.conf_state();
        let mut both = [conf_state.take_voters(), conf_state.take_voters_outgoing()];
        both.iter_mut().for_each(|voters| voters.sort_unstable());
        both
    }

    fn zone_statuses(&self) -> Vec<ZoneStatus> {
        let published = self.machine.zones.published();
        let of = |(id, &options): (&ZoneId, &ZoneOptions)| {
            let zone = published.zone(id)?;
            let (serial, record_count, hash) = (zone.serial(), zone.record_count(), zone.hash());
            Some(ZoneStatus { id: id.clone(), serial, record_count, hash, options })
        };
        self.machine.settings.zones().iter().filter_map(of).collect()
    }

    /// Hash of the state, and its index, for comparison in simulations.
    #[must_use]
    pub fn state_hash(&self) -> (u64, u128) {
        (self.machine.applied.0, self.machine.state_hash())
    }

    /// Whether this replica may answer queries.
    #[must_use]
    pub const fn serving(&self) -> Serving {
        self.local.lifecycle.serving()
    }

    /// Checkpoints that this replica has written since it was opened.
    #[must_use]
    pub const fn checkpoints_written(&self) -> u64 {
        self.outputs.counters.checkpoints_written
    }

    /// The options of a zone, if it is known.
    #[must_use]
    pub fn zone_options(&self, zone: &ZoneId) -> Option<ZoneOptions> {
        self.machine.settings.zones().get(zone).copied()
    }

    /// Whether a key has a right in a zone, by this replica's state. For updates, the leader decides.
    #[must_use]
    pub fn is_granted(&self, key: &Name, zone: &ZoneId, right: Right) -> bool {
        self.machine.settings.is_granted(key, zone, right)
    }

    /// All keys with their decrypted secrets, for verification of requests. Read again after
    /// [`Output::KeysChanged`](crate::io::Output::KeysChanged).
    #[must_use]
    pub fn key_table(&self) -> KeyTable {
        let mut table = KeyTable::default();
        for key in self.machine.settings.keys().keys().filter_map(|name| self.opened_key(name)) {
            // A full table leaves keys out; limits keep the settings from holding more.
            let _ = table.insert(key);
        }
        table
    }

    /// One key with its decrypted secrets; `None` if there is no such key, or it cannot be opened.
    #[must_use]
    pub fn opened_key(&self, name: &Name) -> Option<TsigKey> {
        self.machine.settings.keys().get(name)?.open(name, &self.local.config.data_key)
    }

    /// The decrypted secrets of a key, the newest first, for an administrator.
    #[must_use]
    pub fn secrets(&self, name: &Name) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        self.machine.settings.keys().get(name)?.secrets(name, &self.local.config.data_key)
    }

    /// All keys and their rights, without secrets.
    #[must_use]
    pub fn keys(&self) -> Vec<KeyStatus> {
        self.machine.settings.keys().keys().filter_map(|name| self.key(name)).collect()
    }

    /// One of these keys.
    #[must_use]
    pub fn key(&self, name: &Name) -> Option<KeyStatus> {
        let settings = &self.machine.settings;
        let key = settings.keys().get(name)?;
        Some(KeyStatus {
            name: name.clone(),
            algorithm: key.algorithm,
            grants: settings.grants_of(name).map(|(zone, right)| (zone.cloned(), right)).collect(),
            is_rolling: key.previous.is_some(),
        })
    }

    /// The update policies of zones and of all zones (`None`), and the extent of a grant for updates. Read again
    /// after [`Output::PoliciesChanged`](crate::io::Output::PoliciesChanged).
    #[must_use]
    pub fn policies(&self) -> (BTreeMap<Option<ZoneId>, Arc<Policy>>, UpdateGrant) {
        let settings = &self.machine.settings;
        (settings.policies().clone(), settings.update_grant())
    }

    /// The changes of a zone from `serial` to the present (RFC 1995); `None` if the history does not reach back to
    /// it.
    #[must_use]
    pub fn history(&self, zone: &ZoneId, serial: Serial) -> Option<Vec<Changeset>> {
        self.machine.history.since(zone, serial)
    }
}
