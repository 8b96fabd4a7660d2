//! Disk operations of a replica, as values: the shell executes them, and the core never waits.
//!
//! There are two queues. [`DiskQueue::Log`] carries the fsyncs that clients wait for. [`DiskQueue::Bulk`] carries
//! checkpoints and other work that is not urgent. The shell executes the jobs of one queue in order, one at a time,
//! and the two queues in parallel. It answers a job by its ticket once all its operations are done.
//!
//! **Contract of the shell.** The shell never answers a failed operation. If the disk has no room for a create or a
//! write, the shell sends [`Input::DiskFull`](crate::io::Input::DiskFull) and repeats the operation until there is
//! room. After any other failure, and after every failed sync, the process aborts without unwinding and without a
//! second fsync. A kernel may report a failed fsync once and then mark the dirty pages clean. So the next process may
//! read data that is on no disk, and writes that data again before it syncs. File names are single path components
//! below one directory that only the replica uses.

use core::fmt;

/// One operation on one file; the operations of a [`DiskJob`] are executed in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskOp {
    /// Creates a file of `zeroed_bytes` zero bytes, and replaces any earlier contents. The zeros are written, not
    /// only reserved, so later writes change no metadata of the file system.
    Create {
        /// Name of the file.
        file: String,
        /// Number of zero bytes to write.
        zeroed_bytes: u64,
    },
    /// Writes bytes at an offset; writing past the end extends the file.
    Write {
        /// Name of the file, which exists.
        file: String,
        /// Where the bytes go, from the start of the file.
        offset: u64,
        /// What to write.
        data: Vec<u8>,
    },
    /// Writes zeros at an offset. There may be as many as a file holds, because they are not kept in memory.
    Zero {
        /// Name of the file, which exists.
        file: String,
        /// Where the zeros go, from the start of the file.
        offset: u64,
        /// Number of zero bytes to write.
        bytes: u64,
    },
    /// Makes all that was written to the file before durable (fdatasync or fsync, size included).
    Sync {
        /// Name of the file.
        file: String,
    },
    /// Renames a file, and replaces a file that has the new name.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// Removes a file; a missing file is no error.
    Remove {
        /// Name of the file.
        file: String,
    },
    /// Makes names durable: creations, renames and removals so far (fsync of the directory).
    SyncDir,
}

/// The writer of the shell that executes a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskQueue {
    /// Raft's log and vote, which clients wait for.
    Log,
    /// Checkpoints, which nobody waits for.
    Bulk,
}

/// Operations that are executed in order and answered once, by the ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskJob {
    /// The queue.
    pub queue: DiskQueue,
    /// Comes back when all operations are done. It grows from job to job of a queue.
    pub ticket: u64,
    /// The operations.
    pub ops: Vec<DiskOp>,
}

/// A read that the shell answers later with the bytes. They are fewer than requested only at the end of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// Comes back with the bytes.
    pub ticket: u64,
    /// Name of the file.
    pub file: String,
    /// Where to read from.
    pub offset: u64,
    /// Number of bytes.
    pub len: usize,
}

/// Why a read at start failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// No file of that name.
    Missing {
        /// The name.
        file: String,
    },
    /// The disk or the operating system reported an error.
    Failed {
        /// Name of the file, or of the directory when it could not be listed.
        file: String,
        /// The error of the operating system.
        reason: String,
    },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { file } => write!(f, "{file}: no such file"),
            Self::Failed { file, reason } => write!(f, "{file}: {reason}"),
        }
    }
}

impl std::error::Error for DiskError {}

/// Blocking reads, used only at start.
pub trait DiskRead {
    /// All files with their sizes in bytes, in any order.
    ///
    /// # Errors
    /// [`DiskError::Failed`] if the directory cannot be listed.
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError>;

    /// Up to `len` bytes from `offset`, fewer at the end of the file, none after it.
    ///
    /// # Errors
    /// [`DiskError`] if the file is missing or cannot be read.
    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError>;
}

/// Numbers disk jobs and reads. All parts of a replica share it, so each answer belongs to exactly one of them.
#[derive(Debug, Default)]
pub struct Tickets(u64);

impl Tickets {
    /// Returns a new ticket.
    pub fn draw(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}
