//! New contents for a zone: a difference in one entry when it is small, else a staged import in chunks.

use super::contents;
use super::{AdminStep, NOBODY, StepKind, StepResult};
use crate::command::Command;
use crate::entry::{Body, ImportBegin, ImportChunk, ImportCommit, ImportPurpose, StageId, ZoneChange};
use crate::forward::Purpose;
use crate::io::{AdminError, AdminReply, ZoneOptions};
use crate::limits::{ADMIN_WAIT_MS, IMPORT_CHUNK_OCTETS_MAX, IMPORT_CHUNKS_IN_FLIGHT_MAX, IMPORT_CHUNKS_MAX};
use crate::machine::chunk_digest;
use crate::replica::Replica;
use crate::state::{Item, item_hash};
use std::collections::VecDeque;
use wire::number::Serial;
use zone::{Record, ZoneId};

/// An import that this replica drives.
#[derive(Debug)]
pub(crate) struct Import {
    stage: StageId,
    chunks: VecDeque<Vec<Record>>,
    next_chunk: u32,
    in_flight: usize,
    digest: u128,
    has_begun: bool,
}

/// Octets that a record takes in a chunk.
fn record_octets(record: &Record) -> usize {
    record.owner.octets().len() + 8 + record.rdata.len()
}

type Refusal = Result<AdminReply, AdminError>;

impl Replica {
    pub(super) fn start_add_zone(
        &mut self,
        request_id: u64,
        zone: ZoneId,
        options: ZoneOptions,
        mut records: Vec<Record>,
    ) -> Result<(), Refusal> {
        let zone = canonical(&zone);
        if self.machine.settings.zones().contains_key(&zone) {
            return Err(Err(AdminError::ZoneExists));
        }
        let serial = contents::check(&zone, &records).map_err(Err)?;
        // A zone that comes back goes on where it ended.
        if let Some(last) = self.machine.settings.retired_serial(&zone)
            && !serial.is_newer_than(last)
        {
            contents::set_serial(&mut records, last.next());
        }
        self.start_import(request_id, zone, ImportPurpose::Create { options }, records)
    }

    pub(super) fn start_replace_zone(
        &mut self,
        request_id: u64,
        zone: &ZoneId,
        base_hash: u128,
        mut records: Vec<Record>,
    ) -> Result<(), Refusal> {
        let id = canonical(zone);
        let serial = contents::check(&id, &records).map_err(Err)?;
        let old = self.machine.zones.published();
        let old = old.zone(&id).ok_or(Err(AdminError::ZoneUnknown))?;
        if old.hash() != base_hash {
            return Err(Err(AdminError::ZoneChanged));
        }
        let old_serial = old.serial().unwrap_or(Serial(0));
        let serial_to = if serial.is_newer_than(old_serial) { serial } else { old_serial.next() };
        let of_old = || old.records().map(|record| record.to_record());
        let changeset = contents::difference(of_old(), records.iter().cloned(), old_serial, serial);
        if contents::is_serial_alone(&changeset) && !serial.is_newer_than(old_serial) {
            return Err(Ok(AdminReply::Unchanged));
        }
        contents::set_serial(&mut records, serial_to);
        let changeset = contents::difference(of_old(), records.iter().cloned(), old_serial, serial_to);
        let octets: usize = changeset.deleted.iter().chain(&changeset.added).map(record_octets).sum();
        if octets <= IMPORT_CHUNK_OCTETS_MAX {
            let change = Body::Change(ZoneChange { zone: id, base_hash, changeset });
            self.start_step(AdminStep { request_id, kind: StepKind::Single }, Command::Propose(change));
            return Ok(());
        }
        self.start_import(request_id, id, ImportPurpose::Replace { base_hash }, records)
    }

