//! The disk of a replica: one directory, two writers, and the reads at start.
//!
//! A writer executes the jobs of its queue in order, one at a time; it never merges two syncs, because the log's
//! recovery tells a torn tail from damage by the order in which records became durable. An error aborts the process:
//! after a failed fsync nothing is known about what the disk holds (see [`replica::disk`]). The exception is a full
//! disk: the writer repeats the operation until there is room ([`super::room`]).
//!
//! A record of the log goes past the page cache where the file system lets it, written and made durable by one call: an
//! update waits for two of these, one after the other.

use super::audit_log::AuditBarrier;
use super::direct::{AlignedBuffer, is_aligned};
use super::room::{Reserve, allocate, allocate_beyond_end, is_no_room, may_repeat};
use crate::limits::{DISK_FULL_RETRY_MS, RESERVE_LOOK_MS};
use crate::metrics::DurationHistogram;
use replica::disk::{DiskError, DiskJob, DiskOp, DiskQueue, DiskRead, ReadFile};
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Octets that are written at once where zeroes are wanted.
const ZERO_BLOCK: usize = 1 << 20;
/// Files that a writer keeps open.
const OPEN_FILES_MAX: usize = 16;

/// What a writer is asked to do.
#[derive(Debug)]
pub(crate) enum DiskWork {
    /// Change files.
    Job(DiskJob),
    /// Read from one; only for the bulk writer.
    Read(ReadFile),
}

/// What a writer has done.
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
    /// For writes past the page cache, durable when they return.
    direct: Option<File>,
    /// Whether something may have been written by way of the page cache since the last sync.
    is_unsynced: bool,
}

/// One of the two writers.
pub(crate) struct Writer {
    dir: PathBuf,
    files: HashMap<String, Open>,
    /// What goes past the page cache; `None` where nothing does.
    direct: Option<AlignedBuffer>,
    sync_time: Arc<DurationHistogram>,
    /// What a checkpoint that takes its place waits for: from then on the entries below it are not applied again.
    before_rename: Option<AuditBarrier>,
    /// Work that arrived while a job waited for room.
    behind: VecDeque<DiskWork>,
    /// Room for the next start.
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

    /// One for the log: what is synced right after it was written goes past the page cache.
    pub(crate) fn of_log(dir: &Path, sync_time: Arc<DurationHistogram>) -> Self {
        Self { direct: Some(AlignedBuffer::default()), ..Self::new(dir, sync_time) }
    }

    /// One for checkpoints: none takes its place before all that is told of the entries below it is on the disk.
    pub(crate) fn of_checkpoints(dir: &Path, sync_time: Arc<DurationHistogram>, audit: AuditBarrier) -> Self {
        Self { before_rename: Some(audit), reserve: Some(Reserve::new(dir)), ..Self::new(dir, sync_time) }
    }

    /// Works until the other end of `work` is gone. Aborts the process on the first error, except on a full disk.
    pub(crate) fn run(mut self, work: &Receiver<DiskWork>, done: impl Fn(DiskDone)) {
        while let Some(next) = self.next(work) {
            match next {
                DiskWork::Job(job) if self.execute_when_room(&job, work, &done) => {
                    done(DiskDone::Persisted(job.queue, job.ticket));
                }
                DiskWork::Job(_) => return,
                DiskWork::Read(read) => match self.read(&read) {
                    Ok(octets) => done(DiskDone::Read(read.ticket, octets)),
                    Err(error) => self.abort(&error),
                },
            }
        }
    }

    /// The next work; looks after the reserve meanwhile.
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

