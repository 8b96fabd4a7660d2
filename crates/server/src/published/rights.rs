//! Keys, grants and update policies, as the update threads see them: copies that are replaced whole when they change.

use policy::{Policy, Rules, UpdateGrant};
use replica::KeyStatus;
use replica::io::Right;
use std::collections::BTreeMap;
use std::sync::Arc;
use tsig::{KeyTable, NameTable, TsigKey};
use wire::Name;
use zone::record::ZoneId;

/// The rights of all keys.
#[derive(Clone, Debug)]
pub(crate) struct Rights {
    /// Keys to verify requests.
    pub(crate) keys: KeyTable,
    statuses: NameTable<Arc<KeyStatus>>,
    policies: Arc<BTreeMap<Option<ZoneId>, Arc<Policy>>>,
    update_grant: UpdateGrant,
    /// Whether any policy has a rule for a daemon.
    asks_daemons: bool,
}

impl Default for Rights {
    fn default() -> Self {
        Self {
            keys: KeyTable::default(),
            statuses: NameTable::default(),
            policies: Arc::default(),
            update_grant: UpdateGrant::None,
            asks_daemons: false,
        }
    }
}

impl Rights {
    /// Returns a copy with other keys and grants.
    pub(crate) fn with_keys(&self, keys: KeyTable, statuses: Vec<KeyStatus>) -> Self {
        let mut table = NameTable::default();
        statuses.into_iter().for_each(|status| table.insert(status.name.clone().as_ref(), Arc::new(status)));
        Self { keys, statuses: table, ..self.clone() }
    }

    /// Returns a copy with other secrets or grants of one key, or without it.
    pub(crate) fn with_key(&self, name: &Name, key: Option<TsigKey>, status: Option<KeyStatus>) -> Self {
        let mut rights = self.clone();
        rights.keys.remove(name.as_ref());
        // The table cannot be full: limits keep the settings smaller.
        let _ = key.map(|key| rights.keys.insert(key));
        match status {
            Some(status) => rights.statuses.insert(name.as_ref(), Arc::new(status)),
            None => rights.statuses.remove(name.as_ref()),
        }
        rights
    }

    /// Returns a copy with other policies.
    pub(crate) fn with_policies(
        &self,
        policies: BTreeMap<Option<ZoneId>, Arc<Policy>>,
        update_grant: UpdateGrant,
    ) -> Self {
        let asks_daemons = policies.values().any(|policy| policy.asks_daemons());
        Self { policies: Arc::new(policies), update_grant, asks_daemons, ..self.clone() }
    }

    /// Whether any policy has an `external` rule.
    pub(crate) const fn asks_daemons(&self) -> bool {
        self.asks_daemons
    }

    /// All keys by name, without secrets.
    pub(crate) fn statuses(&self) -> Vec<Arc<KeyStatus>> {
        let mut statuses: Vec<_> = self.statuses.values().cloned().collect();
        statuses.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        statuses
    }

    /// The status of a key.
    pub(crate) fn status(&self, key: &Name) -> Option<&KeyStatus> {
        self.statuses.get(key.as_ref()).map(|status| &**status)
    }

    /// Whether `key` may do this in `zone`.
    pub(crate) fn is_granted(&self, key: &Name, zone: &ZoneId, right: Right) -> bool {
        let grants = self.status(key).map_or(&[][..], |key| &key.grants);
        grants.iter().any(|(granted, may)| *may == right && granted.as_ref().is_none_or(|granted| granted == zone))
    }

    /// The policy of a zone, or the one for all.
    pub(crate) fn policy(&self, zone: Option<&ZoneId>) -> Option<&Arc<Policy>> {
        self.policies.get(&zone.cloned())
    }

    /// The policies with a rule that grants `key` something. `None` means the policy for all zones.
    pub(crate) fn granting_policies<'r>(&'r self, key: &'r Name) -> impl Iterator<Item = Option<&'r ZoneId>> {
        let grants = |policy: &Policy| policy.has_grant_for(key.as_ref());
        self.policies.iter().filter(move |(_, policy)| grants(policy)).map(|(zone, _)| zone.as_ref())
    }

    /// The rules for updates of `key` in `zone`, as far as this node knows. The leader decides.
    pub(crate) fn rules<'r>(&'r self, key: &Name, zone: &'r ZoneId) -> Rules<'r> {
        let grant = if self.is_granted(key, zone, Right::UpdateApex) {
            UpdateGrant::Whole
        } else if self.is_granted(key, zone, Right::Update) {
            self.update_grant
        } else {
            UpdateGrant::None
        };
        let of = |zone: Option<&ZoneId>| self.policy(zone).map(|policy| &**policy);
        Rules { apex: zone.apex.as_ref(), zone: of(Some(zone)), all_zones: of(None), grant }
    }
}
