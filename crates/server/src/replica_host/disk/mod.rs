//! The disk of a replica: one directory, two writers, and the reads at the start.
//!
//! A writer executes the jobs of its queue in order, one at a time; it never merges two syncs, because the log's
//! recovery tells a torn tail from damage by the order in which records became durable. An error aborts the process:
//! after a failed fsync the contents of the disk are unknown (see [`replica::disk`]). The exception is a full
//! disk: the writer repeats the operation until there is room ([`super::room`]).
//!
//! Log records bypass the page cache if the file system allows it. One call writes a record and makes it durable. This
//! matters because an update waits for two of these calls in sequence.

// Names, reads and zeros of one file.
mod file;
// Reads at the start, before there is a writer.
mod start_reads;
// Waiting for room on a full disk.
mod wait_for_room;

pub(crate) use start_reads::StartReads;

use super::room::{Reserve, allocate, allocate_beyond_end};
use crate::audit_log::AuditBarrier;
use crate::metrics::DurationHistogram;
use crate::sys::direct::{AlignedBuffer, is_aligned};
use file::{path, read_at, write_zeros};
use replica::disk::{DiskJob, DiskOp, DiskQueue, ReadFile};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Interval between attempts to recreate a used reserve.
const RESERVE_LOOK_MS: u64 = 5_000;
/// Maximum number of open files of a writer.
const OPEN_FILES_MAX: usize = 16;

/// Work for a writer.
#[derive(Debug)]
pub(crate) enum DiskWork {
    /// Change files.
    Job(DiskJob),
    /// Read from a file; only for the bulk writer.
    Read(ReadFile),
}

/// A result of a writer.
#[derive(Debug)]
pub(crate) enum DiskDone {
    /// A job, by its queue and ticket.
    Persisted(DiskQueue, u64),
    /// Not done yet: a job of this queue waits for room on the disk.
    Full(DiskQueue),
    /// There is room again, and the job that waited continues.
    Room(DiskQueue),
    /// A read, by its ticket.
    Read(u64, Vec<u8>),
}

/// A file that a writer has open.
struct Open {
    file: File,
    /// A descriptor for direct writes, which are durable when they return.
    direct: Option<File>,
    /// Whether the page cache may have data that is not synced.
    is_unsynced: bool,
}

/// One of the two writers.
pub(crate) struct Writer {
    dir: PathBuf,
    files: HashMap<String, Open>,
    /// The buffer for direct writes; `None` if there are none.
    direct: Option<AlignedBuffer>,
    sync_time: Arc<DurationHistogram>,
    /// A checkpoint waits for this before its rename: after it, the entries below it are not applied again.
    before_rename: Option<AuditBarrier>,
    /// Work that arrived while a job waited for room.
    behind: VecDeque<DiskWork>,
    /// The reserve for the next start on a full disk.
    reserve: Option<Reserve>,
}

impl Writer {
    pub(crate) fn new(dir: &Path, sync_time: Arc<DurationHistogram>) -> Self {
        Self {
            dir: dir.to_owned(),
            files: HashMap::new(),
            direct: None,
            sync_time,
            before_rename: None,
            behind: VecDeque::new(),
            reserve: None,
        }
    }

    /// Creates the writer of the log, which uses direct writes for data that is synced next.
    pub(crate) fn of_log(dir: &Path, sync_time: Arc<DurationHistogram>) -> Self {
        Self { direct: Some(AlignedBuffer::default()), ..Self::new(dir, sync_time) }
    }

    /// Creates the writer of checkpoints. A checkpoint replaces the old one only when the audit records of its entries
    /// are on disk.
    pub(crate) fn of_checkpoints(dir: &Path, sync_time: Arc<DurationHistogram>, audit: AuditBarrier) -> Self {
        Self { before_rename: Some(audit), reserve: Some(Reserve::new(dir)), ..Self::new(dir, sync_time) }
    }

    /// Runs until the sender of `work` is dropped. Aborts the process on the first error, except on a full disk
    /// and with too many open files.
    pub(crate) fn run(mut self, work: &Receiver<DiskWork>, done: impl Fn(DiskDone)) {
        while let Some(next) = self.next(work) {
            match next {
                DiskWork::Job(job) if self.execute_when_room(&job, work, &done) => {
                    done(DiskDone::Persisted(job.queue, job.ticket));
                }
                DiskWork::Job(_) => return,
                DiskWork::Read(read) => match self.read_when_possible(&read, work) {
                    Some(bytes) => done(DiskDone::Read(read.ticket, bytes)),
                    None => return,
                },
            }
        }
    }

    /// Waits for the next work, and maintains the reserve meanwhile.
    fn next(&mut self, work: &Receiver<DiskWork>) -> Option<DiskWork> {
        if let Some(next) = self.behind.pop_front() {
            return Some(next);
        }
        while let Some(reserve) = self.reserve.as_mut().filter(|reserve| !reserve.is_made()) {
            match work.recv_timeout(Duration::from_millis(RESERVE_LOOK_MS)) {
                Ok(next) => return Some(next),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => reserve.make_if_room(),
            }
        }
        work.recv().ok()
    }

