//! The queue of the audit log's thread.

use super::counters::AuditCounters;
use super::refused::RefusedQueue;
use super::work::AuditWork;
use crate::limits::AUDIT_WAITING_MAX;
use replica::io::AuditRecord;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

/// Waits until queued records are on disk.
pub(crate) struct AuditBarrier(Sender<AuditWork>);

impl AuditBarrier {
    /// Waits until all queued records are on disk, or cannot be written.
    pub(crate) fn wait(&self) {
        let (synced, until) = channel();
        if self.0.send(AuditWork::Sync(synced)).is_ok() {
            // No message is sent: the receiver ends when the sender is dropped.
            let _ended = until.recv();
        }
    }
}

/// Sends records to the audit log thread. Never blocks.
pub(crate) struct AuditQueue {
    work: Sender<AuditWork>,
    counters: Arc<AuditCounters>,
    /// The last index that was queued or lost.
    seen: u64,
    /// A gap that is not queued yet: after the first index, up to the second.
    gap: Option<(u64, u64)>,
}

impl AuditQueue {
    /// Creates the queue for an audit log whose last index is `last`, and the receiver for its thread.
    pub(crate) fn new(last: u64, counters: Arc<AuditCounters>) -> (Self, Receiver<AuditWork>) {
        let (work, receiver) = channel();
        (Self { work, counters, seen: last, gap: None }, receiver)
    }

    /// The queue for refused requests.
    pub(crate) fn refusals(&self) -> RefusedQueue {
        RefusedQueue { work: self.work.clone(), counters: self.counters.clone() }
    }

    /// A barrier that waits for the disk.
    pub(crate) fn barrier(&self) -> AuditBarrier {
        AuditBarrier(self.work.clone())
    }

    /// Queues the next records.
    pub(crate) fn put(&mut self, records: Vec<AuditRecord>) {
        let Some(last) = records.last().map(AuditRecord::index) else { return };
        let count = records.len();
        // A gap needs an entry in the queue too.
        let work_count = count + usize::from(self.gap.is_some());
        if self.counters.waiting.put(work_count, AUDIT_WAITING_MAX) {
            if let Some((after, to)) = self.gap.take() {
                self.send(AuditWork::Gap { after, to });
            }
            self.send(AuditWork::Records(records));
        } else {
            self.counters.lost.add_shared(count as u64);
            let after = self.gap.map_or(self.seen, |(after, _)| after);
            self.gap = Some((after, last));
        }
        self.seen = last;
    }

    /// Queues an action on this node only. Returns `false` if the queue is full.
    pub(crate) fn put_local(
        &self,
        time_ms: u64,
        action: &'static str,
        subject: String,
        written: oneshot::Sender<bool>,
    ) -> bool {
        let has_room = self.counters.waiting.enter(AUDIT_WAITING_MAX);
        if has_room {
            self.send(AuditWork::Local { time_ms, action, subject, written });
        }
        has_room
    }

    /// Queues a gap: the replica did not apply these entries one by one.
    pub(crate) fn put_gap(&mut self, after: u64, to: u64) {
        let after = self.gap.map_or(after, |(earlier, _)| earlier);
        if self.counters.waiting.enter(AUDIT_WAITING_MAX) {
            self.gap = None;
            self.send(AuditWork::Gap { after, to });
        } else {
            self.gap = Some((after, to));
        }
        self.seen = self.seen.max(to);
    }

    /// Notes that all records up to this index were queued.
    pub(crate) fn through(&mut self, index: u64) {
        if let Some((after, to)) = self.gap
            && self.counters.waiting.enter(AUDIT_WAITING_MAX)
        {
            self.gap = None;
            self.send(AuditWork::Gap { after, to });
        }
        if self.gap.is_none() {
            // Release order: the thread sees the earlier work first.
            self.counters.through.store(index, Release);
        }
    }

    fn send(&self, work: AuditWork) {
        // The thread outlives this queue.
        let _ = self.work.send(work);
    }
}
