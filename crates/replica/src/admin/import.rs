//! New contents for a zone: a difference in one entry when it is small, else a staged import in chunks.

use super::contents::{Contents, Replacement, ReplacementKind};
use super::{AdminStep, AwaitedState, NO_REQUEST, StepKind, StepResult};
use crate::command::Command;
use crate::entry::{Body, ImportBegin, ImportChunk, ImportCommit, ImportPurpose, StageId, ZoneChange, options_level};
use crate::forward::Purpose;
use crate::io::{AckOption, AdminError, AdminReply, ZoneOptions};
use crate::limits::{ADMIN_WAIT_MS, IMPORT_CHUNKS_IN_FLIGHT_MAX};
use crate::machine::chunk_digest;
use crate::replica::Replica;
use crate::state::{Item, item_hash};
use zone::ZoneId;

/// An import that this replica drives.
#[derive(Debug)]
pub(crate) struct Import {
    stage: StageId,
    zone: ZoneId,
    purpose: ImportPurpose,
    contents: Contents,
    next_chunk: u32,
    in_flight: usize,
    digest: u128,
    has_begun: bool,
}

impl Import {
    /// Whether the next chunk may be proposed; updates interleave with an import.
    fn may_go_on(&self) -> bool {
        self.has_begun && self.in_flight < IMPORT_CHUNKS_IN_FLIGHT_MAX && self.contents.chunk_count() > 0
    }
}

type Refusal = Result<AdminReply, AdminError>;

impl Replica {
    pub(super) fn start_add_zone(
        &mut self,
        request_id: u64,
        zone: &ZoneId,
        options: ZoneOptions,
        contents: Contents,
    ) -> Result<(), Refusal> {
        let zone = canonical(zone);
        if self.machine.settings.zones().contains_key(&zone) {
            return Err(Err(AdminError::ZoneExists));
        }
        if options_level(options) > self.machine.settings.feature_level() {
            return Err(Err(AdminError::LevelTooLow));
        }
        self.start_import(request_id, zone, ImportPurpose::Create { options }, contents);
        Ok(())
    }

    pub(super) fn start_replace_zone(
        &mut self,
        request_id: u64,
        zone: &ZoneId,
        replacement: Replacement,
    ) -> Result<(), Refusal> {
        let zone = canonical(zone);
        let base_hash = replacement.base_hash();
        let old = self.machine.zones.published();
        match old.zone(&zone).map(|zone| zone.hash()) {
            None => return Err(Err(AdminError::ZoneUnknown)),
            Some(hash) if hash != base_hash => return Err(Err(AdminError::ZoneChanged)),
            Some(_) => {}
        }
        match replacement.into_kind() {
            ReplacementKind::Unchanged => return Err(Ok(AdminReply::Unchanged)),
            ReplacementKind::Change(changeset) => {
                let change = Body::Change(ZoneChange { zone, base_hash, changeset });
                self.start_step(AdminStep { request_id, kind: StepKind::Single }, Command::Propose(change));
            }
            ReplacementKind::Whole(contents) => {
                self.start_import(request_id, zone, ImportPurpose::Replace { base_hash }, contents);
            }
        }
        Ok(())
    }

    fn start_import(&mut self, request_id: u64, zone: ZoneId, purpose: ImportPurpose, contents: Contents) {
        let own = [self.driver.id(), self.config.boot_id, request_id].map(u64::to_be_bytes);
        let stage = StageId(item_hash(Item::Stage, &[&own[0], &own[1], &own[2]]).to_be_bytes());
        let chunk_count = contents.chunk_count();
        let digest = 0;
        let import = Import {
            stage,
            zone: zone.clone(),
            purpose,
            contents,
            next_chunk: 0,
            in_flight: 0,
            digest,
            has_begun: false,
        };
        self.admin.imports.insert(request_id, import);
        let begin = Body::ImportBegin(ImportBegin { stage, zone, purpose, chunk_count });
        self.import_step(request_id, StepKind::ImportBegin, begin);
    }

    fn import_step(&mut self, request_id: u64, kind: StepKind, body: Body) {
        self.wait(Command::Propose(body), Purpose::Admin(AdminStep { request_id, kind }), ADMIN_WAIT_MS);
    }

