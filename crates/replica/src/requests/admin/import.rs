//! New contents for a zone: a difference in one entry if it is small, otherwise a staged import in chunks.

use super::jobs::{Import, StepResult};
use crate::command::Command;
use crate::context::{Context, NO_REQUEST};
use crate::entry::{Body, ImportBegin, ImportChunk, ImportCommit, ImportPurpose, StageId, ZoneChange, options_level};
use crate::io::{AckOption, AdminError, AdminReply, Contents, Replacement, ReplacementKind, ZoneOptions};
use crate::limits::{ADMIN_WAIT_MS, IMPORT_CHUNKS_IN_FLIGHT_MAX, IMPORT_STAGE_ENTRIES_MAX};
use crate::machine::chunk_digest;
use crate::requests::step::{AdminStep, AwaitedState, StepKind};
use crate::requests::{Purpose, Requests, Shared};
use crate::state::{Item, item_hash};
use zone::ZoneId;

type Refusal = Result<AdminReply, AdminError>;

impl Requests {
    /// A leader proposes an entry that abandons a stalled import. The leader has applied all entries of earlier
    /// terms, so it overlooks no chunk.
    pub(crate) fn abandon_idle_stages(&mut self, shared: &mut Shared<'_>) {
        let (stages, running_ms) = (&shared.context.machine.stages, shared.context.local.running_ms);
        self.admin.idle.look(stages, running_ms);
        if !shared.context.driver.has_applied_own_term() || planted!(IdleImportKept) {
            return;
        }
        let index = shared.context.machine.applied.0.saturating_sub(IMPORT_STAGE_ENTRIES_MAX);
        for stage in self.admin.idle.take_idle(index, running_ms) {
            self.abandon_stage(shared, stage);
        }
    }

    pub(super) fn start_add_zone(
        &mut self,
        shared: &mut Shared<'_>,
        request_id: u64,
        zone: &ZoneId,
        options: ZoneOptions,
        contents: Contents,
    ) -> Result<(), Refusal> {
        let zone = canonical(zone);
        if shared.context.machine.settings.zones().contains_key(&zone) {
            return Err(Err(AdminError::ZoneExists));
        }
        if options_level(options) > shared.context.machine.settings.feature_level() {
            return Err(Err(AdminError::LevelTooLow));
        }
        self.start_import(shared, request_id, zone, ImportPurpose::Create { options }, contents);
        Ok(())
    }

    pub(super) fn start_replace_zone(
        &mut self,
        shared: &mut Shared<'_>,
        request_id: u64,
        zone: &ZoneId,
        replacement: Replacement,
    ) -> Result<(), Refusal> {
        let zone = canonical(zone);
        let base_hash = replacement.base_hash();
        let old = shared.context.machine.zones.published();
        match old.zone(&zone).map(|zone| zone.hash()) {
            None => return Err(Err(AdminError::ZoneUnknown)),
            Some(hash) if hash != base_hash => return Err(Err(AdminError::ZoneChanged)),
            Some(_) => {}
        }
        match replacement.into_kind() {
            ReplacementKind::Unchanged => return Err(Ok(AdminReply::Unchanged)),
            ReplacementKind::Change(changeset) => {
                let change = Body::Change(ZoneChange { zone, base_hash, changeset });
                self.start_step(shared, AdminStep { request_id, kind: StepKind::Single }, Command::Propose(change));
            }
            ReplacementKind::Whole(contents) => {
                self.start_import(shared, request_id, zone, ImportPurpose::Replace { base_hash }, contents);
            }
        }
        Ok(())
    }

    fn start_import(
        &mut self,
        shared: &mut Shared<'_>,
        request_id: u64,
        zone: ZoneId,
        purpose: ImportPurpose,
        contents: Contents,
    ) {
        let own = [shared.context.driver.id(), shared.context.local.config.boot_id, request_id].map(u64::to_be_bytes);
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
        self.import_step(shared, request_id, StepKind::ImportBegin, begin);
    }

    fn import_step(&mut self, shared: &mut Shared<'_>, request_id: u64, kind: StepKind, body: Body) {
        self.wait(shared, Command::Propose(body), Purpose::Admin(AdminStep { request_id, kind }), ADMIN_WAIT_MS);
    }

