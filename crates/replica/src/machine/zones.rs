//! The part of an entry that changes zones, applied to the head of the zone set: by a leader when it proposes, by
//! other members when they apply.

use crate::entry::{Body, ImportPurpose, SettingsChange, ZoneChange};
use crate::machine::stages::Stages;
use zone::set::{ApplyError, ImportError, Version, ZoneError};
use zone::{RecordList, ZoneId, ZoneSet};

/// The change of zones by an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ZoneWork<'e> {
    Change(&'e ZoneChange),
    Stage { zone: &'e ZoneId, records: &'e RecordList },
    Commit { zone: &'e ZoneId, purpose: ImportPurpose },
    Abandon { zone: &'e ZoneId },
    Remove { zone: &'e ZoneId },
}

/// Why the zones refuse a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyMismatch {
    /// The zone's contents are not those that the change was made for.
    Base,
    /// The new contents would not form a zone.
    Content,
    /// The memory of this replica is full, so it cannot continue.
    Full,
}

/// The change of zones by `body`; `None` if there is none. `stages` is the state before the entry.
pub(crate) fn zone_work<'e>(body: &'e Body, stages: &'e Stages) -> Option<ZoneWork<'e>> {
    match body {
        Body::Update(update) => update.change.as_ref().map(ZoneWork::Change),
        Body::Change(change) => Some(ZoneWork::Change(change)),
        Body::ImportBegin(_) => None,
        Body::ImportChunk(chunk) => {
            let zone = &stages.get(chunk.stage)?.zone;
            Some(ZoneWork::Stage { zone, records: &chunk.records })
        }
        Body::ImportCommit(commit) => {
            let stage = stages.get(commit.stage)?;
            Some(ZoneWork::Commit { zone: &stage.zone, purpose: stage.purpose })
        }
        // A stage without chunks has no records in the zone set.
        Body::ImportAbandon(id) => {
            stages.get(*id).filter(|stage| stage.next_chunk > 0).map(|stage| ZoneWork::Abandon { zone: &stage.zone })
        }
        Body::Settings(settings) => match &settings.change {
            SettingsChange::ZoneRemove { zone } => Some(ZoneWork::Remove { zone }),
            _ => None,
        },
    }
}

/// Applies the change to the head, completely or not at all.
pub(crate) fn apply_work(zones: &mut ZoneSet, work: ZoneWork<'_>) -> Result<Version, ApplyMismatch> {
    check_base(zones, work)?;
    let mut edit = zones.edit();
    match work {
        ZoneWork::Change(change) => edit.apply(&change.zone, &change.changeset)?,
        ZoneWork::Stage { zone, records } => edit.add_records(zone, records.iter())?,
        ZoneWork::Commit { zone, .. } => edit.commit_stage(zone)?,
        ZoneWork::Abandon { zone } => edit.abandon_stage(zone)?,
        ZoneWork::Remove { zone } => edit.remove_zone(zone)?,
    }
    #[cfg(any(test, feature = "testing"))]
    if let ZoneWork::Change(change) = work {
        crate::testing::panics::at_apply(&change.changeset);
    }
    Ok(edit.seal())
}

fn check_base(zones: &ZoneSet, work: ZoneWork<'_>) -> Result<(), ApplyMismatch> {
    let hash_of = |zone: &ZoneId| zones.head().zone(zone).map(|zone| zone.hash());
    let holds = match work {
        ZoneWork::Change(change) => planted!(BaseNotCompared) || hash_of(&change.zone) == Some(change.base_hash),
        ZoneWork::Commit { zone, purpose: ImportPurpose::Create { .. } } => hash_of(zone).is_none(),
        ZoneWork::Commit { zone, purpose: ImportPurpose::Replace { base_hash } } => hash_of(zone) == Some(base_hash),
        ZoneWork::Stage { .. } | ZoneWork::Abandon { .. } | ZoneWork::Remove { .. } => true,
    };
    if holds { Ok(()) } else { Err(ApplyMismatch::Base) }
}

impl From<ApplyError> for ApplyMismatch {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::Full(_) => Self::Full,
            ApplyError::Unknown | ApplyError::Base { .. } => Self::Base,
            _ => Self::Content,
        }
    }
}

impl From<ImportError> for ApplyMismatch {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Full(_) => Self::Full,
            ImportError::Record { .. } => Self::Content,
        }
    }
}

impl From<ZoneError> for ApplyMismatch {
    fn from(error: ZoneError) -> Self {
        match error {
            ZoneError::Full(_) => Self::Full,
            ZoneError::Unknown | ZoneError::Exists => Self::Base,
            ZoneError::Content(_) => Self::Content,
        }
    }
}
