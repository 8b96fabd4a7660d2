//! The settings: zones and their options, keys, grants, members, join tokens, feature level.

mod check;
mod data_key;
#[cfg(test)]
mod hashed;
mod items;
mod pins;
mod rotation;
#[cfg(test)]
mod tests;
mod trust;

use trust::Trust;
pub(crate) use trust::authority_context;

use super::hash::{Item, item_hash};
use crate::codec::Encoder;
use crate::entry::{SettingsChange, TOKEN_REVOKED, encode_algorithm, encode_grant, encode_options, encode_policy};
use crate::io::{AckOption, KeyAlgorithm, Member, NodeId, Right, ZoneOptions};
use crate::limits::{RETIRED_ZONES_MAX, TOKEN_LIFE_MS_MAX, TOKENS_MAX, ZONES_MAX};
use crate::policy::{Policy, Rules, UpdateGrant};
use crate::secrets::{DataKey, Sealed};
use crate::trust::JoinTokenStatus;
use crate::update::TsigKey;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::name::Name;
use wire::number::Serial;
use zeroize::Zeroizing;
use zone::ZoneId;

/// A TSIG key as the cluster holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyEntry {
    pub(crate) algorithm: KeyAlgorithm,
    pub(crate) secret: Sealed,
    /// The one before it, while it is rolled over.
    pub(crate) previous: Option<Sealed>,
    /// Index of the entry that made it: two keys of one name are told apart by it.
    pub(crate) generation: u64,
}

impl KeyEntry {
    /// Its secrets in clear, the newest first; `None` when no data key here opens them.
    pub(crate) fn secrets(&self, name: &Name, data_key: &DataKey) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let sealed = [Some(&self.secret), self.previous.as_ref()].into_iter().flatten();
        sealed.map(|secret| data_key.open(secret, &secret_context(name))).collect()
    }

    /// The key to verify with.
    pub(crate) fn open(&self, name: &Name, data_key: &DataKey) -> Option<TsigKey> {
        let secrets = self.secrets(name, data_key)?;
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_slice()).collect();
        TsigKey::new(name.as_ref(), self.algorithm, &secrets).ok()
    }
}

/// What is left of a zone that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retired {
    /// Its last serial.
    serial: Serial,
    /// Index of the entry that removed it.
    index: u64,
}

/// What administrators decided.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    cluster_id: [u8; 16],
    /// Raised by each change: what was decided under one epoch is not applied under another.
    epoch: u64,
    feature_level: u32,
    zones: BTreeMap<ZoneId, ZoneOptions>,
    /// Last serials of removed zones: a zone that is added again jumps ahead of them.
    retired: BTreeMap<ZoneId, Retired>,
    /// Removed zones by the index of the entry that removed them, so that the oldest are forgotten first.
    retired_order: BTreeMap<u64, ZoneId>,
    keys: BTreeMap<Name, KeyEntry>,
    grants: BTreeSet<(Name, Option<ZoneId>, Right)>,
    /// Who may write what, in one zone or in all; none is empty.
    policies: BTreeMap<Option<ZoneId>, Arc<Policy>>,
    policies_octets: usize,
    members: BTreeMap<NodeId, String>,
    /// Next incarnation of each node number that was ever in use.
    incarnations: BTreeMap<u32, u32>,
    /// Members that are to stay learners; all others are voters, or about to become some.
    learners: BTreeSet<NodeId>,
    /// Digest and expiry, in milliseconds since 1970.
    tokens: BTreeMap<[u8; 32], u64>,
    /// Those of them whose bearers become learners.
    learner_tokens: BTreeSet<[u8; 32]>,
    /// What members know each other by.
    trust: Trust,
    /// Members whose answers updates of [`AckOption::AllLive`] wait for, and the index of the entry that took each in.
    rotation: BTreeMap<NodeId, u64>,
    /// Zones of [`AckOption::AllLive`], and the index of the entry that made each so.
    all_live: BTreeMap<ZoneId, u64>,
    /// Every member knows of those that are so up to this index.
    all_live_known: u64,
    hash: u128,
}

impl Settings {
    /// The settings that a cluster begins with. All founders run one software, so it begins at the level of that.
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
            policies_octets: 0,
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

    /// A level that the software of none is at; the hash does not follow.
    #[cfg(test)]
    pub(crate) const fn pretend_feature_level(&mut self, level: u32) {
        self.feature_level = level;
    }

