//! Imports in progress: the next chunk of each, and a digest of the chunks so far.

use crate::entry::{Body, ImportBegin, ImportPurpose, StageId, decode_purpose, encode_purpose};
use crate::limits::IMPORT_STAGES_MAX;
use crate::state::{Item, item_hash};
use std::collections::BTreeMap;
use zone::codec::{DecodeError, Decoder, Encoder};
use zone::{RecordList, ZoneId};

/// One import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) zone: ZoneId,
    pub(crate) purpose: ImportPurpose,
    pub(crate) chunk_count: u32,
    pub(crate) next_chunk: u32,
    pub(crate) digest: u128,
    /// Index of the last entry of this import; zero on a leader's head.
    pub(crate) touched: u64,
}

/// All imports, as applied or on a leader's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stages {
    stages: BTreeMap<StageId, Stage>,
}

/// Why an entry of an import does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StageError {
    /// It was done already: a repeat.
    Done,
    /// No such stage, or a stage of that name for another purpose.
    Unknown,
    /// Another import for the zone is in progress.
    ZoneBusy,
    /// Too many imports.
    Full,
    /// Not the next chunk, or the chunks do not match the commit.
    Mismatch,
}

impl Stages {
    #[cfg(test)]
    pub(super) fn get_mut(&mut self, id: StageId) -> Option<&mut Stage> {
        self.stages.get_mut(&id)
    }

    pub(crate) fn get(&self, id: StageId) -> Option<&Stage> {
        self.stages.get(&id)
    }

    /// Whether an entry of an import fits.
    pub(crate) fn check(&self, body: &Body) -> Result<(), StageError> {
        match body {
            Body::ImportBegin(begin) => self.check_begin(begin),
            Body::ImportChunk(chunk) => {
                let stage = self.stages.get(&chunk.stage).ok_or(StageError::Unknown)?;
                match chunk.chunk_index.cmp(&stage.next_chunk) {
                    core::cmp::Ordering::Less => Err(StageError::Done),
                    core::cmp::Ordering::Equal if chunk.chunk_index < stage.chunk_count => Ok(()),
                    _ => Err(StageError::Mismatch),
                }
            }
            Body::ImportCommit(commit) => {
                let stage = self.stages.get(&commit.stage).ok_or(StageError::Unknown)?;
                let whole = planted!(ImportWithMissingChunks)
                    || stage.next_chunk == stage.chunk_count && stage.digest == commit.digest;
                if whole { Ok(()) } else { Err(StageError::Mismatch) }
            }
            Body::ImportAbandon(id) => self.stages.get(id).map(|_| ()).ok_or(StageError::Unknown),
            Body::Update(_) | Body::Settings(_) | Body::Change(_) => Ok(()),
        }
    }

    fn check_begin(&self, begin: &ImportBegin) -> Result<(), StageError> {
        if let Some(stage) = self.stages.get(&begin.stage) {
            let same =
                stage.zone == begin.zone && stage.purpose == begin.purpose && stage.chunk_count == begin.chunk_count;
            return Err(if same { StageError::Done } else { StageError::Unknown });
        }
        if self.of_zone(&begin.zone).is_some() {
            return Err(StageError::ZoneBusy);
        }
        if self.is_full() { Err(StageError::Full) } else { Ok(()) }
    }

    /// Whether no further import may begin.
    pub(crate) fn is_full(&self) -> bool {
        self.stages.len() >= IMPORT_STAGES_MAX
    }

    /// The import in progress for a zone.
    pub(crate) fn of_zone(&self, zone: &ZoneId) -> Option<StageId> {
        self.stages.iter().find(|(_, stage)| stage.zone == *zone).map(|(&id, _)| id)
    }

    /// Applies an entry that fits. `index` is the entry's index.
    pub(crate) fn advance(&mut self, body: &Body, index: u64) {
        match body {
            Body::ImportBegin(begin) => {
                self.stages.insert(
                    begin.stage,
                    Stage {
                        zone: begin.zone.clone(),
                        purpose: begin.purpose,
                        chunk_count: begin.chunk_count,
                        next_chunk: 0,
                        digest: 0,
                        touched: index,
                    },
                );
            }
            Body::ImportChunk(chunk) => {
                if let Some(stage) = self.stages.get_mut(&chunk.stage) {
                    stage.digest = chunk_digest(stage.digest, &chunk.records);
                    stage.next_chunk += 1;
                    stage.touched = index;
                }
            }
            Body::ImportCommit(commit) => {
                self.stages.remove(&commit.stage);
            }
            Body::ImportAbandon(id) => {
                self.stages.remove(id);
            }
            Body::Update(_) | Body::Settings(_) | Body::Change(_) => {}
        }
    }

