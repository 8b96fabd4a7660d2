//! A job on a full disk waits until there is room, and is repeated from the operation that failed. So does a job whose
//! file cannot be opened, because too many files are open.

use super::{DiskDone, DiskWork, Writer};
use crate::replica_host::room::{is_no_room, is_out_of_descriptors, may_repeat};
use replica::disk::{DiskJob, DiskOp, ReadFile};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval between attempts to write to a full disk.
pub(super) const DISK_FULL_RETRY_MS: u64 = 500;

impl Writer {
    /// Executes a job, and waits for room on a full disk. Returns false if the node stops meanwhile.
    pub(super) fn execute_when_room(
        &mut self,
        job: &DiskJob,
        work: &Receiver<DiskWork>,
        done: &impl Fn(DiskDone),
    ) -> bool {
        let (mut next, mut is_waiting) = (0, false);
        loop {
            let before = next;
            let result = self.execute_from(&job.ops, &mut next);
            if is_waiting && (result.is_ok() || next > before) {
                is_waiting = false;
                tracing::info!(dir = %self.dir.display(), queue = ?job.queue, "writes to the disk succeed again");
                done(DiskDone::Room(job.queue));
            }
            match result {
                Ok(()) => return true,
                Err(error) if is_out_of_descriptors(&error) || is_no_room(&error) && may_repeat(&job.ops[next]) => {
                    if !is_waiting {
                        is_waiting = true;
                        self.report_waiting(job, &error);
                        done(DiskDone::Full(job.queue));
                    }
                    if !self.wait_to_retry(work) {
                        return false;
                    }
                    if is_no_room(&error) {
                        self.remove_behind(job, done);
                    }
                }
                Err(error) => self.abort(&error),
            }
        }
    }

    fn report_waiting(&self, job: &DiskJob, error: &io::Error) {
        let (dir, queue) = (self.dir.display(), &job.queue);
        if is_no_room(error) {
            tracing::error!(%error, %dir, ?queue, "the disk is full: the node keeps answering queries; make room");
        } else {
            tracing::error!(
                %error, %dir, ?queue,
                "the node cannot open its files, but keeps answering queries; raise the limit of open files (`ulimit \
                 -n`, LimitNOFILE in systemd)"
            );
        }
    }

    /// Reads part of a file, and waits if too many files are open. `None` if the node stops meanwhile.
    pub(super) fn read_when_possible(&mut self, read: &ReadFile, work: &Receiver<DiskWork>) -> Option<Vec<u8>> {
        loop {
            match self.read(read) {
                Ok(bytes) => return Some(bytes),
                Err(error) if is_out_of_descriptors(&error) => {
                    process::error_limited!(%error, dir = %self.dir.display(), "the node cannot open its files");
                    if !self.wait_to_retry(work) {
                        return None;
                    }
                }
                Err(error) => self.abort(&error),
            }
        }
    }

    /// Waits before the next attempt, and queues new work. Returns false if the sender of `work` is gone: a stop does
    /// not wait for jobs that were never acknowledged.
    fn wait_to_retry(&mut self, work: &Receiver<DiskWork>) -> bool {
        let until = Instant::now() + Duration::from_millis(DISK_FULL_RETRY_MS);
        loop {
            match work.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(next) => self.behind.push_back(next),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Executes jobs that only remove files, up to the first other job: their removal may make room for `waiting`.
    fn remove_behind(&mut self, waiting: &DiskJob, done: &impl Fn(DiskDone)) {
        let is_free = |op: &DiskOp| match op {
            DiskOp::Remove { file } => !waiting.ops.iter().any(|op| touches(op, file)),
            DiskOp::SyncDir => true,
            _ => false,
        };
        while let Some(DiskWork::Job(job)) = self.behind.front()
            && job.ops.iter().all(is_free)
        {
            let Some(DiskWork::Job(job)) = self.behind.pop_front() else { return };
            match self.execute_all(&job.ops) {
                Ok(()) => done(DiskDone::Persisted(job.queue, job.ticket)),
                Err(error) => self.abort(&error),
            }
        }
    }
}

/// Whether an operation is about a file.
fn touches(op: &DiskOp, name: &str) -> bool {
    match op {
        DiskOp::Create { file, .. } | DiskOp::Write { file, .. } | DiskOp::Zero { file, .. } => file == name,
        DiskOp::Sync { file } | DiskOp::Remove { file } => file == name,
        DiskOp::Rename { from, to } => from == name || to == name,
        DiskOp::SyncDir => false,
    }
}