    /// The join tokens that are neither used up nor revoked.
    pub(crate) fn open_tokens(&self) -> impl Iterator<Item = JoinTokenStatus> {
        let open = self.tokens.iter().filter(|(_, expires)| **expires != TOKEN_REVOKED);
        open.map(|(&digest, &expires_wall_ms)| JoinTokenStatus {
            digest,
            expires_wall_ms,
            is_learner: self.learner_tokens.contains(&digest),
        })
    }

    pub(crate) const fn feature_level(&self) -> u32 {
        self.feature_level
    }

    pub(crate) const fn zones(&self) -> &BTreeMap<ZoneId, ZoneOptions> {
        &self.zones
    }

    pub(crate) fn retired_serial(&self, zone: &ZoneId) -> Option<Serial> {
        self.retired.get(zone).map(|retired| retired.serial)
    }

    pub(crate) const fn keys(&self) -> &BTreeMap<Name, KeyEntry> {
        &self.keys
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        self.members.iter().map(|(&id, address)| Member { id, address: address.clone() }).collect()
    }

    pub(crate) fn is_member(&self, id: NodeId) -> bool {
        self.members.contains_key(&id)
    }

    /// Whether a member is to stay a learner.
    pub(crate) fn is_learner(&self, id: NodeId) -> bool {
        self.learners.contains(&id)
    }

    /// Next incarnation of each node number that was ever in use.
    pub(crate) const fn incarnations(&self) -> &BTreeMap<u32, u32> {
        &self.incarnations
    }

    /// Whether a key may do something in a zone.
    pub(crate) fn is_granted(&self, key: &Name, zone: &ZoneId, right: Right) -> bool {
        // Two look-ups instead of a scan: a grant for all zones, and one for this.
        self.grants.contains(&(key.clone(), None, right))
            || self.grants.contains(&(key.clone(), Some(zone.clone()), right))
    }

    #[cfg(test)]
    pub(crate) const fn grants(&self) -> &BTreeSet<(Name, Option<ZoneId>, Right)> {
        &self.grants
    }

    /// Who may write what, in one zone or in all.
    pub(crate) const fn policies(&self) -> &BTreeMap<Option<ZoneId>, Arc<Policy>> {
        &self.policies
    }

    /// What decides about the updates of a key in a zone.
    pub(crate) fn rules<'s>(&'s self, key: &Name, zone: &'s ZoneId) -> Rules<'s> {
        let grant = if self.is_granted(key, zone, Right::UpdateApex) {
            UpdateGrant::Whole
        } else if self.is_granted(key, zone, Right::Update) {
            self.update_grant()
        } else {
            UpdateGrant::None
        };
        let of = |zone: Option<ZoneId>| self.policies.get(&zone).map(|policy| &**policy);
        Rules { apex: zone.apex.as_ref(), zone: of(Some(zone.clone())), all_zones: of(None), grant }
    }

    /// How far a grant of updates goes: before feature level 2 it took in all.
    pub(crate) const fn update_grant(&self) -> UpdateGrant {
        if self.feature_level < 2 { UpdateGrant::Whole } else { UpdateGrant::BelowApex }
    }

    /// The id for a node: its number with the next incarnation, or the next free number.
    pub(crate) fn next_id(&self, node: Option<u32>) -> NodeId {
        let node =
            node.unwrap_or_else(|| self.incarnations.keys().next_back().map_or(1, |last| last.saturating_add(1)));
        let incarnation = if planted!(RaftIdReused) { 0 } else { self.incarnations.get(&node).copied().unwrap_or(0) };
        u64::from(incarnation) << 32 | u64::from(node)
    }

