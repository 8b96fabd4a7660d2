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
//! `after`, the last index in the file at that time. `prev` is the digest of the previous line
//! ([`verify`](config::files::audit_log::verify)). A separate
//! thread writes the log. Only a checkpoint waits for it, before it replaces entries from which lines could be written
//! again.

// The work for the thread, its queue, and its counters.
mod counters;
mod queue;
pub(crate) mod refused;
mod work;
// The file, and the lines that the thread writes.
mod file;
mod line;

pub(crate) use counters::AuditCounters;
pub(crate) use file::{begin, last_index, read_last};
pub(crate) use queue::{AuditBarrier, AuditQueue};
pub(crate) use work::{Attempt, AuditWork};

use crate::limits::AUDIT_BATCH_MAX;
use file::AuditFile;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Pause of the audit log's thread after a write, in milliseconds, so that one wakeup covers many updates.
const AUDIT_PAUSE_MS: u64 = 20;
/// Interval between fsyncs of the audit log.
const AUDIT_SYNC_MS: u64 = 1_000;
/// Interval between `through` lines of the audit log while there are no updates.
const AUDIT_MARK_MS: u64 = 60_000;

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
            // The record counts as written once the kernel accepted it.
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
