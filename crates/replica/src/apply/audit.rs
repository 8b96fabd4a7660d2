//! What an applied entry leaves for who asks later.

use crate::entry::{Body, Entry};
use crate::io::AuditRecord;
use crate::machine::Applied;
use core::net::Ipv6Addr;

/// The record of an entry that was applied; only an UPDATE that changed a zone leaves one.
pub(crate) fn record_of(index: u64, entry: &Entry, applied: &Applied) -> Option<AuditRecord> {
    let (Applied::Update { .. }, Body::Update(update)) = (applied, &entry.body) else { return None };
    let change = update.change.as_ref()?;
    Some(AuditRecord {
        index,
        time_ms: entry.time_ms,
        key: update.key_name.clone(),
        source: Ipv6Addr::from(update.source).into(),
        zone: change.zone.clone(),
        serial_from: change.changeset.serial_from,
        serial_to: change.changeset.serial_to,
        deleted_count: change.changeset.deleted.len(),
        added_count: change.changeset.added.len(),
    })
}