    /// Each import, and the index of its last entry.
    pub(crate) fn touched(&self) -> impl Iterator<Item = (StageId, u64)> {
        self.stages.iter().map(|(&id, stage)| (id, stage.touched))
    }

    pub(crate) fn hash(&self) -> u128 {
        self.stages.iter().fold(0, |sum: u128, (id, stage)| {
            let mut out = Encoder::new();
            encode_stage(*id, stage, &mut out);
            sum.wrapping_add(item_hash(Item::Stage, &[&out.finish()]))
        })
    }

    /// Writes all imports as items of a checkpoint. The zone set holds their records.
    pub(crate) fn encode_items(&self, mut item: impl FnMut(Encoder)) {
        for (&id, stage) in &self.stages {
            let mut out = Encoder::new();
            encode_stage(id, stage, &mut out);
            item(out);
        }
    }

    /// Restores one item of a checkpoint.
    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let id = StageId(from.array()?);
        let stage = Stage {
            zone: from.zone_id()?,
            purpose: decode_purpose(from)?,
            chunk_count: from.u32()?,
            next_chunk: from.u32()?,
            digest: from.u128()?,
            touched: from.u64()?,
        };
        self.stages.insert(id, stage);
        Ok(())
    }
}

fn encode_stage(id: StageId, stage: &Stage, out: &mut Encoder) {
    out.fixed(&id.0);
    out.zone_id(&stage.zone);
    encode_purpose(stage.purpose, out);
    out.u32(stage.chunk_count);
    out.u32(stage.next_chunk);
    out.u128(stage.digest);
    out.u64(stage.touched);
}

/// The digest of the chunks so far and the next one.
pub(crate) fn chunk_digest(before: u128, records: &RecordList) -> u128 {
    let count = records.len() as u64;
    item_hash(Item::Stage, &[&before.to_be_bytes(), &count.to_be_bytes(), records.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{ImportChunk, ImportCommit};

    const ID: StageId = StageId([1; 16]);

    fn begin(id: StageId, zone: &str) -> Body {
        Body::ImportBegin(ImportBegin {
            stage: id,
            zone: ZoneId { view: 0, apex: zone.parse().unwrap() },
            purpose: ImportPurpose::Replace { base_hash: 3 },
            chunk_count: 2,
        })
    }

    fn chunk(chunk_index: u32) -> Body {
        Body::ImportChunk(ImportChunk { stage: ID, chunk_index, records: RecordList::new() })
    }

    fn commit(digest: u128) -> Body {
        Body::ImportCommit(ImportCommit { stage: ID, digest, policy_epoch: 0 })
    }

    #[test]
    fn an_import_goes_step_by_step() {
        let mut stages = Stages::default();
        let empty = stages.hash();
        assert_eq!(stages.check(&chunk(0)), Err(StageError::Unknown));
        stages.advance(&begin(ID, "a."), 5);
        assert_eq!(stages.check(&begin(ID, "a.")), Err(StageError::Done));
        assert_eq!(stages.check(&begin(ID, "b.")), Err(StageError::Unknown));
        assert_eq!(stages.check(&begin(StageId([2; 16]), "a.")), Err(StageError::ZoneBusy));
        assert_eq!(stages.check(&chunk(1)), Err(StageError::Mismatch));
        assert_eq!(stages.check(&commit(0)), Err(StageError::Mismatch));
        stages.advance(&chunk(0), 6);
        assert_eq!(stages.check(&chunk(0)), Err(StageError::Done));
        stages.advance(&chunk(1), 7);
        assert_eq!(stages.check(&chunk(2)), Err(StageError::Mismatch));
        let digest = chunk_digest(chunk_digest(0, &RecordList::new()), &RecordList::new());
        assert_eq!(stages.check(&commit(digest ^ 1)), Err(StageError::Mismatch));
        assert_eq!(stages.check(&commit(digest)), Ok(()));
        assert_eq!(stages.touched().collect::<Vec<_>>(), [(ID, 7)]);
        let mut copy = Stages::default();
        stages.encode_items(|item| copy.restore(&mut Decoder::new(&item.finish())).unwrap());
        assert_eq!(copy.hash(), stages.hash());
        stages.advance(&commit(digest), 8);
        assert_eq!(stages.hash(), empty);
    }
}