    /// Applies a change that was made for this epoch. Total: whatever the change says, something sane results,
    /// the same on every replica.
    pub(crate) fn apply(&mut self, change: &SettingsChange, index: u64, time_ms: u64) {
        match change {
            SettingsChange::ZoneOptions { zone, options } => self.set_options(zone, *options, index),
            SettingsChange::ZoneRemove { zone } => self.remove_zone(zone),
            SettingsChange::KeyAdd { name, algorithm, secret } => {
                let (algorithm, secret) = (*algorithm, secret.clone());
                self.put_key(name, KeyEntry { algorithm, secret, previous: None, generation: index });
            }
            SettingsChange::KeyRoll { name, secret } => {
                // The key stays who it was: what was signed with the secret before stays the same request.
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

    /// Applies the changes of members and of join tokens.
    fn apply_member(&mut self, change: &SettingsChange, time_ms: u64) {
        match change {
            SettingsChange::MemberAdd { id, address, token } => {
                self.put_member(*id, address.clone());
                if let Some(digest) = token {
                    if self.learner_tokens.contains(digest) {
                        self.set_learner(*id, true);
                    }
                    self.remove_token(digest);
                }
            }
            SettingsChange::MemberRemove { id } => self.remove_member(*id),
            SettingsChange::TokenAdd { digest, expires_wall_ms } => {
                self.remove_void_tokens(time_ms);
                self.put_token(*digest, *expires_wall_ms);
            }
            SettingsChange::LearnerTokenAdd { digest, expires_wall_ms } => {
                self.remove_void_tokens(time_ms);
                self.put_token(*digest, *expires_wall_ms);
                self.put_learner_token(*digest);
            }
            SettingsChange::TokenFor { digest, life_ms, is_learner } => {
                // The time may be wrong, so expired tokens are removed only when their places are needed.
                if self.tokens.len() >= TOKENS_MAX {
                    self.remove_void_tokens(time_ms);
                }
                self.put_token(*digest, time_ms.saturating_add((*life_ms).min(TOKEN_LIFE_MS_MAX)));
                if *is_learner {
                    self.put_learner_token(*digest);
                }
            }
            SettingsChange::MemberMove { id, address } if self.is_member(*id) => self.put_member(*id, address.clone()),
            SettingsChange::MemberRole { id, votes } if self.is_member(*id) => self.set_learner(*id, !votes),
            SettingsChange::MemberReplace { gone, new }
                if self.is_member(*gone) && self.is_member(*new) && gone != new =>
            {
                self.remove_member(*gone);
                self.set_learner(*new, false);
            }
            _ => {}
        }
    }

    /// Makes a zone known, by the entry of this index; its contents are the business of the zone set.
    pub(crate) fn add_zone(&mut self, zone: &ZoneId, options: ZoneOptions, index: u64) {
        self.put_zone(zone, options);
        self.set_ack(zone, options.ack, index);
        self.forget_retired(zone);
        self.raise_epoch();
    }

    /// Remembers the last serial of a zone that goes, by the entry of this index.
    pub(crate) fn retire(&mut self, zone: &ZoneId, serial: Serial, index: u64) {
        if planted!(RetiredSerialsForgotten) {
            return;
        }
        self.put_retired(zone, Retired { serial, index });
        while self.retired.len() > RETIRED_ZONES_MAX {
            let Some((_, oldest)) = self.retired_order.first_key_value() else { break };
            self.forget_retired(&oldest.clone());
        }
    }

    /// Moves the serials with which removed zones would come back.
    pub(crate) fn step_retired(&mut self, step: impl Fn(Serial) -> Serial) {
        for (zone, Retired { serial, index }) in self.retired.clone() {
            self.put_retired(&zone, Retired { serial: step(serial), index });
        }
    }

    /// Belongs to another cluster from now on, of which this is the only member: nobody of the old one is known any
    /// more, nor how to join it; its node numbers are used up. `reseal` seals a secret anew, by its context, under the
    /// data key of that number.
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

    /// Whether this key opens every secret of TSIG keys.
    ///
    /// # Errors
    /// The first key whose secret it does not open.
    pub(crate) fn check_opens(&self, data_key: &DataKey) -> Result<(), Name> {
        for (name, key) in &self.keys {
            let context = secret_context(name);
            let mut secrets = core::iter::once(&key.secret).chain(&key.previous);
            if !secrets.all(|sealed| data_key.open(sealed, &context).is_some()) {
                return Err(name.clone());
            }
        }
        Ok(())
    }

    /// The grants of a key.
    pub(crate) fn grants_of(&self, key: &Name) -> impl Iterator<Item = (Option<&ZoneId>, Right)> {
        // The first that there can be.
        let from = (key.clone(), None, Right::Update);
        let of_key = self.grants.range(from..).map_while(move |(of, zone, right)| (of == key).then_some((zone, right)));
        of_key.map(|(zone, right)| (zone.as_ref(), *right))
    }

    /// Keys that are granted something in this very zone.
    pub(crate) fn grantees(&self, zone: &ZoneId) -> Vec<Name> {
        let of_zone = self.grants.iter().filter(|(_, of, _)| of.as_ref() == Some(zone));
        let mut keys: Vec<Name> = of_zone.map(|(key, ..)| key.clone()).collect();
        keys.dedup();
        keys
    }

    pub(crate) fn has_room_for_zone(&self) -> bool {
        self.zones.len() < ZONES_MAX
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

    fn put_zone(&mut self, zone: &ZoneId, options: ZoneOptions) {
        self.add(zone_hash(zone, options));
        if let Some(old) = self.zones.insert(zone.clone(), options) {
            self.sub(zone_hash(zone, old));
        }
    }

    fn remove_zone(&mut self, zone: &ZoneId) {
        let Some(options) = self.zones.remove(zone) else { return };
        self.set_ack(zone, AckOption::Majority, 0);
        self.sub(zone_hash(zone, options));
        let of_zone = |grant: &&(Name, Option<ZoneId>, Right)| grant.1.as_ref() == Some(zone);
        for grant in self.grants.iter().filter(of_zone).cloned().collect::<Vec<_>>() {
            self.remove_grant(&grant);
        }
        self.put_policy(Some(zone.clone()), Arc::default());
    }

    /// An empty one leaves none.
    fn put_policy(&mut self, zone: Option<ZoneId>, policy: Arc<Policy>) {
        if let Some(old) = self.policies.remove(&zone) {
            self.sub(policy_hash(zone.as_ref(), &old));
            self.policies_octets -= old.octets_count();
        }
        if !policy.is_empty() {
            self.add(policy_hash(zone.as_ref(), &policy));
            self.policies_octets += policy.octets_count();
            self.policies.insert(zone, policy);
        }
    }

    fn put_retired(&mut self, zone: &ZoneId, retired: Retired) {
        self.forget_retired(zone);
        self.add(retired_hash(zone, retired));
        self.retired.insert(zone.clone(), retired);
        self.retired_order.insert(retired.index, zone.clone());
    }

    fn forget_retired(&mut self, zone: &ZoneId) {
        if let Some(retired) = self.retired.remove(zone) {
            self.retired_order.remove(&retired.index);
            self.sub(retired_hash(zone, retired));
        }
    }

    fn put_key(&mut self, name: &Name, key: KeyEntry) {
        self.add(key_hash(name, &key));
        if let Some(old) = self.keys.insert(name.clone(), key) {
            self.sub(key_hash(name, &old));
        }
    }

    fn remove_key(&mut self, name: &Name) {
        let Some(key) = self.keys.remove(name) else { return };
        self.sub(key_hash(name, &key));
        let grants: Vec<_> = self.grants_of(name).map(|(zone, right)| (name.clone(), zone.cloned(), right)).collect();
        grants.iter().for_each(|grant| self.remove_grant(grant));
    }

    fn put_grant(&mut self, grant: (Name, Option<ZoneId>, Right)) {
        let hash = grant_hash(&grant);
        if self.grants.insert(grant) {
            self.add(hash);
        }
    }

    fn remove_grant(&mut self, grant: &(Name, Option<ZoneId>, Right)) {
        if self.grants.remove(grant) {
            self.sub(grant_hash(grant));
        }
    }

    fn put_member(&mut self, id: NodeId, address: String) {
        self.add(member_hash(id, &address));
        if let Some(old) = self.members.insert(id, address) {
            self.sub(member_hash(id, &old));
        }
        let (node, incarnation) = (id as u32, (id >> 32) as u32);
        let next = self.incarnations.get(&node).copied().unwrap_or(0).max(incarnation.saturating_add(1));
        self.put_incarnation(node, next);
    }

    fn remove_member(&mut self, id: NodeId) {
        if let Some(address) = self.members.remove(&id) {
            self.sub(member_hash(id, &address));
            self.set_learner(id, false);
            self.forget_standing(id);
            self.data_key_is_known_outside();
            self.take_out_of_rotation(id);
        }
    }

    fn set_learner(&mut self, id: NodeId, stays: bool) {
        let hash = item_hash(Item::Learner, &[&id.to_be_bytes()]);
        if stays && self.learners.insert(id) {
            self.add(hash);
        } else if !stays && self.learners.remove(&id) {
            self.sub(hash);
        }
    }

    fn put_incarnation(&mut self, node: u32, next: u32) {
        self.add(incarnation_hash(node, next));
        if let Some(old) = self.incarnations.insert(node, next) {
            self.sub(incarnation_hash(node, old));
        }
    }

    fn put_token(&mut self, digest: [u8; 32], expires: u64) {
        self.add(token_hash(&digest, expires));
        if let Some(old) = self.tokens.insert(digest, expires) {
            self.sub(token_hash(&digest, old));
        }
    }

    fn remove_token(&mut self, digest: &[u8; 32]) {
        if let Some(expires) = self.tokens.remove(digest) {
            self.sub(token_hash(digest, expires));
        }
        if self.learner_tokens.remove(digest) {
            self.sub(item_hash(Item::LearnerToken, &[digest]));
        }
    }

    fn remove_void_tokens(&mut self, time_ms: u64) {
        let void = |(digest, &expires): (&[u8; 32], &u64)| (expires < time_ms).then_some(*digest);
        for digest in self.tokens.iter().filter_map(void).collect::<Vec<_>>() {
            self.remove_token(&digest);
        }
    }

    /// Corrects tokens after the clock was ahead; it now shows `time_ms`. A token with more than the longest lifetime
    /// left was made while the clock was ahead, and keeps its planned lifetime. Older tokens stay as they are.
    fn move_tokens_back(&mut self, by_ms: u64, time_ms: u64) {
        let last_ms = time_ms.saturating_add(TOKEN_LIFE_MS_MAX);
        for (digest, expires) in self.tokens.clone() {
            if expires > last_ms {
                self.put_token(digest, expires.saturating_sub(by_ms).min(last_ms));
            }
        }
    }

    fn put_learner_token(&mut self, digest: [u8; 32]) {
        if self.learner_tokens.insert(digest) {
            self.add(item_hash(Item::LearnerToken, &[&digest]));
        }
    }
}

/// Binds a sealed secret to its key, so that the secrets of two keys cannot be exchanged.
pub(crate) fn secret_context(name: &Name) -> Vec<u8> {
    [b"tsig ".as_slice(), name.octets()].concat()
}

fn zone_hash(zone: &ZoneId, options: ZoneOptions) -> u128 {
    let mut out = Encoder::new();
    encode_options(options, &mut out);
    item_hash(Item::Zone, &[&zone.view.to_be_bytes(), zone.apex.octets(), &out.finish()])
}

fn retired_hash(zone: &ZoneId, retired: Retired) -> u128 {
    let numbers = (retired.serial.0.to_be_bytes(), retired.index.to_be_bytes());
    item_hash(Item::Retired, &[&zone.view.to_be_bytes(), zone.apex.octets(), &numbers.0, &numbers.1])
}

fn key_hash(name: &Name, key: &KeyEntry) -> u128 {
    let mut out = Encoder::new();
    encode_algorithm(key.algorithm, &mut out);
    // Of the sealed octets: nobody who sees a hash can test guesses of a secret against it.
    key.secret.encode(&mut out);
    out.u64(key.generation);
    if let Some(previous) = &key.previous {
        previous.encode(&mut out);
    }
    item_hash(Item::Key, &[name.octets(), &out.finish()])
}

fn grant_hash((key, zone, right): &(Name, Option<ZoneId>, Right)) -> u128 {
    let mut out = Encoder::new();
    encode_grant(key, zone.as_ref(), *right, &mut out);
    item_hash(Item::Grant, &[&out.finish()])
}

fn policy_hash(zone: Option<&ZoneId>, policy: &Policy) -> u128 {
    let mut out = Encoder::new();
    encode_policy(zone, policy, &mut out);
    item_hash(Item::Policy, &[&out.finish()])
}

fn member_hash(id: NodeId, address: &str) -> u128 {
    item_hash(Item::Member, &[&id.to_be_bytes(), address.as_bytes()])
}

fn incarnation_hash(node: u32, next: u32) -> u128 {
    item_hash(Item::Incarnation, &[&node.to_be_bytes(), &next.to_be_bytes()])
}

fn token_hash(digest: &[u8; 32], expires: u64) -> u128 {
    item_hash(Item::Token, &[digest, &expires.to_be_bytes()])
}
