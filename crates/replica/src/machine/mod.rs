//! The replicated state machine: entries in, zones and settings out.
//!
//! Applying never fails. An entry contains changes and the state that they were made for. If the state differs, every
//! replica applies nothing and counts an invariant violation. A leader may have applied the zone part of an entry
//! before, on its head. Then it only publishes that version.

mod growth;
mod hash_ring;
mod items;
mod reset;
mod restore;
mod stages;
mod zones;

pub(crate) use growth::{AccountId, GrowthAccounts, growth_of};
pub(crate) use hash_ring::HashRing;
pub(crate) use items::FrozenState;
pub use reset::RestoredZone;
pub(crate) use restore::{Restore, RestoreError, SettingsOnly, empty_machine};
pub(crate) use stages::{StageError, Stages, chunk_digest};
pub(crate) use zones::{ApplyMismatch, apply_work, zone_work};

use crate::entry::{
    Body, DataKeyChange, Entry, ImportPurpose, Resealed, SecretId, SettingsChange, SettingsEntry, TrustChange,
    UpdateEntry,
};
use crate::limits::UNPUBLISHED_BYTES_MAX;
use crate::state::{History, Identity, Item, Sessions, Settings, item_hash};
use std::panic::{AssertUnwindSafe, catch_unwind};
use wire::name::Name;
use wire::number::{Rcode, Serial};
use zone::ZoneSet;
use zone::record::ZoneId;
use zone::set::Version;

/// The replicated state, and the index up to which it is applied.
pub(crate) struct Machine {
    pub(crate) zones: ZoneSet,
    pub(crate) settings: Settings,
    pub(crate) sessions: Sessions,
    pub(crate) history: History,
    pub(crate) stages: Stages,
    /// Not part of the replicated state.
    pub(crate) growth: GrowthAccounts,
    /// Index and term of the last applied entry.
    pub(crate) applied: (u64, u64),
    /// The time of the last applied entry, in milliseconds since 1970.
    pub(crate) time_ms: u64,
    /// Hash of the zones as applied; a leader's head is ahead of it.
    pub(crate) zones_hash: u128,
    pub(crate) hashes: HashRing,
    pub(crate) invariant_violations: InvariantViolations,
    /// Newest version that is applied but not published.
    unpublished: Option<Version>,
    /// Bytes copied by the zones until they were last published.
    published_allocated: u64,
    /// Applying an entry panicked, or the entry did not fit in memory. The zones remain as last published, and memory
    /// after them is not touched.
    is_broken: bool,
    /// See [`ReplicaConfig::panics_at`](crate::ReplicaConfig::panics_at).
    pub(crate) panics_at: Option<Vec<u8>>,
}

/// Counts of things that must never happen. Each is a bug.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InvariantViolations {
    /// Entries that did not fit the state and were not applied.
    pub entry_mismatches: u64,
    /// Changes that the leader evaluated and could not apply to its own zones.
    pub evaluation_mismatches: u64,
    /// Updates whose evaluation panicked. Their clients got SERVFAIL.
    pub evaluation_panics: u64,
    /// Commands at which this leader panicked before it proposed them. It transfers the leadership and exits.
    pub apply_panics: u64,
    /// State hashes of other members that differed.
    pub hash_mismatches: u64,
    /// Frames of peers that could not be read.
    pub malformed_frames: u64,
    /// Messages of peers that raft must not see.
    pub refused_messages: u64,
}

impl InvariantViolations {
    /// The sums of both counts.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self {
            entry_mismatches: self.entry_mismatches + other.entry_mismatches,
            evaluation_mismatches: self.evaluation_mismatches + other.evaluation_mismatches,
            evaluation_panics: self.evaluation_panics + other.evaluation_panics,
            apply_panics: self.apply_panics + other.apply_panics,
            hash_mismatches: self.hash_mismatches + other.hash_mismatches,
            malformed_frames: self.malformed_frames + other.malformed_frames,
            refused_messages: self.refused_messages + other.refused_messages,
        }
    }
}

/// The work of a leader on an entry that it proposed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prepared {
    /// The version, if zones changed.
    pub(crate) version: Option<Version>,
    /// Hash of the zones after it.
    pub(crate) zones_hash: u128,
}

/// The result of applying an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// An UPDATE has this outcome.
    Update { identity: Identity, rcode: Rcode },
    /// Settings changed.
    Settings(SettingsEffect),
    /// Anything else.
    Other,
    /// The entry did not fit the state; an UPDATE of this identity was not executed.
    Mismatch { identity: Option<Identity> },
    /// The memory of this replica is full.
    Full,
}

