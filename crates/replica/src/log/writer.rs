//! What goes to disk next: one record at a time, everything that came meanwhile in the next one.

use super::limits::SECTOR_BYTES;
use super::preallocate::SegmentPreallocator;
use super::record::{self, Header, Padding, entry_bytes};
use super::segment::segment_file;
use super::vote::{Vote, VoteFile};
use super::{Log, LogId};
use crate::disk::{DiskJob, DiskOp, DiskQueue, Tickets};
use raft::eraftpb::HardState;
use std::collections::{BTreeMap, VecDeque};

/// Where the log is being written.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) vote: VoteFile,
    /// Sizes of the live segments by number.
    pub(crate) segments: BTreeMap<u64, u64>,
    /// The newest segment and the offset of its next record; segment 0 before the first.
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    /// Number of the last record, and CRC of its header.
    pub(crate) number: u64,
    pub(crate) previous_crc: u32,
    /// Operations that come before anything else.
    pub(crate) first_ops: Vec<DiskOp>,
    /// Whether a first job was answered.
    is_started: bool,
    is_dirty: bool,
    /// The next record voids everything before it.
    is_cleared: bool,
    /// Marks that wait, each with the last entry that belongs to it.
    marks: VecDeque<(u64, u64)>,
    /// Last entry in a record; last entry in a durable one.
    written: u64,
    durable: u64,
    /// Segment and offset before which everything is durable.
    durable_end: (u64, u64),
    in_flight: Option<InFlight>,
}

#[derive(Debug)]
struct InFlight {
    ticket: u64,
    mark: Option<u64>,
    last: u64,
    end: (u64, u64),
    oldest_segment: u64,
}

impl Writer {
    /// A log without files, after the entry `last`.
    pub(crate) fn create(id: LogId, last: u64) -> Self {
        let mut first_ops = Vec::new();
        let vote = VoteFile::create(id, &mut first_ops);
        Self::new(vote, first_ops, last)
    }

    /// A log whose entries end with `last`; the first job begins with these operations.
    pub(crate) fn new(vote: VoteFile, first_ops: Vec<DiskOp>, last: u64) -> Self {
        Self {
            vote,
            segments: BTreeMap::new(),
            segment: 0,
            offset: 0,
            number: 0,
            previous_crc: 0,
            first_ops,
            is_started: false,
            is_dirty: true,
            is_cleared: false,
            marks: VecDeque::new(),
            written: last,
            durable: last,
            durable_end: (0, 0),
            in_flight: None,
        }
    }

    /// Sets where the next record goes.
    pub(crate) fn resume(&mut self, segment: u64, offset: u64, last: &Header) {
        (self.segment, self.offset) = (segment, offset);
        self.durable_end = (segment, offset);
        (self.number, self.previous_crc) = (last.number, last.header_crc);
    }

    pub(crate) fn id(&self) -> LogId {
        self.vote.id()
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable
    }

    /// Segment and offset before which everything is durable.
    pub(crate) fn durable_end(&self) -> (u64, u64) {
        self.durable_end
    }

    pub(crate) fn is_started(&self) -> bool {
        self.is_started
    }

    pub(crate) fn touch(&mut self) {
        self.is_dirty = true;
    }

    /// Notes that everything so far, up to the entry `last`, is to be reported by `mark`.
    pub(crate) fn mark(&mut self, mark: u64, last: u64) {
        self.marks.push_back((mark, last));
        self.is_dirty = true;
    }

    /// The entry at `first` and all after it are void.
    pub(crate) fn truncate(&mut self, first: u64) {
        self.limit(first - 1);
        self.marks.iter_mut().for_each(|(_, last)| *last = (*last).min(first - 1));
    }

    /// The whole log is void; it begins anew after the entry `base`.
    pub(crate) fn clear(&mut self, base: u64) {
        self.limit(base);
        (self.written, self.durable) = (base, base);
        self.marks.iter_mut().for_each(|(_, last)| *last = 0);
        self.is_cleared = true;
        self.is_dirty = true;
    }

    fn limit(&mut self, last: u64) {
        self.written = self.written.min(last);
        self.durable = self.durable.min(last);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.last = in_flight.last.min(last);
        }
    }

    /// The answer to a job; `None` when it was not ours, else the mark that was reached.
    pub(crate) fn persisted(&mut self, ticket: u64, preallocator: &mut SegmentPreallocator) -> Option<Option<u64>> {
        let done = self.in_flight.take_if(|in_flight| in_flight.ticket == ticket)?;
        self.is_started = true;
        self.durable = self.durable.max(done.last);
        self.durable_end = done.end;
        while let Some(oldest) = self.segments.first_entry().filter(|oldest| *oldest.key() < done.oldest_segment) {
            let (number, bytes) = oldest.remove_entry();
            preallocator.retire(number, bytes);
        }
        preallocator.want();
        Some(done.mark)
    }

    /// Bytes left in the current segment.
    pub(crate) fn room(&self) -> u64 {
        self.segments.get(&self.segment).map_or(0, |size| size.saturating_sub(self.offset))
    }

    /// Where a record of `bytes` bytes goes, and the operations that make room for it.
    fn reserve(
        &mut self,
        bytes: u64,
        segment_bytes: u64,
        preallocator: &mut SegmentPreallocator,
        ops: &mut Vec<DiskOp>,
    ) -> bool {
        if bytes <= self.room() {
            return false;
        }
        (self.segment, self.offset) = (self.segment + 1, 0);
        let file = segment_file(self.segment);
        let size = bytes.max(segment_bytes);
        let spare = if size == segment_bytes { preallocator.take() } else { None };
        ops.push(match spare {
            Some(from) => DiskOp::Rename { from, to: file },
            None => DiskOp::Create { file, zeroed_bytes: size },
        });
        self.segments.insert(self.segment, size);
        true
    }
}

impl Log {
    /// The job that writes the next record, if there is anything to write and none is under way.
    pub(crate) fn poll_record(&mut self, tickets: &mut Tickets) -> Option<DiskJob> {
        if self.writer.in_flight.is_some() || !self.writer.is_dirty {
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
        let reserved_bytes = if is_sealed { 2 * bytes } else { bytes }.next_multiple_of(self.config.block_bytes);
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
                // The creation ends with two equal copies, so that either may be lost.
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
        // A record that holds only a part of what raft appended must not speak of entries that are not there.
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

impl Writer {
    fn wrote(&mut self, header: &Header, ticket: u64) {
        self.written = header.last;
        self.is_cleared = false;
        let mut mark = None;
        while let Some((reached, _)) = self.marks.front().filter(|(_, last)| *last <= header.last) {
            mark = Some(*reached);
            self.marks.pop_front();
        }
        self.is_dirty = !self.marks.is_empty();
        let (last, oldest_segment) = (header.last, header.oldest_segment);
        self.in_flight = Some(InFlight { ticket, mark, last, end: (0, 0), oldest_segment });
        self.advance(header);
    }

    /// Moves the next write position behind this record, which belongs to the job in flight.
    fn advance(&mut self, header: &Header) {
        self.offset = header.offset + header.disk_bytes();
        (self.number, self.previous_crc) = (header.number, header.header_crc);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.end = (self.segment, self.offset);
        }
    }
}