    /// A step of an import is done, or failed.
    pub(super) fn import_step_done(&mut self, request_id: u64, kind: StepKind, result: StepResult) {
        let Some(import) = self.admin.imports.get_mut(&request_id) else { return };
        if let Err(error) = result {
            return self.import_failed(request_id, kind, error);
        }
        match kind {
            StepKind::ImportBegin => {
                import.has_begun = true;
                // A zone that comes back goes on where it ended. Only now is everything applied here that came before
                // the import, and nothing else adds the zone while its stage is open.
                if let (ImportPurpose::Create { .. }, Some(last)) =
                    (import.purpose, self.machine.settings.retired_serial(&import.zone))
                    && !import.contents.serial().is_newer_than(last)
                {
                    import.contents.set_serial(last.next());
                }
            }
            StepKind::ImportChunk => import.in_flight -= 1,
            _ => {
                let is_all_live = matches!(import.purpose,
                    ImportPurpose::Create { options } if options.ack == AckOption::AllLive);
                self.admin.imports.remove(&request_id);
                if is_all_live {
                    return self.wait_until(request_id, AwaitedState::AllLiveKnown);
                }
                return self.admin_done(request_id, Ok(AdminReply::Done));
            }
        }
        self.commit_import_when_whole(request_id);
    }

    fn import_failed(&mut self, request_id: u64, kind: StepKind, error: AdminError) {
        let Some(import) = self.admin.imports.remove(&request_id) else { return };
        let error = self.import_error(&import, kind, error);
        // What nobody knows of may have begun.
        if error != AdminError::ImportGivenUp && (import.has_begun || error == AdminError::Unknown) {
            self.abandon_stage(import.stage);
        }
        self.admin_done(request_id, Err(error));
    }

    /// What stands behind the word of a leader, which has but one for several things.
    fn import_error(&self, import: &Import, kind: StepKind, error: AdminError) -> AdminError {
        let stages = &self.machine.stages;
        let creates = matches!(import.purpose, ImportPurpose::Create { .. });
        match (kind, error) {
            // A leader says so of the zone, and of the number of all imports.
            (StepKind::ImportBegin, AdminError::Busy)
                if !stages.is_full() || stages.of_zone(&import.zone).is_some() =>
            {
                AdminError::ImportUnderWay
            }
            (StepKind::ImportChunk, AdminError::ZoneChanged) => AdminError::ImportGivenUp,
            // A zone that is not there does not change; of one that is, the stage tells.
            (StepKind::ImportCommit, AdminError::ZoneChanged) if creates || stages.get(import.stage).is_none() => {
                AdminError::ImportGivenUp
            }
            _ => error,
        }
    }

    /// Gives a stage up. Nobody waits for it; a leader also gives up stages that nobody touches.
    pub(crate) fn abandon_stage(&mut self, stage: StageId) {
        let step = AdminStep { request_id: NO_REQUEST, kind: StepKind::Single };
        self.wait(Command::Propose(Body::ImportAbandon(stage)), Purpose::Admin(step), ADMIN_WAIT_MS);
    }

    /// Whether a chunk of some import may be proposed now.
    pub(crate) fn has_chunks_to_propose(&self) -> bool {
        self.admin.imports.values().any(Import::may_go_on)
    }

    /// Proposes the next chunk of each import.
    pub(crate) fn continue_imports(&mut self) {
        let going_on = self.admin.imports.iter().filter(|(_, import)| import.may_go_on());
        for request_id in going_on.map(|(&request_id, _)| request_id).collect::<Vec<_>>() {
            let Some(import) = self.admin.imports.get_mut(&request_id) else { continue };
            let Some(records) = import.contents.pop_chunk() else { continue };
            import.digest = chunk_digest(import.digest, &records);
            import.in_flight += 1;
            let (stage, chunk_index) = (import.stage, import.next_chunk);
            import.next_chunk += 1;
            let chunk = Body::ImportChunk(ImportChunk { stage, chunk_index, records });
            self.import_step(request_id, StepKind::ImportChunk, chunk);
        }
    }

    /// Commits an import of which every chunk is there.
    fn commit_import_when_whole(&mut self, request_id: u64) {
        let Some(import) = self.admin.imports.get(&request_id) else { return };
        if import.in_flight == 0 && import.contents.chunk_count() == 0 {
            let commit = ImportCommit { stage: import.stage, digest: import.digest, policy_epoch: 0 };
            self.import_step(request_id, StepKind::ImportCommit, Body::ImportCommit(commit));
        }
    }
}

fn canonical(zone: &ZoneId) -> ZoneId {
    ZoneId { view: zone.view, apex: zone.apex.as_ref().to_canonical() }
}
