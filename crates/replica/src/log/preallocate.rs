//! Preallocates zeroed segments on the bulk queue, so that the log never waits for zeros.

use super::limits::SPARE_SEGMENTS_MAX;
use super::segment::{segment_file, spare_file};
use crate::disk::{DiskJob, DiskOp, DiskQueue, Tickets};
use std::collections::VecDeque;

/// Segments that are ready for use, and retired ones that can be recycled.
#[derive(Debug)]
pub(crate) struct SegmentPreallocator {
    segment_bytes: u64,
    ready: VecDeque<String>,
    /// Number and size of segments that no durable record needs.
    retired: VecDeque<(u64, u64)>,
    next_number: u64,
    under_way: Option<UnderWay>,
    is_wanted: bool,
}

#[derive(Debug)]
struct UnderWay {
    ticket: u64,
    /// The spare segment that will be ready when the job is done.
    new_file: Option<String>,
}

impl SegmentPreallocator {
    pub(crate) fn new(segment_bytes: u64) -> Self {
        Self {
            segment_bytes,
            ready: VecDeque::new(),
            retired: VecDeque::new(),
            next_number: 1,
            under_way: None,
            is_wanted: false,
        }
    }

    /// Numbers up to this one belong to files that are about to be removed.
    pub(crate) fn skip_number(&mut self, number: u64) {
        self.next_number = self.next_number.max(number.saturating_add(1));
    }

    /// Name of a zeroed file to be renamed, if one is ready.
    pub(crate) fn take(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    /// Whether a zeroed file is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The log is in use, so a spare segment is needed.
    pub(crate) fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Adds a segment that may be reused.
    pub(crate) fn retire(&mut self, number: u64, bytes: u64) {
        self.retired.push_back((number, bytes));
    }

    /// The next job, if none is in progress. Segments being read are left alone.
    pub(crate) fn poll(&mut self, tickets: &mut Tickets, is_read: impl Fn(u64) -> bool) -> Option<DiskJob> {
        if self.under_way.is_some() {
            return None;
        }
        let (mut ops, new_file) = match self.retired.iter().position(|(number, _)| !is_read(*number)) {
            Some(position) => self.reuse(position),
            None if self.ready.is_empty() && self.is_wanted => self.make(),
            None => return None,
        };
        ops.push(DiskOp::SyncDir);
        let ticket = tickets.draw();
        self.under_way = Some(UnderWay { ticket, new_file });
        Some(DiskJob { queue: DiskQueue::Bulk, ticket, ops })
    }

    /// Whether the ticket was one of these jobs.
    pub(crate) fn persisted(&mut self, ticket: u64) -> bool {
        match self.under_way.take() {
            Some(UnderWay { ticket: ours, new_file }) if ours == ticket => {
                self.ready.extend(new_file);
                true
            }
            other => {
                self.under_way = other;
                false
            }
        }
    }

    fn reuse(&mut self, position: usize) -> (Vec<DiskOp>, Option<String>) {
        let (number, bytes) = self.retired.remove(position).expect("the position was just found");
        let from = segment_file(number);
        if planted!(SegmentsNotRecycled) || bytes != self.segment_bytes || self.ready.len() >= SPARE_SEGMENTS_MAX {
            return (vec![DiskOp::Remove { file: from }], None);
        }
        let (zeroing, new_file) = self.make();
        let to = new_file.clone().expect("`make` makes one");
        let mut ops = vec![DiskOp::Rename { from, to }];
        if !planted!(SparesNotZeroed) {
            ops.extend(zeroing);
        }
        (ops, new_file)
    }

    fn make(&mut self) -> (Vec<DiskOp>, Option<String>) {
        let file = spare_file(self.next_number);
        self.next_number += 1;
        let ops = vec![
            DiskOp::Create { file: file.clone(), zeroed_bytes: self.segment_bytes },
            DiskOp::Sync { file: file.clone() },
        ];
        (ops, Some(file))
    }
}
