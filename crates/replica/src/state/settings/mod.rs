//! The settings: zones and their options, keys, grants, members, join tokens, feature level.

mod check;
mod data_key;
#[cfg(test)]
mod hashed;
mod items;
mod key_entry;
mod keys;
mod members;
mod pins;
mod rotation;
#[cfg(test)]
mod tests;
mod trust;
mod trust_steps;
mod zones;

pub(crate) use key_entry::{KeyEntry, secret_context};
pub use members::JoinTokenStatus;
use trust::Trust;
pub(crate) use trust::ca_context;

use super::hash::{Item, item_hash};
use crate::entry::SettingsChange;
use crate::io::{Member, NodeId, Right, ZoneOptions};
use crate::secrets::Sealed;
use policy::Policy;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::name::Name;
use wire::number::Serial;
use zone::ZoneId;

/// The settings by administrators.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    cluster_id: [u8; 16],
    /// Each change raises it. A decision made under one epoch is not applied under another.
    epoch: u64,
    feature_level: u32,
    zones: BTreeMap<ZoneId, ZoneOptions>,
    /// Last serials of removed zones: a zone that is added again jumps ahead of them.
    retired: BTreeMap<ZoneId, Retired>,
    /// Removed zones by the index of the entry that removed them, so that the oldest are forgotten first.
    retired_order: BTreeMap<u64, ZoneId>,
    keys: BTreeMap<Name, KeyEntry>,
    grants: BTreeSet<(Name, Option<ZoneId>, Right)>,
    /// Update policies, per zone and for all zones; none is empty.
    policies: BTreeMap<Option<ZoneId>, Arc<Policy>>,
    policies_bytes: usize,
    members: BTreeMap<NodeId, String>,
    /// Next incarnation of each node number ever used.
    incarnations: BTreeMap<u32, u32>,
    /// Members that stay learners. All others are voters or will become voters.
    learners: BTreeSet<NodeId>,
    /// Digest and expiry, in milliseconds since 1970.
    tokens: BTreeMap<[u8; 32], u64>,
    /// Digests of the tokens for learners.
    learner_tokens: BTreeSet<[u8; 32]>,
    /// The trust between members.
    trust: Trust,
    /// Members that updates of `AckOption::AllLive` wait for, each with the index of the entry that added it.
    rotation: BTreeMap<NodeId, u64>,
    /// Zones of `AckOption::AllLive`, each with the index of the entry that set the option.
    all_live: BTreeMap<ZoneId, u64>,
    /// Every member knows the zones that had the option at this index.
    all_live_known: u64,
    hash: u128,
}

/// The remains of a removed zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retired {
    /// Its last serial.
    serial: Serial,
    /// Index of the entry that removed it.
    index: u64,
}

impl Settings {
    /// The settings of a new cluster. All founders run the same software, so it begins at that software's level.
    pub(crate) fn genesis(cluster_id: [u8; 16], members: &[Member], feature_level: u32) -> Self {
        let mut settings = Self::empty(cluster_id);
        settings.with_scalars(|settings| settings.feature_level = feature_level);
        for member in members {
            settings.put_member(member.id, member.address.clone());
        }
        settings
    }

    pub(crate) fn empty(cluster_id: [u8; 16]) -> Self {
        let mut settings = Self {
            cluster_id,
            epoch: 1,
            feature_level: 1,
            zones: BTreeMap::new(),
            retired: BTreeMap::new(),
            retired_order: BTreeMap::new(),
            keys: BTreeMap::new(),
            grants: BTreeSet::new(),
            policies: BTreeMap::new(),
            policies_bytes: 0,
            members: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            learners: BTreeSet::new(),
            tokens: BTreeMap::new(),
            learner_tokens: BTreeSet::new(),
            trust: Trust::default(),
            rotation: BTreeMap::new(),
            all_live: BTreeMap::new(),
            all_live_known: 0,
            hash: 0,
        };
        settings.hash = settings.scalars_hash();
        settings
    }

    pub(crate) const fn hash(&self) -> u128 {
        self.hash
    }

    pub(crate) const fn cluster_id(&self) -> [u8; 16] {
        self.cluster_id
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sets a level that no software supports; the hash is not updated.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) const fn pretend_feature_level(&mut self, level: u32) {
        self.feature_level = level;
    }

    pub(crate) const fn feature_level(&self) -> u32 {
        self.feature_level
    }

