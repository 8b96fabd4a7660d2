//! TSIG keys, their grants, and policies.

use super::Settings;
use super::key_entry::{KeyEntry, secret_context};
use crate::entry::{encode_algorithm, encode_grant, encode_policy};
use crate::io::Right;
use crate::secrets::DataKey;
use crate::state::{Item, item_hash};
use policy::{Policy, Rules, UpdateGrant};
use std::collections::BTreeMap;
#[cfg(test)]
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::name::Name;
use zone::ZoneId;
use zone::codec::Encoder;

impl Settings {
    pub(crate) const fn keys(&self) -> &BTreeMap<Name, KeyEntry> {
        &self.keys
    }

    /// Checks that this data key opens every secret of TSIG keys.
    ///
    /// # Errors
    /// The first key whose secret cannot be opened.
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

    /// Whether a key has a right in a zone.
    pub(crate) fn is_granted(&self, key: &Name, zone: &ZoneId, right: Right) -> bool {
        // Two lookups instead of a scan: a grant for all zones, and one for this zone.
        self.grants.contains(&(key.clone(), None, right))
            || self.grants.contains(&(key.clone(), Some(zone.clone()), right))
    }

    #[cfg(test)]
    pub(crate) const fn grants(&self) -> &BTreeSet<(Name, Option<ZoneId>, Right)> {
        &self.grants
    }

    /// The grants of a key.
    pub(crate) fn grants_of(&self, key: &Name) -> impl Iterator<Item = (Option<&ZoneId>, Right)> {
        // The first possible grant of the key.
        let from = (key.clone(), None, Right::Update);
        let of_key = self.grants.range(from..).map_while(move |(of, zone, right)| (of == key).then_some((zone, right)));
        of_key.map(|(zone, right)| (zone.as_ref(), *right))
    }

    /// Keys with a grant for exactly this zone.
    pub(crate) fn grantees(&self, zone: &ZoneId) -> Vec<Name> {
        let of_zone = self.grants.iter().filter(|(_, of, _)| of.as_ref() == Some(zone));
        let mut keys: Vec<Name> = of_zone.map(|(key, ..)| key.clone()).collect();
        keys.dedup();
        keys
    }

    /// The update policies, per zone and for all zones.
    pub(crate) const fn policies(&self) -> &BTreeMap<Option<ZoneId>, Arc<Policy>> {
        &self.policies
    }

    /// The rules for updates of a key in a zone.
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

    /// The extent of a grant for updates. Before feature level 2 it covered everything.
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

    /// An empty policy removes the present one.
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

fn key_hash(name: &Name, key: &KeyEntry) -> u128 {
    let mut out = Encoder::new();
    encode_algorithm(key.algorithm, &mut out);
    // The hash is of the sealed bytes, so it cannot be used to test guesses of a secret.
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