    /// A step of an import succeeded or failed.
    pub(super) fn import_step_done(
        &mut self,
        shared: &mut Shared<'_>,
        request_id: u64,
        kind: StepKind,
        result: StepResult,
    ) {
        let Some(import) = self.admin.imports.get_mut(&request_id) else { return };
        if let Err(error) = result {
            return self.import_failed(shared, request_id, kind, error);
        }
        match kind {
            StepKind::ImportBegin => {
                import.has_begun = true;
                // The new zone's serial continues from its last one. Only now has this replica applied everything
                // before the import, and while the stage is open nothing else adds the zone.
                if let (ImportPurpose::Create { .. }, Some(last)) =
                    (import.purpose, shared.context.machine.settings.retired_serial(&import.zone))
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
                    return self.wait_until(shared, request_id, AwaitedState::AllLiveKnown);
                }
                return shared.outputs.admin_done(request_id, Ok(AdminReply::Done));
            }
        }
        self.commit_import_when_whole(shared, request_id);
    }

    fn import_failed(&mut self, shared: &mut Shared<'_>, request_id: u64, kind: StepKind, error: AdminError) {
        let Some(import) = self.admin.imports.remove(&request_id) else { return };
        let error = import_error(&shared.context, &import, kind, error);
        // If the outcome is unknown, the import may have begun.
        if error != AdminError::ImportGivenUp && (import.has_begun || error == AdminError::Unknown) {
            self.abandon_stage(shared, import.stage);
        }
        shared.outputs.admin_done(request_id, Err(error));
    }

    /// Abandons a stage. No client waits for the answer. A leader also abandons stages that make no progress.
    pub(crate) fn abandon_stage(&mut self, shared: &mut Shared<'_>, stage: StageId) {
        let step = AdminStep { request_id: NO_REQUEST, kind: StepKind::Single };
        self.wait(shared, Command::Propose(Body::ImportAbandon(stage)), Purpose::Admin(step), ADMIN_WAIT_MS);
    }

    /// Proposes the next chunk of each import.
    pub(crate) fn continue_imports(&mut self, shared: &mut Shared<'_>) {
        let going_on = self.admin.imports.iter().filter(|(_, import)| import.may_go_on());
        for request_id in going_on.map(|(&request_id, _)| request_id).collect::<Vec<_>>() {
            let Some(import) = self.admin.imports.get_mut(&request_id) else { continue };
            let Some(records) = import.contents.pop_chunk() else { continue };
            import.digest = chunk_digest(import.digest, &records);
            import.in_flight += 1;
            debug_assert!(import.in_flight <= IMPORT_CHUNKS_IN_FLIGHT_MAX, "updates interleave with an import");
            let (stage, chunk_index) = (import.stage, import.next_chunk);
            import.next_chunk += 1;
            let chunk = Body::ImportChunk(ImportChunk { stage, chunk_index, records });
            self.import_step(shared, request_id, StepKind::ImportChunk, chunk);
        }
    }

    /// Commits an import once all its chunks are in the log.
    fn commit_import_when_whole(&mut self, shared: &mut Shared<'_>, request_id: u64) {
        let Some(import) = self.admin.imports.get(&request_id) else { return };
        if import.in_flight == 0 && import.contents.chunk_count() == 0 {
            let commit = ImportCommit { stage: import.stage, digest: import.digest, policy_epoch: 0 };
            self.import_step(shared, request_id, StepKind::ImportCommit, Body::ImportCommit(commit));
        }
    }
}

/// Translates the leader's error, which stands for several causes, into the cause.
fn import_error(context: &Context<'_>, import: &Import, kind: StepKind, error: AdminError) -> AdminError {
    let stages = &context.machine.stages;
    let creates = matches!(import.purpose, ImportPurpose::Create { .. });
    match (kind, error) {
        // The leader answers `Busy` both for the zone and for the total number of imports.
        (StepKind::ImportBegin, AdminError::Busy) if !stages.is_full() || stages.of_zone(&import.zone).is_some() => {
            AdminError::ImportUnderWay
        }
        (StepKind::ImportChunk, AdminError::ZoneChanged) => AdminError::ImportGivenUp,
        // A zone that does not exist cannot have changed; for an existing one, the stage tells.
        (StepKind::ImportCommit, AdminError::ZoneChanged) if creates || stages.get(import.stage).is_none() => {
            AdminError::ImportGivenUp
        }
        _ => error,
    }
}

fn canonical(zone: &ZoneId) -> ZoneId {
    ZoneId { view: zone.view, apex: zone.apex.as_ref().to_canonical() }
}
