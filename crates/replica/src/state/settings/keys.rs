//! TSIG keys, what they are granted, and policies.

use super::Settings;
use crate::entry::{encode_algorithm, encode_grant, encode_policy};
use crate::io::Right;
use crate::secrets::{DataKey, Sealed};
use crate::state::{Item, item_hash};
use policy::{Policy, Rules, UpdateGrant};
use std::collections::BTreeMap;
#[cfg(test)]
use std::collections::BTreeSet;
use std::sync::Arc;
use tsig::{KeyAlgorithm, TsigKey};
use wire::name::Name;
use zeroize::Zeroizing;
use zone::ZoneId;
use zone::codec::Encoder;

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

impl Settings {
    pub(crate) const fn keys(&self) -> &BTreeMap<Name, KeyEntry> {
        &self.keys
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

    pub(super) fn put_key(&mut self, name: &Name, key: KeyEntry) {
        self.add(key_hash(name, &key));
        if let Some(old) = self.keys.insert(name.clone(), key) {
            self.sub(key_hash(name, &old));
        }
    }

    pub(super) fn remove_key(&mut self, name: &Name) {
        let Some(key) = self.keys.remove(name) else { return };
        self.sub(key_hash(name, &key));
        let grants: Vec<_> = self.grants_of(name).map(|(zone, right)| (name.clone(), zone.cloned(), right)).collect();
        grants.iter().for_each(|grant| self.remove_grant(grant));
    }

    pub(super) fn put_grant(&mut self, grant: (Name, Option<ZoneId>, Right)) {
        let hash = grant_hash(&grant);
        if self.grants.insert(grant) {
            self.add(hash);
        }
    }

    pub(super) fn remove_grant(&mut self, grant: &(Name, Option<ZoneId>, Right)) {
        if self.grants.remove(grant) {
            self.sub(grant_hash(grant));
        }
    }

    /// An empty one leaves none.
    pub(super) fn put_policy(&mut self, zone: Option<ZoneId>, policy: Arc<Policy>) {
        if let Some(old) = self.policies.remove(&zone) {
            self.sub(policy_hash(zone.as_ref(), &old));
            self.policies_bytes -= old.bytes_count();
        }
        if !policy.is_empty() {
            self.add(policy_hash(zone.as_ref(), &policy));
            self.policies_bytes += policy.bytes_count();
            self.policies.insert(zone, policy);
        }
    }
}

/// Binds a sealed secret to its key, so that the secrets of two keys cannot be exchanged.
pub(crate) fn secret_context(name: &Name) -> Vec<u8> {
    [b"tsig ".as_slice(), name.as_bytes()].concat()
}

fn key_hash(name: &Name, key: &KeyEntry) -> u128 {
    let mut out = Encoder::new();
    encode_algorithm(key.algorithm, &mut out);
    // Of the sealed bytes: nobody who sees a hash can test guesses of a secret against it.
    key.secret.encode(&mut out);
    out.u64(key.generation);
    if let Some(previous) = &key.previous {
        previous.encode(&mut out);
    }
    item_hash(Item::Key, &[name.as_bytes(), &out.finish()])
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