    /// Executes a job, and waits for room on a full disk. Returns false if the node stops meanwhile.
    fn execute_when_room(&mut self, job: &DiskJob, work: &Receiver<DiskWork>, done: &impl Fn(DiskDone)) -> bool {
        let (mut place, mut is_waiting) = (0, false);
        loop {
            let before = place;
            let result = self.execute_from(&job.ops, &mut place);
            if is_waiting && (result.is_ok() || place > before) {
                is_waiting = false;
                tracing::info!(dir = %self.dir.display(), queue = ?job.queue, "the disk has room again");
                done(DiskDone::Room(job.queue));
            }
            match result {
                Ok(()) => return true,
                Err(error) if is_no_room(&error) && may_repeat(&job.ops[place]) => {
                    if !is_waiting {
                        is_waiting = true;
                        let dir = self.dir.display();
                        tracing::error!(
                            %error, %dir, queue = ?job.queue,
                            "the disk is full: the node keeps answering queries; make room"
                        );
                        done(DiskDone::Full(job.queue));
                    }
                    if !self.wait_to_retry(work) {
                        return false;
                    }
                    self.remove_behind(job, done);
                }
                Err(error) => self.abort(&error),
            }
        }
    }

    /// Waits a while and keeps what comes. Returns false if the other end of `work` is gone: what waits for room then
    /// is not acknowledged, and a stop must not wait for it.
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

    /// Executes jobs that only remove files, up to the first other job: they may give the room that `waiting` needs.
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

    /// No unwinding, no destructor, no second fsync: what the disk holds is unknown from here on.
    fn abort(&self, error: &io::Error) -> ! {
        let dir = self.dir.display();
        crate::log::abort(format_args!("catamaran: the disk failed in {dir}: {error}; aborting"))
    }

    /// Executes operations in order.
    pub(crate) fn execute_all(&mut self, ops: &[DiskOp]) -> io::Result<()> {
        self.execute_from(ops, &mut 0)
    }

    /// Executes operations in order from `place` on, which moves on with each that is done.
    fn execute_from(&mut self, ops: &[DiskOp], place: &mut usize) -> io::Result<()> {
        while let Some(op) = ops.get(*place) {
            match (op, ops.get(*place + 1)) {
                (DiskOp::Write { file, offset, octets }, Some(DiskOp::Sync { file: synced })) if file == synced => {
                    self.write_durably(file, *offset, octets)?;
                }
                _ => self.operate(op)?,
            }
            *place += 1;
        }
        Ok(())
    }

