//! The write position of the log: the newest segment, what is durable, and the job in flight.

use super::position::LogId;
use super::preallocate::SegmentPreallocator;
use super::record::Header;
use super::segment::segment_file;
use super::vote::VoteFile;
use crate::disk::DiskOp;
use std::collections::{BTreeMap, VecDeque};

/// The write position of the log.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) vote: VoteFile,
    /// Sizes of the needed segments by number.
    pub(crate) segments: BTreeMap<u64, u64>,
    /// The newest segment and the offset of its next record; segment 0 before the first.
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    /// Number of the last record, and CRC of its header.
    pub(crate) number: u64,
    pub(crate) previous_crc: u32,
    /// Operations to execute before all others.
    pub(crate) first_ops: Vec<DiskOp>,
    /// Whether a first job is done.
    is_started: bool,
    pub(super) is_dirty: bool,
    /// The next record voids everything before it.
    pub(super) is_cleared: bool,
    /// Marks to report, each with its last entry.
    marks: VecDeque<(u64, u64)>,
    /// The last entry in a record, and the last entry in a durable one.
    pub(super) written: u64,
    durable: u64,
    /// Segment and offset up to which everything is durable.
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

    /// A log whose entries end with `last`. The first job begins with these operations.
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

    /// Sets the position of the next record.
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

    /// Segment and offset up to which everything is durable.
    pub(crate) fn durable_end(&self) -> (u64, u64) {
        self.durable_end
    }

    pub(crate) fn is_started(&self) -> bool {
        self.is_started
    }

    pub(crate) const fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    pub(crate) fn touch(&mut self) {
        self.is_dirty = true;
    }

    /// Reports `mark` once everything so far, up to the entry `last`, is durable.
    pub(crate) fn mark(&mut self, mark: u64, last: u64) {
        self.marks.push_back((mark, last));
        self.is_dirty = true;
    }

    /// The entry at `first` and all after it are void.
    pub(crate) fn truncate(&mut self, first: u64) {
        self.limit(first - 1);
        self.marks.iter_mut().for_each(|(_, last)| *last = (*last).min(first - 1));
    }

    /// The whole log is void; it restarts after the entry `base`.
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

    /// Takes the result of a job; `None` if it was not the writer's, otherwise the mark that was reached.
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

    /// The position of a record of `bytes` bytes, and the operations that make room for it.
    pub(super) fn reserve(
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

    /// Notes that the job with this ticket writes this record.
    pub(super) fn wrote(&mut self, header: &Header, ticket: u64) {
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
    pub(super) fn advance(&mut self, header: &Header) {
        self.offset = header.offset + header.disk_bytes();
        (self.number, self.previous_crc) = (header.number, header.header_crc);
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.end = (self.segment, self.offset);
        }
    }
}
