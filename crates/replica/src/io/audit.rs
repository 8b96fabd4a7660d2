//! Records for the audit log.

use crate::limits::{AUDIT_NAMES_BYTES_MAX, AUDIT_NAMES_MAX};
use core::net::IpAddr;
use wire::name::{Name, NameRef};
use wire::number::{Rtype, Serial};
use zone::ZoneId;

/// What an applied entry changed, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditRecord {
    /// An update changed a zone.
    Update(UpdateRecord),
    /// An administrator made a change, through the API of some node.
    Action(ActionRecord),
}

impl AuditRecord {
    /// Index of its entry: the same on all members, and increasing.
    #[must_use]
    pub const fn index(&self) -> u64 {
        match self {
            Self::Update(record) => record.index,
            Self::Action(record) => record.index,
        }
    }
}

/// An administrator's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRecord {
    /// Index of its entry.
    pub index: u64,
    /// When the leader accepted it, in milliseconds since 1970.
    pub time_ms: u64,
    /// The action; its wording never changes.
    pub action: &'static str,
    /// The subject of the action; never a secret.
    pub subject: String,
}

/// An update that changed a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRecord {
    /// Index of its entry: the same on all members, and increasing.
    pub index: u64,
    /// When the leader evaluated it, in milliseconds since 1970.
    pub time_ms: u64,
    /// The key that signed it.
    pub key: Name,
    /// The client's address; an IPv4 address is mapped into IPv6.
    pub source: IpAddr,
    /// The changed zone.
    pub zone: ZoneId,
    /// The serial before.
    pub serial_from: Option<Serial>,
    /// The serial after.
    pub serial_to: Serial,
    /// Number of deleted records, including the SOA.
    pub deleted_count: usize,
    /// Number of added records, including the SOA.
    pub added_count: usize,
    /// Owners and types of the deleted and added records.
    pub names: AuditNames,
}

/// Owners and types that an update changes, as many as fit into a line of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditNames {
    /// Each once, in the order of the changeset.
    pub names: Vec<(Name, Rtype)>,
    /// Whether there are more.
    pub has_more: bool,
}

impl AuditNames {
    /// The first owners and types up to the limits, without the SOA, because every change includes it.
    #[must_use]
    pub fn of<'n>(all: impl Iterator<Item = (NameRef<'n>, Rtype)>) -> Self {
        let (mut kept, mut bytes) = (Self::default(), 0);
        for (owner, rtype) in all.filter(|(_, rtype)| *rtype != Rtype::SOA) {
            if kept.names.iter().any(|(name, of)| *of == rtype && name.as_ref() == owner) {
                continue;
            }
            bytes += owner.as_bytes().len();
            if kept.names.len() == AUDIT_NAMES_MAX || bytes > AUDIT_NAMES_BYTES_MAX {
                kept.has_more = true;
                break;
            }
            kept.names.push((owner.to_name(), rtype));
        }
        kept
    }
}