    /// Writes what is synced next; past the page cache, if it can be.
    fn write_durably(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<()> {
        let start = Instant::now();
        match self.write_direct(name, offset, octets) {
            Ok(true) => self.sync_time.record(start.elapsed()),
            Ok(false) => self.write(name, offset, octets)?,
            // The file system, or its disk, takes no such writes: nothing was written.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.direct = None;
                self.write(name, offset, octets)?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Writes past the page cache, if these octets may go that way; whether they did.
    fn write_direct(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<bool> {
        if self.direct.is_none() || !is_aligned(offset, octets.len()) {
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
        direct.write_all_at(buffer.filled(octets), offset)?;
        Ok(true)
    }

    fn write(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<()> {
        let open = self.open(name)?;
        allocate_beyond_end(&open.file, offset, octets.len() as u64)?;
        open.is_unsynced = true;
        open.file.write_all_at(octets, offset)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let start = Instant::now();
        let open = self.open(name)?;
        if std::mem::take(&mut open.is_unsynced) && !replica::planted!(SyncsSkipped) {
            open.file.sync_data()?;
            self.sync_time.record(start.elapsed());
        }
        Ok(())
    }

    fn operate(&mut self, op: &DiskOp) -> io::Result<()> {
        match op {
            DiskOp::Create { file, zeroed_bytes } => self.create(file, *zeroed_bytes),
            DiskOp::Write { file, offset, octets } => self.write(file, *offset, octets),
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
            // On a full disk, others have more use for the part that there was room for.
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
            // Closing loses nothing: a later sync opens the file anew, and fsync is about the file, not the handle.
            self.files.clear();
        }
        // What another handle wrote before is not known here.
        self.files.insert(name.to_owned(), Open { file, direct: None, is_unsynced: true });
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

/// The reads at start.
pub(crate) struct StartReads {
    dir: PathBuf,
}

impl StartReads {
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }
}

impl DiskRead for StartReads {
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError> {
        let failed =
            |error: io::Error| DiskError::Failed { file: self.dir.display().to_string(), reason: error.to_string() };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let metadata = entry.metadata().map_err(failed)?;
            if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
                files.push((name, metadata.len()));
            }
        }
        Ok(files)
    }

    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError> {
        let result = path(&self.dir, file).and_then(File::open).and_then(|file| read_at(&file, offset, len));
        result.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DiskError::Missing { file: file.to_owned() },
            _ => DiskError::Failed { file: file.to_owned(), reason: error.to_string() },
        })
    }
}

fn write_zeros(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let zeros = vec![0u8; ZERO_BLOCK.min(usize::try_from(bytes).unwrap_or(ZERO_BLOCK))];
    let mut done = 0;
    while done < bytes {
        let len = (bytes - done).min(zeros.len() as u64);
        file.write_all_at(&zeros[..len as usize], offset + done)?;
        done += len;
    }
    Ok(())
}

/// Up to `len` octets; fewer where the file ends.
fn read_at(file: &File, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    // What the file cannot hold is not allocated, whatever was asked for.
    let left = file.metadata()?.len().saturating_sub(offset);
    let mut octets = vec![0; len.min(usize::try_from(left).unwrap_or(usize::MAX))];
    let mut filled = 0;
    while filled < octets.len() {
        match file.read_at(&mut octets[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    octets.truncate(filled);
    Ok(octets)
}

/// A name that the replica chose, in its directory: a single component, so that no bug of its can reach further.
fn path(dir: &Path, name: &str) -> io::Result<PathBuf> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("`{name}` is no name of a file")));
    }
    Ok(dir.join(name))
}

#[cfg(test)]
mod power_cut;

#[cfg(test)]
mod tests {
    use super::*;
    use replica::disk::DiskQueue;

    fn name(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn jobs_are_executed_in_order_and_read_back() {
        let dir = crate::test_dir("disk");
        let (send, receive) = std::sync::mpsc::channel();
        let ops = vec![
            DiskOp::Create { file: name("a"), zeroed_bytes: (ZERO_BLOCK + 5) as u64 },
            DiskOp::Write { file: name("a"), offset: 3, octets: vec![1, 2, 3] },
            DiskOp::Zero { file: name("a"), offset: 4, bytes: 1 },
            DiskOp::Sync { file: name("a") },
            DiskOp::Rename { from: name("a"), to: name("b") },
            DiskOp::Write { file: name("b"), offset: (ZERO_BLOCK + 5) as u64, octets: vec![9] },
            DiskOp::Remove { file: name("nothing") },
            DiskOp::SyncDir,
        ];
        send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Log, ticket: 7, ops })).unwrap();
        send.send(DiskWork::Read(ReadFile { ticket: 8, file: name("b"), offset: 2, len: 5 })).unwrap();
        send.send(DiskWork::Read(ReadFile { ticket: 9, file: name("b"), offset: ZERO_BLOCK as u64 + 4, len: 99 }))
            .unwrap();
        drop(send);
        let done = std::sync::Mutex::new(Vec::new());
        let times = Arc::new(DurationHistogram::default());
        Writer::new(dir.path(), times.clone()).run(&receive, |result| done.lock().unwrap().push(format!("{result:?}")));
        assert_eq!(*done.lock().unwrap(), ["Persisted(Log, 7)", "Read(8, [0, 1, 0, 3, 0])", "Read(9, [0, 9])"]);
        assert_eq!(times.count(), 1);
        let reads = StartReads::new(dir.path());
        assert_eq!(reads.list().unwrap(), [(name("b"), ZERO_BLOCK as u64 + 6)]);
        assert_eq!(reads.read("a", 0, 1), Err(DiskError::Missing { file: name("a") }));
        assert_eq!(reads.read("b", 1 << 40, 1 << 40).unwrap(), Vec::<u8>::new());
    }