/// The effect of a change of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SettingsEffect {
    /// Keys that were added or removed, or whose rights changed.
    pub(crate) keys: Vec<Name>,
    /// Possibly all keys.
    pub(crate) all_keys: bool,
    pub(crate) policies: bool,
    /// There may be very many changes with one zone each, so handling one must not scan all zones.
    pub(crate) zones: Vec<ZoneId>,
    pub(crate) members: bool,
    /// The trust between members.
    pub(crate) trust: bool,
}

impl Machine {
    pub(crate) fn new(
        zones: ZoneSet,
        settings: Settings,
        sessions: Sessions,
        history: History,
        applied: (u64, u64),
    ) -> Self {
        let zones_hash = zones.head().state_hash();
        let mut machine = Self {
            zones,
            settings,
            sessions,
            history,
            stages: Stages::default(),
            growth: GrowthAccounts::default(),
            applied,
            time_ms: 0,
            zones_hash,
            hashes: HashRing::default(),
            invariant_violations: InvariantViolations::default(),
            unpublished: None,
            published_allocated: 0,
            is_broken: false,
            panics_at: None,
        };
        machine.note_hash();
        machine
    }

    /// The hash that replicas compare.
    pub(crate) fn state_hash(&self) -> u128 {
        let time_ms = if planted!(HashWithoutTime) { 0 } else { self.time_ms };
        let zones_hash = if planted!(HashWithoutZones) { 0 } else { self.zones_hash };
        zones_hash
            .wrapping_add(if planted!(HashWithoutSettings) { 0 } else { self.settings.hash() })
            .wrapping_add(if planted!(HashWithoutRepeats) { 0 } else { self.sessions.hash() })
            .wrapping_add(if planted!(HashWithoutHistory) { 0 } else { self.history.hash() })
            .wrapping_add(if planted!(HashWithoutImports) { 0 } else { self.stages.hash() })
            .wrapping_add(item_hash(Item::Scalars, &[&time_ms.to_be_bytes()]))
    }

    fn note_hash(&mut self) {
        let hash = self.state_hash();
        self.hashes.push(self.applied.0, hash);
    }

    /// Applies an entry that does not affect the state: raft's own, or a change of membership.
    pub(crate) fn apply_empty(&mut self, index: u64, term: u64) {
        self.applied = (index, term);
        self.note_hash();
    }

    /// Applies an entry. `prepared` is the work that this replica did as its leader.
    pub(crate) fn apply(&mut self, index: u64, term: u64, entry: &Entry, prepared: Option<Prepared>) -> Applied {
        assert_eq!(index, self.applied.0 + 1, "entries are applied in order, each once");
        debug_assert!(!self.is_to_panic_at(&entry.body), "a test asks for it");
        let applied =
            if self.fits(&entry.body) { self.apply_body(index, entry, prepared) } else { self.mismatch(&entry.body) };
        let is_skipped = planted!(EntryWithoutMemorySkipped) && applied == Applied::Full;
        let applied = if is_skipped { Applied::Other } else { applied };
        if applied == Applied::Full {
            return applied;
        }
        self.time_ms = if is_clock_back(entry) && !matches!(applied, Applied::Mismatch { .. }) {
            entry.time_ms
        } else {
            self.time_ms.max(entry.time_ms)
        };
        self.applied = (index, term);
        self.note_hash();
        applied
    }

    /// Like [`Machine::apply`], but returns `None` if this software panics on the entry, which is a bug. Then this
    /// state must not be used, because it may hold part of the entry. Nor may it be used after [`Applied::Full`],
    /// because it lacks the entry.
    pub(crate) fn apply_guarded(
        &mut self,
        index: u64,
        term: u64,
        entry: &Entry,
        prepared: Option<Prepared>,
    ) -> Option<Applied> {
        let applied = catch_unwind(AssertUnwindSafe(|| self.apply(index, term, entry, prepared)));
        if planted!(PanickingEntrySkipped) && applied.is_err() {
            self.apply_empty(index, term);
            return Some(Applied::Other);
        }
        self.is_broken |= matches!(applied, Err(_) | Ok(Applied::Full));
        applied.ok()
    }

    fn is_to_panic_at(&self, body: &Body) -> bool {
        let (Some(label), Body::Update(UpdateEntry { change: Some(change), .. })) = (&self.panics_at, body) else {
            return false;
        };
        let has_label = |owner: &[u8]| owner.windows(label.len()).any(|bytes| bytes == label);
        change.changeset.added.iter().any(|record| has_label(record.owner.as_bytes()))
    }

