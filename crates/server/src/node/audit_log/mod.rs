//! The audit log of a node: one JSON line for each update that changed a zone and for each administrative action. The
//! files are rotated.
//!
//! ```text
//!   {"index":812,"time_ms":1700000000123,"key":"dhcp.","source":"192.0.2.7","zone":"example.org.",
//!    "serial_from":41,"serial_to":42,"deleted":1,"added":2,"names":["a.example.org. A"],"prev":"..."}
//!   {"index":813,"time_ms":1700000000456,"action":"key add","subject":"dhcp.","prev":"..."}
//!   {"after":813,"time_ms":1700000000789,"action":"key show","subject":"dhcp.","prev":"..."}
//!   {"after":813,"time_ms":1700000000999,"refused":"not_granted","attempt":"update","key":"acme.",
//!    "source":"192.0.2.8","zone":"example.org.","names":["www.example.org. A"],"prev":"..."}
//!   {"gap_after":900,"gap_to":1000}
//!   {"through":1012}
//! ```
//! Every node writes the same lines except for `prev`. Each index is written once, in order, also over restarts. A gap
//! marks entries that a node did not apply one by one (it installed a checkpoint) or had no room for; other nodes have
//! these lines. `through` means that no line up to this index is missing. Requests that only concern this node have
//! `after`, the last index in the file at that time. `prev` is the digest of the previous line ([`verify`]). A separate
//! thread writes the log. Only a checkpoint waits for it, before it replaces entries from which lines could be written
//! again.

mod file;
mod line;
pub(crate) mod refused;
pub(crate) mod verify;

use file::AuditFile;
pub(crate) use file::{begin, last_index, read_last};

use crate::limits::{AUDIT_BATCH_MAX, AUDIT_MARK_MS, AUDIT_PAUSE_MS, AUDIT_SYNC_MS, AUDIT_WAITING_MAX};
use crate::metrics::text::{Kind, Page};
use crate::metrics::{Counter, Gauge};
use refused::Attempt;
use replica::io::AuditRecord;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Work for the audit log thread.
#[derive(Debug)]
pub(crate) enum AuditWork {
    /// Updates, in order.
    Records(Vec<AuditRecord>),
    /// An action on this node only. The sender learns whether it was written.
    Local { time_ms: u64, action: &'static str, subject: String, written: oneshot::Sender<bool> },
    /// A refused request, and the number of earlier ones without a line.
    Refused(Box<Attempt>, u64),
    /// No lines are available after index `after`, up to and including `to`.
    Gap { after: u64, to: u64 },
    /// Request to sync; the sender is dropped once all earlier work is on disk.
    Sync(Sender<()>),
}

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

/// Counters of the audit log.
#[derive(Default, Debug)]
pub(crate) struct AuditCounters {
    written: Counter,
    /// Records lost because the queue was full, or the write failed.
    lost: Counter,
    waiting: Gauge,
    /// All records up to this index were queued.
    through: AtomicU64,
    /// Maximum total size of the files. A reload can change it.
    bytes_max: AtomicU64,
    /// The last attempt to write failed.
    is_failing: AtomicBool,
}

impl AuditCounters {
    /// Changes the maximum total size of the files.
    pub(crate) fn set_bytes_max(&self, bytes_max: u64) {
        self.bytes_max.store(bytes_max, Relaxed);
    }

    /// Whether the last write to the audit log failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Relaxed)
    }

    pub(crate) fn write(&self, page: &mut Page) {
        let (written, lost) = (self.written.get(), self.lost.get());
        page.single("catamaran_audit_records_total", Kind::Counter, "Records in the audit log.", written);
        page.single(
            "catamaran_audit_records_lost_total",
            Kind::Counter,
            "Records missing in the audit log of this node, because the queue was full or the write failed.",
            lost,
        );
        let help = "1: the audit log of this node cannot be written now; updates continue without it.";
        page.single("catamaran_audit_failing", Kind::Gauge, help, u8::from(self.is_failing()));
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

    /// The sink for refused requests.
    pub(crate) fn refusals(&self) -> refused::Sink {
        refused::Sink { work: self.work.clone(), counters: self.counters.clone() }
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
        let places = count + usize::from(self.gap.is_some());
        if self.counters.waiting.put(places, AUDIT_WAITING_MAX) {
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

/// Writes until the queue is closed. A line reaches the kernel within 20 ms, and the disk within another second. After
/// a kill, the next start writes the missing lines of updates again, from the node's log.
pub(crate) fn run(path: &Path, bytes_max: u64, work: &Receiver<AuditWork>, counters: &Arc<AuditCounters>) {
    counters.set_bytes_max(bytes_max);
    let mut file = AuditFile::open(path, counters.clone());
    let mut is_dirty = false;
    let (mut synced_at, mut marked_at) = (Instant::now(), Instant::now());
    loop {
        // Read before the queue is found empty: everything queued before is written by then.
        let through = counters.through.load(Acquire);
        let next = work.recv_timeout(Duration::from_millis(AUDIT_SYNC_MS));
        match next {
            Ok(first) => {
                for work in std::iter::once(first).chain(work.try_iter().take(AUDIT_BATCH_MAX)) {
                    write(&mut file, work, counters);
                }
                file.flush();
                is_dirty = true;
                std::thread::sleep(Duration::from_millis(AUDIT_PAUSE_MS));
            }
            Err(RecvTimeoutError::Timeout) if marked_at.elapsed() >= Duration::from_millis(AUDIT_MARK_MS) => {
                file.through(through);
                file.flush();
                (is_dirty, marked_at) = (true, Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                file.through(counters.through.load(Acquire));
                return file.sync();
            }
        }
        if is_dirty && synced_at.elapsed() >= Duration::from_millis(AUDIT_SYNC_MS) {
            file.sync();
            (is_dirty, synced_at) = (false, Instant::now());
        }
    }
}

fn write(file: &mut AuditFile, work: AuditWork, counters: &AuditCounters) {
    match work {
        AuditWork::Records(records) => {
            counters.waiting.take(records.len());
            for record in &records {
                file.record(record);
            }
        }
        AuditWork::Local { time_ms, action, subject, written } => {
            counters.waiting.leave();
            // The record counts as written when the kernel has it.
            let done = file.local(time_ms, action, &subject) && file.flush();
            // The receiver may be gone.
            let _ = written.send(done);
        }
        AuditWork::Refused(attempt, unsaid) => {
            counters.waiting.leave();
            file.refused(&attempt, unsaid);
        }
        AuditWork::Gap { after, to } => {
            counters.waiting.leave();
            file.gap(after, to);
        }
        AuditWork::Sync(synced) => {
            file.sync();
            drop(synced);
        }
    }
}

#[cfg(test)]
mod tests;
