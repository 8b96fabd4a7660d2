//! What entries leave in the audit log.

use crate::apply::AuditNames;
use core::net::IpAddr;
use wire::name::Name;
use wire::number::Serial;
use zone::ZoneId;

/// What an entry left for who asks later who did what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditRecord {
    /// An update changed a zone.
    Update(UpdateRecord),
    /// An administrator changed something, through the API of some node.
    Action(ActionRecord),
}

impl AuditRecord {
    /// Index of its entry: the same on all members, and rising.
    #[must_use]
    pub const fn index(&self) -> u64 {
        match self {
            Self::Update(record) => record.index,
            Self::Action(record) => record.index,
        }
    }
}

/// What an administrator changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionRecord {
    /// Index of its entry.
    pub index: u64,
    /// When the leader took it, in milliseconds since 1970.
    pub time_ms: u64,
    /// What was done, in words that do not change.
    pub action: &'static str,
    /// To what; never a secret.
    pub subject: String,
}

/// An update that changed a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRecord {
    /// Index of its entry: the same on all members, and rising.
    pub index: u64,
    /// When the leader evaluated it, in milliseconds since 1970.
    pub time_ms: u64,
    /// The key that signed it.
    pub key: Name,
    /// Where it came from; an IPv4 address is mapped into IPv6.
    pub source: IpAddr,
    /// What it changed.
    pub zone: ZoneId,
    /// The serial before.
    pub serial_from: Option<Serial>,
    /// The serial after.
    pub serial_to: Serial,
    /// Records that went, the SOA counted in.
    pub deleted_count: usize,
    /// Records that came, the SOA counted in.
    pub added_count: usize,
    /// Whose records went or came.
    pub names: AuditNames,
}