    /// A job whose file has no room: its name leads to a device on which each write fails so.
    fn job_without_room(dir: &Path) -> DiskJob {
        std::os::unix::fs::symlink("/dev/full", dir.join("spare")).unwrap();
        let ops = vec![
            DiskOp::Create { file: name("spare"), zeroed_bytes: 4 },
            DiskOp::Write { file: name("spare"), offset: 1, octets: vec![7] },
            DiskOp::Sync { file: name("spare") },
        ];
        DiskJob { queue: DiskQueue::Bulk, ticket: 3, ops }
    }

    #[test]
    fn on_a_full_disk_a_job_waits_for_room_and_is_repeated() {
        let dir = crate::test_dir("disk-no-room");
        let (send, receive) = std::sync::mpsc::channel();
        let (told, heard) = std::sync::mpsc::channel();
        send.send(DiskWork::Job(job_without_room(dir.path()))).unwrap();
        let writer = Writer::new(dir.path(), Arc::default());
        let writer = std::thread::spawn(move || writer.run(&receive, |done| told.send(format!("{done:?}")).unwrap()));
        assert_eq!(heard.recv().unwrap(), "Full(Bulk)");
        send.send(DiskWork::Read(ReadFile { ticket: 4, file: name("spare"), offset: 0, len: 9 })).unwrap();
        let wait = Duration::from_millis(3 * DISK_FULL_RETRY_MS);
        assert!(heard.recv_timeout(wait).is_err(), "it is told once, and what comes later waits");
        // A job that only removes files does not wait behind the job that needs their room; but it keeps its order.
        std::fs::write(dir.path().join("old"), "old").unwrap();
        let removal = |ticket, file: &str| {
            let ops = vec![DiskOp::Remove { file: name(file) }, DiskOp::SyncDir];
            DiskWork::Job(DiskJob { queue: DiskQueue::Bulk, ticket, ops })
        };
        send.send(removal(5, "old")).unwrap();
        assert!(heard.recv_timeout(wait).is_err() && dir.path().join("old").exists(), "behind the read");
        std::fs::remove_file(dir.path().join("spare")).unwrap();
        let rest: Vec<_> = (0..4).map(|_| heard.recv().unwrap()).collect();
        assert_eq!(rest, ["Room(Bulk)", "Persisted(Bulk, 3)", "Read(4, [0, 7, 0, 0])", "Persisted(Bulk, 5)"]);
        drop(send);
        writer.join().unwrap();
    }