    /// Applies a change that was made for this epoch. It never fails: any change leads to valid settings, the same on
    /// every replica.
    pub(crate) fn apply(&mut self, change: &SettingsChange, index: u64, time_ms: u64) {
        match change {
            SettingsChange::ZoneOptions { zone, options } => self.set_options(zone, *options, index),
            SettingsChange::ZoneRemove { zone } => self.remove_zone(zone),
            SettingsChange::KeyAdd { name, algorithm, secret } => {
                let (algorithm, secret) = (*algorithm, secret.clone());
                self.put_key(name, KeyEntry { algorithm, secret, previous: None, generation: index });
            }
            SettingsChange::KeyRoll { name, secret } => {
                // The generation stays: a message signed with the earlier secret remains the same request.
                if let Some(KeyEntry { algorithm, secret: previous, generation, .. }) = self.keys.get(name).cloned() {
                    let (secret, previous) = (secret.clone(), Some(previous));
                    self.put_key(name, KeyEntry { algorithm, secret, previous, generation });
                }
            }
            SettingsChange::KeyRetire { name } => {
                if let Some(key) = self.keys.get(name).cloned() {
                    self.put_key(name, KeyEntry { previous: None, ..key });
                }
            }
            SettingsChange::PolicySet { zone, policy } => {
                if zone.as_ref().is_none_or(|zone| self.zones.contains_key(zone)) {
                    self.put_policy(zone.clone(), policy.clone());
                }
            }
            SettingsChange::KeyRemove { name } => self.remove_key(name),
            SettingsChange::Grant { key, zone, right } => self.put_grant((key.clone(), zone.clone(), *right)),
            SettingsChange::Revoke { key, zone, right } => self.remove_grant(&(key.clone(), zone.clone(), *right)),
            SettingsChange::MemberAdd { .. }
            | SettingsChange::MemberRemove { .. }
            | SettingsChange::MemberMove { .. }
            | SettingsChange::MemberRole { .. }
            | SettingsChange::MemberReplace { .. }
            | SettingsChange::TokenAdd { .. }
            | SettingsChange::LearnerTokenAdd { .. }
            | SettingsChange::TokenFor { .. } => self.apply_member(change, time_ms),
            SettingsChange::ClockBack { by_ms } => self.move_tokens_back(*by_ms, time_ms),
            SettingsChange::Trust(change) => self.apply_trust(change),
            SettingsChange::FeatureLevel { level } => {
                let level = self.feature_level.max(*level);
                self.with_scalars(|settings| settings.feature_level = level);
            }
            SettingsChange::RotationIn { .. }
            | SettingsChange::RotationOut { .. }
            | SettingsChange::AllLiveKnown { .. } => self.apply_rotation(change, index),
        }
        self.raise_epoch();
    }

    /// Moves the settings to another cluster, with this member as the only one. Other members and join tokens are
    /// dropped; their node numbers stay used. `reseal` seals a secret for its context with the data key of that
    /// number.
    ///
    /// # Errors
    /// The key whose secret cannot be opened.
    pub(crate) fn move_to(
        &mut self,
        cluster_id: [u8; 16],
        data_key: u32,
        founder: Member,
        mut reseal: impl FnMut(&[u8], &Sealed) -> Option<Sealed>,
    ) -> Result<(), Name> {
        for (name, key) in self.keys.clone() {
            let mut anew = |sealed| reseal(&secret_context(&name), sealed).ok_or_else(|| name.clone());
            let secret = anew(&key.secret)?;
            let previous = key.previous.as_ref().map(&mut anew).transpose()?;
            self.put_key(&name, KeyEntry { secret, previous, ..key });
        }
        for id in self.members.keys().copied().collect::<Vec<_>>() {
            self.remove_member(id);
        }
        for digest in self.tokens.keys().copied().collect::<Vec<_>>() {
            self.remove_token(&digest);
        }
        self.forget_trust(data_key);
        self.put_member(founder.id, founder.address);
        self.with_scalars(|settings| {
            settings.cluster_id = cluster_id;
            settings.epoch += 1;
        });
        Ok(())
    }

    fn raise_epoch(&mut self) {
        self.with_scalars(|settings| settings.epoch += 1);
    }

    fn with_scalars(&mut self, change: impl FnOnce(&mut Self)) {
        self.sub(self.scalars_hash());
        change(self);
        self.add(self.scalars_hash());
    }

    fn scalars_hash(&self) -> u128 {
        let numbers = [&self.epoch.to_be_bytes()[..], &self.feature_level.to_be_bytes()[..]];
        item_hash(Item::Scalars, &[&self.cluster_id, numbers[0], numbers[1]])
    }

    const fn add(&mut self, hash: u128) {
        self.hash = self.hash.wrapping_add(hash);
    }

    const fn sub(&mut self, hash: u128) {
        self.hash = self.hash.wrapping_sub(hash);
    }
}
