//! Keys and grants, as the update threads see them: a copy that is replaced whole when they change.

use replica::KeyStatus;
use replica::io::Right;
use replica::update::KeyTable;
use std::collections::BTreeMap;
use wire::Name;
use zone::record::ZoneId;

/// Keys and grants.
#[derive(Default, Debug)]
pub(crate) struct Rights {
    /// To verify requests with.
    pub(crate) keys: KeyTable,
    statuses: BTreeMap<Name, KeyStatus>,
}

impl Rights {
    pub(crate) fn new(keys: KeyTable, statuses: Vec<KeyStatus>) -> Self {
        Self { keys, statuses: statuses.into_iter().map(|key| (key.name.clone(), key)).collect() }
    }

    /// All keys by name, without secrets.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = &KeyStatus> {
        self.statuses.values()
    }

    /// Whether `key` may do this in `zone`.
    pub(crate) fn is_granted(&self, key: &Name, zone: &ZoneId, right: Right) -> bool {
        let grants = self.statuses.get(key).map_or(&[][..], |key| &key.grants);
        grants.iter().any(|(granted, may)| *may == right && granted.as_ref().is_none_or(|granted| granted == zone))
    }
}