    /// No unwinding, no destructor, no second fsync: what the disk holds is unknown from here on.
    fn abort(&self, error: &io::Error) -> ! {
        let dir = self.dir.display();
        process::log::abort(format_args!("catamaran: the disk failed in {dir}: {error}; aborting"))
    }

    /// Executes operations in order.
    pub(crate) fn execute_all(&mut self, ops: &[DiskOp]) -> io::Result<()> {
        self.execute_from(ops, &mut 0)
    }

    /// Executes operations in order from `next` on, and advances `next` after each one.
    fn execute_from(&mut self, ops: &[DiskOp], next: &mut usize) -> io::Result<()> {
        while let Some(op) = ops.get(*next) {
            match (op, ops.get(*next + 1)) {
                (DiskOp::Write { file, offset, data: bytes }, Some(DiskOp::Sync { file: synced }))
                    if file == synced =>
                {
                    self.write_durably(file, *offset, bytes)?;
                }
                _ => self.operate(op)?,
            }
            *next += 1;
        }
        Ok(())
    }

    /// Writes data that is synced next, with a direct write if possible.
    fn write_durably(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = Instant::now();
        match self.write_direct(name, offset, bytes) {
            Ok(true) => self.sync_time.record(start.elapsed()),
            Ok(false) => self.write(name, offset, bytes)?,
            // The file system or disk does not support direct writes. Nothing was written.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.direct = None;
                self.write(name, offset, bytes)?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Does a direct write, if the offset and length allow it. Returns whether it did.
    fn write_direct(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        if self.direct.is_none() || !is_aligned(offset, bytes.len()) {
            return Ok(false);
        }
        let path = path(&self.dir, name)?;
        self.open(name)?;
        let (Some(open), Some(buffer)) = (self.files.get_mut(name), &mut self.direct) else { return Ok(false) };
        let direct = match &mut open.direct {
            Some(direct) => direct,
            none => {
                let durable = if replica::planted!(LogWithoutDsync) { 0 } else { libc::O_DSYNC };
                let flags = libc::O_DIRECT | durable;
                none.insert(OpenOptions::new().write(true).custom_flags(flags).open(path)?)
            }
        };
        direct.write_all_at(buffer.filled(bytes), offset)?;
        Ok(true)
    }

    fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let open = self.open(name)?;
        allocate_beyond_end(&open.file, offset, bytes.len() as u64)?;
        open.is_unsynced = true;
        open.file.write_all_at(bytes, offset)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let start = Instant::now();
        let open = self.open(name)?;
        if std::mem::take(&mut open.is_unsynced) && !replica::planted!(SyncsSkipped) {
            let synced = open.file.sync_data();
            if !replica::planted!(FailedSyncIgnored) {
                synced?;
            }
            self.sync_time.record(start.elapsed());
        }
        Ok(())
    }

    fn operate(&mut self, op: &DiskOp) -> io::Result<()> {
        match op {
            DiskOp::Create { file, zeroed_bytes } => self.create(file, *zeroed_bytes),
            DiskOp::Write { file, offset, data: bytes } => self.write(file, *offset, bytes),
            DiskOp::Zero { file, offset, bytes } => {
                let open = self.open(file)?;
                open.is_unsynced = true;
                write_zeros(&open.file, *offset, *bytes)
            }
            DiskOp::Sync { file } => self.sync(file),
            DiskOp::Rename { from, to } => {
                if let Some(audit) = &self.before_rename {
                    audit.wait();
                }
                self.files.remove(to);
                if let Some(file) = self.files.remove(from) {
                    self.files.insert(to.clone(), file);
                }
                std::fs::rename(path(&self.dir, from)?, path(&self.dir, to)?)
            }
            DiskOp::Remove { file } => {
                self.files.remove(file);
                match std::fs::remove_file(path(&self.dir, file)?) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
            DiskOp::SyncDir if replica::planted!(DirectoryNeverSynced) => Ok(()),
            DiskOp::SyncDir => File::open(&self.dir)?.sync_all(),
        }
    }

    fn create(&mut self, name: &str, zeroed_bytes: u64) -> io::Result<()> {
        let path = path(&self.dir, name)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        if let Err(error) = allocate(&file, 0, zeroed_bytes).and_then(|()| write_zeros(&file, 0, zeroed_bytes)) {
            // Give back the part that was allocated: others can use it.
            let _ = file.set_len(0);
            return Err(error);
        }
        self.keep(name, file);
        Ok(())
    }

    fn read(&mut self, read: &ReadFile) -> io::Result<Vec<u8>> {
        let open = self.open(&read.file)?;
        read_at(&open.file, read.offset, read.len)
    }

    fn open(&mut self, name: &str) -> io::Result<&mut Open> {
        if !self.files.contains_key(name) {
            let file = OpenOptions::new().read(true).write(true).open(path(&self.dir, name)?)?;
            self.keep(name, file);
        }
        self.files.get_mut(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn keep(&mut self, name: &str, file: File) {
        if self.files.len() >= OPEN_FILES_MAX {
            // Closing loses nothing: fsync applies to the file, so a later sync can reopen it.
            self.files.clear();
        }
        // Another descriptor may have written unsynced data.
        self.files.insert(name.to_owned(), Open { file, direct: None, is_unsynced: true });
    }
}

#[cfg(test)]
mod power_cut;

#[cfg(test)]
mod tests;
