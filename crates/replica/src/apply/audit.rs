//! What an applied entry leaves for who asks later.

use crate::entry::{Body, Entry};
use crate::io::{ActionRecord, AuditRecord, UpdateRecord};
use crate::limits::{AUDIT_NAMES_BYTES_MAX, AUDIT_NAMES_MAX};
use crate::machine::Applied;
use core::net::Ipv6Addr;
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// The record of an entry that was applied: of an UPDATE that changed a zone, or of what an administrator changed.
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

/// Owners and types that an update is about, as many as a line of an audit log has room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditNames {
    /// Each once, in the order in which they come.
    pub names: Vec<(Name, Rtype)>,
    /// There are others.
    pub has_more: bool,
}

impl AuditNames {
    /// The first of them, up to the bounds; the SOA, which every change has, is not one.
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