    pub(crate) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn mismatch(&mut self, body: &Body) -> Applied {
        self.invariant_violations.entry_mismatches += 1;
        let identity = if let Body::Update(update) = body { Some(update.identity) } else { None };
        Applied::Mismatch { identity }
    }

    /// Whether the state besides the contents of zones is the one that the entry was made for.
    fn fits(&self, body: &Body) -> bool {
        let epoch = self.settings.epoch();
        match body {
            Body::Update(update) => {
                (planted!(PolicyEpochNotCompared) || update.policy_epoch == epoch)
                    && self.sessions.get(&update.identity, update.time_signed).is_none()
                    && self.generation_fits(update)
                    && update.change.as_ref().is_none_or(|change| self.settings.zones().contains_key(&change.zone))
            }
            Body::Settings(settings) => settings.epoch == epoch,
            Body::Change(change) => self.settings.zones().contains_key(&change.zone),
            Body::ImportCommit(commit) => commit.policy_epoch == epoch && self.stages.check(body).is_ok(),
            Body::ImportBegin(_) | Body::ImportChunk(_) | Body::ImportAbandon(_) => self.stages.check(body).is_ok(),
        }
    }

    /// A refused update may name a removed key. A change needs the same key that it was granted to.
    fn generation_fits(&self, update: &UpdateEntry) -> bool {
        let key = self.settings.keys().get(&update.key_name);
        planted!(KeyGenerationNotCompared)
            || update.change.is_none()
            || key.is_some_and(|key| key.generation == update.key_generation)
    }

    fn apply_body(&mut self, index: u64, entry: &Entry, prepared: Option<Prepared>) -> Applied {
        let body = &entry.body;
        let last_serial = self.serial_of_removed(body, prepared.is_some());
        if let Some(prepared) = prepared {
            self.unpublished = prepared.version.or(self.unpublished);
            self.zones_hash = prepared.zones_hash;
        } else if let Some(work) = zone_work(body, &self.stages) {
            match apply_work(&mut self.zones, work) {
                Ok(version) => {
                    self.unpublished = Some(version);
                    self.zones_hash = self.zones.head().state_hash();
                    self.publish_when_much_is_copied();
                }
                Err(ApplyMismatch::Full) => return Applied::Full,
                Err(ApplyMismatch::Base | ApplyMismatch::Content) => return self.mismatch(body),
            }
        }
        let stage = if let Body::ImportCommit(commit) = body { self.stages.get(commit.stage).cloned() } else { None };
        self.stages.advance(body, index);
        match body {
            Body::Update(update) => {
                if let Some(change) = &update.change {
                    let account = AccountId::new(&change.zone, &update.key_name);
                    self.growth.note(account, growth_of(&change.changeset));
                    self.history.push(index, &change.zone, &change.changeset);
                }
                let UpdateEntry { identity, key_name, time_signed, source, rcode, .. } = update;
                let at_s = self.time_ms.max(entry.time_ms) / 1_000;
                let at_s = (self.settings.feature_level() >= 2).then_some(at_s);
                self.sessions.insert(*identity, key_name, *time_signed, *source, *rcode, at_s);
                Applied::Update { identity: *identity, rcode: *rcode }
            }
            Body::Change(change) => {
                self.history.push(index, &change.zone, &change.changeset);
                Applied::Other
            }
            Body::Settings(settings) => {
                if let (SettingsChange::ZoneRemove { zone }, Some(serial)) = (&settings.change, last_serial) {
                    self.settings.retire(zone, serial, index);
                    self.history.clear(zone);
                }
                let effect = self.effect_of(&settings.change);
                self.settings.apply(&settings.change, index, entry.time_ms);
                Applied::Settings(effect)
            }
            Body::ImportCommit(_) => {
                let Some(stage) = stage else { return Applied::Other };
                // The history has no difference to the new contents.
                self.history.clear(&stage.zone);
                if let ImportPurpose::Create { options } = stage.purpose {
                    self.settings.add_zone(&stage.zone, options, index);
                }
                Applied::Settings(SettingsEffect { zones: vec![stage.zone], ..SettingsEffect::default() })
            }
            Body::ImportBegin(_) | Body::ImportChunk(_) | Body::ImportAbandon(_) => Applied::Other,
        }
    }

