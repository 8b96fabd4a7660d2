//! What a replica asks of its disk, as values: the shell carries the operations out, the core never waits.
//!
//! Two queues. [`DiskQueue::Log`] carries the fsyncs that clients wait for; [`DiskQueue::Bulk`] carries
//! checkpoints and whatever else may take its time. The shell executes the jobs of one queue in the order in
//! which it got them, one at a time, and the two queues side by side. A job is answered by its ticket once all
//! of its operations are done.
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
    /// Leaves a file of that name which holds exactly `zeroed_bytes` zero bytes, whatever it held before: written,
    /// not only reserved, so that later writes change no metadata of the file system.
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
    /// Writes zeros at an offset, as many as a file may have: they are not kept in memory.
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
    /// Gives a file another name, replacing a file that has it already.
    Rename {
        /// The name it has.
        from: String,
        /// The name it gets.
        to: String,
    },
    /// Removes a file; a file that is not there is no error.
    Remove {
        /// Name of the file.
        file: String,
    },
    /// Makes names durable: creations, renames and removals so far (fsync of the directory).
    SyncDir,
}

/// Which of the shell's two writers executes a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiskQueue {
    /// Raft's log and vote: clients wait for it.
    Log,
    /// Checkpoints: nobody waits for it.
    Bulk,
}

/// A list of operations that is executed in order and answered once, by its ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskJob {
    /// Who executes it.
    pub queue: DiskQueue,
    /// Comes back when all operations are done; grows by at least one from job to job of a queue.
    pub ticket: u64,
    /// What to do.
    pub ops: Vec<DiskOp>,
}

/// A read that the shell answers later with the bytes (fewer than asked for only where the file ends).
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
    /// The medium or the operating system refused.
    Failed {
        /// Name of the file, or of the directory when it could not be listed.
        file: String,
        /// What the operating system said.
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

/// Reads at start, when nothing else runs yet and waiting harms nobody.
pub trait DiskRead {
    /// All files with their sizes in bytes, in any order.
    ///
    /// # Errors
    /// [`DiskError::Failed`] when the directory cannot be listed.
    fn list(&self) -> Result<Vec<(String, u64)>, DiskError>;

    /// Up to `len` bytes from `offset`; fewer where the file ends, none beyond it.
    ///
    /// # Errors
    /// [`DiskError`] when the file is not there or cannot be read.
    fn read(&self, file: &str, offset: u64, len: usize) -> Result<Vec<u8>, DiskError>;
}

/// Gives tickets out; one for all parts of a replica, so that an answer belongs to exactly one of them.
#[derive(Debug, Default)]
pub struct Tickets(u64);

impl Tickets {
    /// A ticket that was never given out before by this value.
    pub fn draw(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}