    #[test]
    fn a_removal_does_not_wait_behind_a_job_that_needs_its_room() {
        let dir = crate::test_dir("disk-removal");
        let (send, receive) = std::sync::mpsc::channel();
        let (told, heard) = std::sync::mpsc::channel();
        send.send(DiskWork::Job(job_without_room(dir.path()))).unwrap();
        for (ticket, file) in [(4, "old"), (5, "spare")] {
            let ops = vec![DiskOp::Remove { file: name(file) }, DiskOp::SyncDir];
            send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Bulk, ticket, ops })).unwrap();
        }
        std::fs::write(dir.path().join("old"), "old").unwrap();
        let writer = Writer::new(dir.path(), Arc::default());
        let writer = std::thread::spawn(move || writer.run(&receive, |done| told.send(format!("{done:?}")).unwrap()));
        assert_eq!([heard.recv().unwrap(), heard.recv().unwrap()], ["Full(Bulk)", "Persisted(Bulk, 4)"]);
        assert!(!dir.path().join("old").exists());
        let wait = Duration::from_millis(2 * DISK_FULL_RETRY_MS);
        assert!(heard.recv_timeout(wait).is_err(), "the file of the waiting job is not removed before it");
        std::fs::remove_file(dir.path().join("spare")).unwrap();
        let rest: Vec<_> = (0..3).map(|_| heard.recv().unwrap()).collect();
        assert_eq!(rest, ["Room(Bulk)", "Persisted(Bulk, 3)", "Persisted(Bulk, 5)"]);
        drop(send);
        writer.join().unwrap();
    }

    #[test]
    fn a_stop_does_not_wait_for_room() {
        let dir = crate::test_dir("disk-no-room-stop");
        let (send, receive) = std::sync::mpsc::channel();
        send.send(DiskWork::Job(job_without_room(dir.path()))).unwrap();
        drop(send);
        let told = std::sync::Mutex::new(Vec::new());
        Writer::new(dir.path(), Arc::default()).run(&receive, |done| told.lock().unwrap().push(format!("{done:?}")));
        assert_eq!(*told.lock().unwrap(), ["Full(Bulk)"], "the job is never said to be done");
    }

    fn record(offset: u64, octets: Vec<u8>) -> [DiskOp; 2] {
        [DiskOp::Write { file: name("log"), offset, octets }, DiskOp::Sync { file: name("log") }]
    }

    #[test]
    fn records_of_the_log_are_synced_as_they_are_written_and_readers_see_them() {
        let dir = crate::test_dir("disk-direct");
        let times = Arc::new(DurationHistogram::default());
        let mut writer = Writer::of_log(dir.path(), times.clone());
        writer.execute_all(&[DiskOp::Create { file: name("spare"), zeroed_bytes: 1 << 16 }]).unwrap();
        writer.execute_all(&[DiskOp::Rename { from: name("spare"), to: name("log") }]).unwrap();
        let is_unsynced = |writer: &Writer| writer.files["log"].is_unsynced;
        writer.execute_all(&record(512, vec![1; 512])).unwrap();
        assert_eq!(times.count(), 2, "the record, and the zeroes that were written before it");
        assert!(writer.files["log"].direct.is_some() && !is_unsynced(&writer));
        writer.execute_all(&record(1_024, vec![2; 1_024])).unwrap();
        assert_eq!(times.count(), 3, "nothing was left to sync");
        // What is no whole block goes by way of the cache, and is synced.
        writer.execute_all(&record(2_048, vec![3; 5])).unwrap();
        assert_eq!(times.count(), 4);
        writer.execute_all(&[DiskOp::Zero { file: name("log"), offset: 512, bytes: 1 }]).unwrap();
        assert!(is_unsynced(&writer));
        let octets = StartReads::new(dir.path()).read("log", 0, 1 << 20).unwrap();
        let wanted = [vec![0; 513], vec![1; 511], vec![2; 1_024], vec![3; 5], vec![0; (1 << 16) - 2_053]].concat();
        assert!(octets == wanted);
    }

    #[test]
    fn where_there_is_no_way_past_the_cache_the_log_goes_through_it() {
        // In /proc that flag is refused; nor can one write at a place there, which shows that it is tried.
        let dir = PathBuf::from("/proc/thread-self");
        let mut writer = Writer::of_log(&dir, Arc::default());
        let write = DiskOp::Write { file: name("comm"), offset: 0, octets: vec![b'a'; 512] };
        let error = writer.execute_all(&[write, DiskOp::Sync { file: name("comm") }]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotSeekable);
        assert!(writer.direct.is_none());
    }

    #[test]
    fn a_checkpoint_takes_its_place_when_the_audit_log_is_on_the_disk() {
        use crate::node::audit_log::{AuditQueue, AuditWork};
        let dir = crate::test_dir("disk-barrier");
        let (queue, work) = AuditQueue::new(0, Arc::default());
        let (send, receive) = std::sync::mpsc::channel();
        let create = DiskOp::Create { file: name("writing"), zeroed_bytes: 1 };
        let ops = vec![create, DiskOp::Rename { from: name("writing"), to: name("checkpoint") }];
        send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Bulk, ticket: 1, ops })).unwrap();
        drop(send);
        let writer = Writer::of_checkpoints(dir.path(), Arc::default(), queue.barrier());
        let writer = std::thread::spawn(move || writer.run(&receive, |_| {}));
        let Ok(AuditWork::Sync(synced)) = work.recv() else { panic!("it does not ask") };
        std::thread::sleep(std::time::Duration::from_millis(50));
        let is_there = || dir.path().join("checkpoint").exists();
        assert!(!is_there() && !writer.is_finished());
        drop(synced);
        writer.join().unwrap();
        assert!(is_there());
        // An audit log that is gone holds nothing up.
        let barrier = queue.barrier();
        drop(work);
        barrier.wait();
    }

    /// Has a writer execute one operation in a process of its own, and looks at how that ends. The test runs itself.
    fn assert_aborts(test: &str, op: impl Fn(&Path) -> DiskOp) {
        const CHILD: &str = "CATAMARAN_TEST_FAILING_DISK";
        if let Some(dir) = std::env::var_os(CHILD) {
            let dir = PathBuf::from(dir);
            let (send, receive) = std::sync::mpsc::channel();
            send.send(DiskWork::Job(DiskJob { queue: DiskQueue::Log, ticket: 1, ops: vec![op(&dir)] })).unwrap();
            // A writer that does not fail ends here.
            drop(send);
            return Writer::new(&dir, Arc::default()).run(&receive, |_| println!("answered"));
        }
        let dir = crate::test_dir(test);
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("node::disk::tests::{test}"), "--nocapture"])
            .env(CHILD, dir.path())
            .output()
            .unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGABRT));
        assert!(!String::from_utf8_lossy(&output.stdout).contains("answered"));
        assert!(String::from_utf8_lossy(&output.stderr).contains("the disk failed"));
    }

    #[test]
    fn a_failed_write_aborts_the_process_without_an_answer() {
        assert_aborts("a_failed_write_aborts_the_process_without_an_answer", |_| DiskOp::Write {
            file: name("missing"),
            offset: 0,
            octets: vec![1],
        });
    }

    #[test]
    fn a_failed_sync_aborts_the_process_without_an_answer() {
        assert_aborts("a_failed_sync_aborts_the_process_without_an_answer", |dir| {
            // The kernel cannot sync a pipe: EINVAL is as good as EIO.
            assert!(std::process::Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap().success());
            DiskOp::Sync { file: name("pipe") }
        });
    }

    /// `O_DIRECT` passes the page cache only. `O_DSYNC` makes the disk write its own cache too.
    #[test]
    fn records_of_the_log_are_written_with_o_direct_and_o_dsync() {
        use std::os::fd::AsRawFd;
        let dir = crate::test_dir("disk-dsync");
        let mut writer = Writer::of_log(dir.path(), Arc::default());
        writer.execute_all(&[DiskOp::Create { file: name("log"), zeroed_bytes: 1 << 16 }]).unwrap();
        writer.execute_all(&record(4_096, vec![1; 4_096])).unwrap();
        let Some(direct) = &writer.files["log"].direct else {
            return println!("skipped: O_DIRECT in {} is not allowed here", dir.path().display());
        };
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", direct.as_raw_fd())).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        let flags = i32::from_str_radix(flags, 8).unwrap();
        let wanted = libc::O_DIRECT | libc::O_DSYNC;
        assert_eq!(flags & wanted, wanted, "{flags:o}");
    }

    /// The kernel syncs no directory of /proc. So the error shows that the writer asked for it.
    #[test]
    fn a_directory_that_cannot_be_synced_is_an_error() {
        let error = Writer::new(Path::new("/proc/self"), Arc::default()).execute_all(&[DiskOp::SyncDir]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn names_stay_in_the_directory() {
        let dir = crate::test_dir("disk-names");
        for bad in ["", ".", "..", "../x", "a/b", "/etc/passwd"] {
            assert!(path(dir.path(), bad).is_err(), "{bad}");
        }
    }
}