    /// The effect of a change that is about to be applied.
    fn effect_of(&self, change: &SettingsChange) -> SettingsEffect {
        let mut effect = SettingsEffect::default();
        match change {
            SettingsChange::ZoneOptions { zone, .. } => effect.zones.push(zone.clone()),
            SettingsChange::ZoneRemove { zone } => {
                effect.zones.push(zone.clone());
                effect.keys = self.settings.grantees(zone);
                effect.policies = true;
            }
            SettingsChange::KeyAdd { name: key, .. }
            | SettingsChange::KeyRemove { name: key }
            | SettingsChange::KeyRoll { name: key, .. }
            | SettingsChange::KeyRetire { name: key }
            | SettingsChange::Grant { key, .. }
            | SettingsChange::Revoke { key, .. } => effect.keys.push(key.clone()),
            SettingsChange::MemberAdd { .. }
            | SettingsChange::MemberRemove { .. }
            | SettingsChange::MemberRole { .. }
            | SettingsChange::MemberMove { .. }
            | SettingsChange::MemberReplace { .. } => {
                effect.members = true;
                effect.trust = true;
            }
            SettingsChange::Trust(change) => {
                effect.keys = resealed_keys(change);
                effect.trust = true;
            }
            SettingsChange::PolicySet { .. } => effect.policies = true,
            // It may change the meaning of grants.
            SettingsChange::FeatureLevel { .. } => {
                effect.policies = true;
                effect.trust = true;
            }
            // The port for peers accepts joining nodes only while there are tokens.
            SettingsChange::TokenAdd { .. }
            | SettingsChange::LearnerTokenAdd { .. }
            | SettingsChange::TokenFor { .. } => effect.trust = true,
            // Certificates are issued by the cluster's clock.
            SettingsChange::ClockBack { .. } => effect.trust = true,
            // This member's lease follows by itself.
            SettingsChange::RotationIn { .. }
            | SettingsChange::RotationOut { .. }
            | SettingsChange::AllLiveKnown { .. } => {}
        }
        effect
    }

    /// The serial of a zone that the entry removes, as it was before the entry.
    fn serial_of_removed(&mut self, body: &Body, is_prepared: bool) -> Option<Serial> {
        let Body::Settings(settings) = body else { return None };
        let SettingsChange::ZoneRemove { zone } = &settings.change else { return None };
        let before = if is_prepared {
            // The head no longer has the zone. The published state is the one before the entry.
            self.publish();
            self.zones.published()
        } else {
            self.zones.head()
        };
        before.zone(zone).and_then(|zone| zone.serial())
    }

    /// Every unpublished version retains the memory that it copied, and intermediate versions are not needed.
    fn publish_when_much_is_copied(&mut self) {
        if self.zones.allocated_bytes() - self.published_allocated >= UNPUBLISHED_BYTES_MAX {
            self.publish();
        }
    }

    /// Publishes everything that is applied. Returns whether zones changed.
    pub(crate) fn publish(&mut self) -> bool {
        if self.is_broken {
            return false;
        }
        let Some(version) = self.unpublished.take() else { return false };
        self.zones.publish(version);
        self.zones.reclaim();
        self.published_allocated = self.zones.allocated_bytes();
        true
    }

    /// Drops a leader's work that was not applied.
    pub(crate) fn rewind(&mut self) {
        self.publish();
        if !self.is_broken {
            self.zones.rewind();
        }
    }

    /// See [`Replica::release_memory`](crate::Replica::release_memory).
    pub(crate) fn release_memory(&mut self) {
        if !self.is_broken {
            self.zones.release_free();
        }
    }

    /// Frees memory that no reader uses.
    pub(crate) fn reclaim(&mut self) {
        if !self.is_broken {
            self.zones.reclaim();
        }
    }
}

/// Whether this is a `ClockBack` entry, the only kind of entry with an earlier time than the entry before it.
const fn is_clock_back(entry: &Entry) -> bool {
    matches!(entry.body, Body::Settings(SettingsEntry { change: SettingsChange::ClockBack { .. }, .. }))
}

/// The keys whose secrets more members can open from now on.
fn resealed_keys(change: &TrustChange) -> Vec<Name> {
    let TrustChange::DataKey(DataKeyChange::Reseal { secrets }) = change else { return Vec::new() };
    let key = |resealed: &Resealed| match &resealed.id {
        SecretId::Key(name) | SecretId::PreviousOfKey(name) => Some(name.clone()),
        SecretId::Ca(_) => None,
    };
    secrets.iter().filter_map(key).collect()
}

#[cfg(test)]
mod hashed;
#[cfg(test)]
mod tests;
