//! Keys and grants, as the update threads see them: a copy that is replaced whole when they change.

use replica::io::Right;
use replica::update::KeyTable;
use wire::Name;
use zone::record::ZoneId;

/// What a key may do where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) key: Name,
    /// `None` means all zones.
    pub(crate) zone: Option<ZoneId>,
    pub(crate) right: Right,
}

/// Keys and grants.
#[derive(Default, Debug)]
pub(crate) struct Rights {
    pub(crate) keys: KeyTable,
    pub(crate) grants: Vec<Grant>,
}

impl Rights {
    /// Whether `key` may do this in `zone`.
    pub(crate) fn is_granted(&self, key: &Name, zone: &ZoneId, right: Right) -> bool {
        self.grants.iter().any(|grant| {
            grant.right == right && grant.key == *key && grant.zone.as_ref().is_none_or(|granted| granted == zone)
        })
    }
}