    fn start_import(
        &mut self,
        request_id: u64,
        zone: ZoneId,
        purpose: ImportPurpose,
        records: Vec<Record>,
    ) -> Result<(), Refusal> {
        let chunks = into_chunks(records);
        let chunk_count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        if chunk_count > IMPORT_CHUNKS_MAX {
            return Err(Err(AdminError::TooLarge));
        }
        let own = [self.driver.id(), self.config.boot_id, request_id].map(u64::to_be_bytes);
        let stage = StageId(item_hash(Item::Stage, &[&own[0], &own[1], &own[2]]).to_be_bytes());
        let import = Import { stage, chunks, next_chunk: 0, in_flight: 0, digest: 0, has_begun: false };
        self.admin.imports.insert(request_id, import);
        let begin = Body::ImportBegin(ImportBegin { stage, zone, purpose, chunk_count });
        self.import_step(request_id, StepKind::ImportBegin, begin);
        Ok(())
    }

    fn import_step(&mut self, request_id: u64, kind: StepKind, body: Body) {
        self.wait(Command::Propose(body), Purpose::Admin(AdminStep { request_id, kind }), ADMIN_WAIT_MS);
    }

    /// A step of an import is done, or failed.
    pub(super) fn import_step_done(&mut self, request_id: u64, kind: StepKind, result: StepResult) {
        let Some(import) = self.admin.imports.get_mut(&request_id) else { return };
        if let Err(error) = result {
            let abandon = import.has_begun.then_some(import.stage);
            self.admin.imports.remove(&request_id);
            if let Some(stage) = abandon {
                self.abandon_stage(stage);
            }
            return self.admin_done(request_id, Err(error));
        }
        match kind {
            StepKind::ImportBegin => import.has_begun = true,
            StepKind::ImportChunk => import.in_flight -= 1,
            _ => {
                self.admin.imports.remove(&request_id);
                return self.admin_done(request_id, Ok(AdminReply::Done));
            }
        }
        self.continue_import(request_id);
    }

    /// Gives a stage up. Nobody waits for it; a leader also gives up stages that nobody touches.
    pub(crate) fn abandon_stage(&mut self, stage: StageId) {
        let step = AdminStep { request_id: NOBODY, kind: StepKind::Single };
        self.wait(Command::Propose(Body::ImportAbandon(stage)), Purpose::Admin(step), ADMIN_WAIT_MS);
    }

    fn continue_import(&mut self, request_id: u64) {
        loop {
            let Some(import) = self.admin.imports.get_mut(&request_id) else { return };
            if import.in_flight >= IMPORT_CHUNKS_IN_FLIGHT_MAX {
                return;
            }
            let stage = import.stage;
            let Some(records) = import.chunks.pop_front() else {
                if import.in_flight == 0 {
                    let commit = ImportCommit { stage, digest: import.digest, policy_epoch: 0 };
                    self.import_step(request_id, StepKind::ImportCommit, Body::ImportCommit(commit));
                }
                return;
            };
            import.digest = chunk_digest(import.digest, &records);
            import.in_flight += 1;
            let chunk_index = import.next_chunk;
            import.next_chunk += 1;
            let chunk = Body::ImportChunk(ImportChunk { stage, chunk_index, records });
            self.import_step(request_id, StepKind::ImportChunk, chunk);
        }
    }
}

fn canonical(zone: &ZoneId) -> ZoneId {
    ZoneId { view: zone.view, apex: zone.apex.as_ref().to_canonical() }
}

/// Sorted by owner, so that each is written once.
fn into_chunks(mut records: Vec<Record>) -> VecDeque<Vec<Record>> {
    records.sort_by(|a, b| (&a.owner, a.rtype).cmp(&(&b.owner, b.rtype)));
    let mut chunks = VecDeque::new();
    let (mut chunk, mut octets) = (Vec::new(), 0);
    for record in records {
        let more = record_octets(&record);
        if octets + more > IMPORT_CHUNK_OCTETS_MAX && !chunk.is_empty() {
            chunks.push_back(core::mem::take(&mut chunk));
            octets = 0;
        }
        octets += more;
        chunk.push(record);
    }
    if !chunk.is_empty() {
        chunks.push_back(chunk);
    }
    chunks
}
