//! Writes the log, one record at a time. Entries that arrive meanwhile go into the next record.

use super::Log;
use super::limits::SECTOR_BYTES;
use super::record::{self, Header, Padding, entry_bytes};
use super::segment::segment_file;
use super::vote::Vote;
use crate::disk::{DiskJob, DiskOp, DiskQueue, Tickets};
use raft::eraftpb::HardState;

impl Log {
    /// The job that writes the next record, if there is anything to write and no job is in progress.
    pub(crate) fn poll_record(&mut self, tickets: &mut Tickets) -> Option<DiskJob> {
        if self.writer.is_in_flight() || !self.writer.is_dirty {
            return None;
        }
        let (last, body_bytes) = self.next_batch();
        let mut ops = std::mem::take(&mut self.writer.first_ops);
        let HardState { term, vote, .. } = self.hard_state;
        let old_segment = self.writer.segment;
        if self.writer.vote.is_behind(term, vote) && !planted!(VoteNotInItsFile) {
            self.writer.vote.write(Vote { term, vote, newest_segment: old_segment }, &mut ops);
        }
        let bytes = record::disk_bytes(body_bytes);
        // A one-sector record gets an empty record after it, its seal. If the record's sector is lost, the seal shows
        // that the record existed and which entries it held.
        let is_essential = body_bytes > 0 || self.writer.is_cleared;
        let is_sealed = bytes == SECTOR_BYTES as u64 && is_essential && !planted!(RecordsNotSealed);
        let block_bytes = if planted!(BlocksNotFilled) { bytes } else { self.config.block_bytes };
        let reserved_bytes = if is_sealed { 2 * bytes } else { bytes }.next_multiple_of(block_bytes);
        let is_new_segment =
            self.writer.reserve(reserved_bytes, self.config.segment_bytes, &mut self.preallocator, &mut ops);
        let mut header = self.next_header(last);
        let mut data = record::encode(&mut header, self.tail.range(self.writer.written + 1, last + 1));
        debug_assert_eq!((data.len() as u64, data.len() % SECTOR_BYTES), (bytes, 0));
        let (file, offset) = (segment_file(header.segment), header.offset);
        self.extents.add(&header);
        let ticket = tickets.draw();
        self.writer.wrote(&header, ticket);
        let padding = Padding { start: offset, is_essential };
        while (data.len() as u64) < reserved_bytes {
            let mut empty = self.next_header(last);
            data.extend(padding.encode(&mut empty));
            self.writer.advance(&empty);
        }
        ops.push(DiskOp::Write { file: file.clone(), offset, data });
        if !(planted!(RecordsNotSynced) && header.number.is_multiple_of(5)) {
            ops.push(DiskOp::Sync { file });
        }
        if is_new_segment {
            if !planted!(SegmentDirectoryNotSynced) {
                ops.push(DiskOp::SyncDir);
            }
            let newest = Vote { term, vote, newest_segment: header.segment };
            self.writer.vote.write(newest, &mut ops);
            if old_segment == 0 {
                // Creation ends with two equal copies, so that either may be lost.
                self.writer.vote.write(newest, &mut ops);
            }
        }
        Some(DiskJob { queue: DiskQueue::Log, ticket, ops })
    }

    /// The last entry of the next record, and the bytes of its body.
    fn next_batch(&self) -> (u64, usize) {
        let mut last = self.writer.written;
        let mut bytes = 0;
        for entry in self.tail.range(last + 1, self.tail.end()) {
            let more = bytes + entry_bytes(entry);
            if more > self.config.record_bytes && bytes > 0 {
                break;
            }
            (last, bytes) = (entry.index, more);
        }
        (last, bytes)
    }

    fn next_header(&self, last: u64) -> Header {
        let mut hard_state = self.hard_state.clone();
        // A record with only part of the appended entries must not commit entries that it lacks.
        hard_state.commit = hard_state.commit.min(last);
        Header {
            id: self.writer.id(),
            cleared: self.writer.is_cleared,
            segment: self.writer.segment,
            offset: self.writer.offset,
            number: self.writer.number + 1,
            body_bytes: 0,
            entry_count: 0,
            first: self.writer.written + 1,
            last,
            hard_state,
            base: self.terms.base(),
            oldest_segment: self.extents.oldest_segment().unwrap_or(self.writer.segment),
            checkpoint: self.checkpoint,
            contact_wall_ms: self.contact_wall_ms,
            previous_crc: self.writer.previous_crc,
            body_crc: 0,
            header_crc: 0,
        }
    }
}
