//! The part of an entry that changes zones, carried out on the head of the zone set: by a leader when it
//! proposes, by everybody else when they apply.

use crate::entry::{Body, ImportPurpose, SettingsChange, ZoneChange};
use crate::machine::stages::Stages;
use zone::set::{ApplyError, Edit, ImportError, Version, ZoneError};
use zone::{RecordList, ZoneId, ZoneSet};

/// What an entry does to the zones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ZoneWork<'e> {
    Change(&'e ZoneChange),
    Stage { zone: &'e ZoneId, records: &'e RecordList },
    Commit { zone: &'e ZoneId, purpose: ImportPurpose },
    Abandon { zone: &'e ZoneId },
    Remove { zone: &'e ZoneId },
}

/// Why zones do not take a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyMismatch {
    /// The zone does not hold what the change was made for.
    Base,
    /// The contents would be no zone.
    Content,
    /// The memory of this replica is full: it cannot go on.
    Full,
}

/// What `body` does to the zones; `None` when nothing. `stages` is as before the entry.
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
        // A stage without a chunk has nothing in the zone set.
        Body::ImportAbandon(id) => {
            stages.get(*id).filter(|stage| stage.next_chunk > 0).map(|stage| ZoneWork::Abandon { zone: &stage.zone })
        }
        Body::Settings(settings) => match &settings.change {
            SettingsChange::ZoneRemove { zone } => Some(ZoneWork::Remove { zone }),
            _ => None,
        },
    }
}

/// Carries it out on top of the head; nothing is changed unless all of it is.
pub(crate) fn apply_work(zones: &mut ZoneSet, work: ZoneWork<'_>) -> Result<Version, ApplyMismatch> {
    check_base(zones, work)?;
    let mut edit = zones.edit();
    match work {
        ZoneWork::Change(change) => edit.apply(&change.zone, &change.changeset)?,
        ZoneWork::Stage { zone, records } => edit.add_records(zone, records.iter())?,
        ZoneWork::Commit { zone, .. } => edit.commit_stage(zone)?,
        ZoneWork::Abandon { zone } => edit.abandon_stage(zone)?,
        ZoneWork::Remove { zone } => remove(&mut edit, zone)?,
    }
    #[cfg(test)]
    death::strike(work);
    Ok(edit.seal())
}

fn remove(edit: &mut Edit<'_>, zone: &ZoneId) -> Result<(), ZoneError> {
    edit.remove_zone(zone)
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

/// What tests use to have our own code panic in the middle of an edit.
#[cfg(test)]
pub(crate) mod death {
    use super::ZoneWork;
    use std::cell::RefCell;
    use std::collections::VecDeque;

    /// The first label of the records whose changes are counted.
    pub(crate) const LABEL: &[u8] = b"carry-out-of-death";

    thread_local! {
        static PLAN: RefCell<VecDeque<bool>> = const { RefCell::new(VecDeque::new()) };
    }

    /// Which of the next changes to such a record panic; those after them do not.
    pub(crate) fn plan(panics: &[bool]) {
        PLAN.set(panics.iter().copied().collect());
    }

    pub(super) fn strike(work: ZoneWork<'_>) {
        let ZoneWork::Change(change) = work else { return };
        let is_counted = |owner: &[u8]| owner.windows(LABEL.len()).any(|bytes| bytes == LABEL);
        if change.changeset.added.iter().any(|record| is_counted(record.owner.as_bytes())) {
            let panics = PLAN.with_borrow_mut(VecDeque::pop_front);
            assert_ne!(panics, Some(true), "a test asks for it");
        }
    }
}
