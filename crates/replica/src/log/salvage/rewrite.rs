//! Writes the repaired log: one new segment that voids all earlier segments. A single rename puts it into use.
//!
//! Until that rename the damaged log is unchanged, so after a crash the repair starts again. The next
//! [`super::super::Log::open`] verifies the new segment and removes the old ones.

use super::super::limits::RECORD_BYTES_MAX;
use super::super::record::{self, Header, entry_bytes};
use super::super::segment::{segment_file, spare_file};
use super::super::vote::{Vote, VoteFile};
use super::super::{CheckpointRef, OpenError, Position};
use super::Salvage;
use crate::disk::{DiskOp, DiskRead};
use raft::eraftpb::Entry;

/// The disk operations that write a repaired log, in parts.
pub struct Rewrite<'s> {
    salvage: &'s Salvage,
    disk: &'s dyn DiskRead,
    checkpoint: CheckpointRef,
    /// The last entry of the new log.
    last: u64,
    next: u64,
    /// The header of the next record.
    header: Header,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Create,
    Records,
    Finish,
    Done,
}

impl Salvage {
    /// The operations that make this the member's log, after a checkpoint that is on the disk. No entry after the
    /// checkpoint may be missing.
    ///
    /// # Errors
    /// [`OpenError`]: the disk now returns other bytes than before.
    pub fn rewrite<'s>(&'s self, disk: &'s dyn DiskRead, checkpoint: CheckpointRef) -> Result<Rewrite<'s>, OpenError> {
        let Position { index, term } = Position::of_checkpoint(&checkpoint);
        let is_uncommitted = index > self.hard_state.commit && index <= self.last;
        // The checkpoint ends with a committed entry that differs from this log's. Then no later entry of this log can
        // be committed (raft paper 7).
        let is_other = is_uncommitted && self.run(disk, index)?.first().is_some_and(|entry| entry.term != term);
        let last = if is_other { index } else { self.last.max(index) };
        let mut hard_state = self.hard_state.clone();
        hard_state.commit = hard_state.commit.max(index);
        if hard_state.term < term {
            (hard_state.term, hard_state.vote) = (term, 0);
        }
        let segment = self.newest_file + 1;
        let header = Header {
            cleared: true,
            segment,
            offset: 0,
            number: self.next_number,
            hard_state,
            base: Position { index, term },
            oldest_segment: segment,
            checkpoint,
            ..self.last_header.clone()
        };
        Ok(Rewrite { salvage: self, disk, checkpoint, last, next: index + 1, header, stage: Stage::Create })
    }
}

impl Rewrite<'_> {
    /// The next operations; `None` once the log is written.
    ///
    /// # Errors
    /// [`OpenError`]: the disk now returns other bytes than before.
    pub fn next_ops(&mut self) -> Result<Option<Vec<DiskOp>>, OpenError> {
        // The next start removes a file with this name.
        let file = spare_file(self.header.segment);
        match self.stage {
            Stage::Create => {
                self.stage = Stage::Records;
                Ok(Some(vec![DiskOp::Create { file, zeroed_bytes: 0 }]))
            }
            Stage::Records => {
                let is_first = self.header.cleared;
                let entries = self.batch()?;
                if entries.is_empty() {
                    self.stage = Stage::Finish;
                }
                let mut ops = vec![self.record(&file, &entries)];
                if is_first && entries.is_empty() {
                    ops.push(self.record(&file, &[]));
                }
                Ok(Some(ops))
            }
            Stage::Finish => {
                self.stage = Stage::Done;
                self.finish(file).map(Some)
            }
            Stage::Done => Ok(None),
        }
    }

    /// The entries of the next record.
    fn batch(&self) -> Result<Vec<Entry>, OpenError> {
        let (mut entries, mut bytes, mut next) = (Vec::new(), 0, self.next);
        while next <= self.last {
            for entry in self.salvage.run(self.disk, next)? {
                bytes += entry_bytes(&entry);
                if bytes > RECORD_BYTES_MAX && !entries.is_empty() {
                    return Ok(entries);
                }
                next = entry.index + 1;
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn record(&mut self, file: &str, entries: &[Entry]) -> DiskOp {
        let mut header = self.header.clone();
        header.first = self.next;
        header.last = self.next + entries.len() as u64 - 1;
        header.hard_state.commit = header.hard_state.commit.min(header.last);
        let record = record::encode(&mut header, entries.iter());
        self.next = header.last + 1;
        self.header.cleared = false;
        self.header.offset += header.disk_bytes();
        self.header.number += 1;
        self.header.previous_crc = header.header_crc;
        DiskOp::Write { file: file.to_owned(), offset: header.offset, data: record }
    }

    fn finish(&self, file: String) -> Result<Vec<DiskOp>, OpenError> {
        let to = segment_file(self.header.segment);
        let mut ops = vec![DiskOp::Sync { file: file.clone() }, DiskOp::Rename { from: file, to }, DiskOp::SyncDir];
        if planted!(RepairedLogNotSynced) {
            ops.remove(0);
        }
        let hard_state = &self.header.hard_state;
        let vote = Vote { term: hard_state.term, vote: hard_state.vote, newest_segment: self.header.segment };
        let mut vote_file = VoteFile::open(self.disk, true)?.file;
        // Writes two equal copies, so that one may be lost.
        vote_file.write(vote, &mut ops);
        vote_file.write(vote, &mut ops);
        Ok(ops)
    }

    /// The checkpoint that the new log continues from.
    #[must_use]
    pub const fn checkpoint(&self) -> CheckpointRef {
        self.checkpoint
    }
}
