//! Audit records of applied entries.

use crate::entry::{Body, Entry};
use crate::io::{ActionRecord, AuditNames, AuditRecord, UpdateRecord};
use crate::machine::Applied;
use core::net::Ipv6Addr;

/// The audit record of an applied entry: of an UPDATE that changed a zone, or of an administrator's change.
pub(crate) fn record_of(index: u64, entry: &Entry, applied: &Applied) -> Option<AuditRecord> {
    let time_ms = entry.time_ms;
    let action = |action, subject| AuditRecord::Action(ActionRecord { index, time_ms, action, subject });
    match (applied, &entry.body) {
        (Applied::Mismatch { .. } | Applied::Full, _) => None,
        (_, Body::Update(update)) => {
            let change = update.change.as_ref()?;
            let records = change.changeset.deleted.iter().chain(&change.changeset.added);
            Some(AuditRecord::Update(UpdateRecord {
                index,
                time_ms,
                key: update.key_name.clone(),
                source: Ipv6Addr::from(update.source).into(),
                zone: change.zone.clone(),
                serial_from: change.changeset.serial_from,
                serial_to: change.changeset.serial_to,
                deleted_count: change.changeset.deleted.len(),
                added_count: change.changeset.added.len(),
                names: AuditNames::of(records.map(|record| (record.owner.as_ref(), record.rtype))),
            }))
        }
        (_, Body::Settings(settings)) => {
            let (what, subject) = settings.change.in_words()?;
            Some(action(what, subject))
        }
        (_, Body::Change(change)) => Some(action("zone replace", change.zone.apex.to_string())),
        (Applied::Settings(effect), Body::ImportCommit(_)) => {
            Some(action("zone import", effect.zones.first()?.apex.to_string()))
        }
        (_, Body::ImportBegin(_) | Body::ImportChunk(_) | Body::ImportCommit(_) | Body::ImportAbandon(_)) => None,
    }
}
