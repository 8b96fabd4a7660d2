//! The thread that writes the file while the run goes on.

use super::chunk::Chunk;
use super::query_recorder::QueryRecorder;
use super::table::{FileMetadata, Table};
use crate::report::Validity;
use crate::report::folder::WriteError;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Its name in the run folder.
const FILE_NAME: &str = "queries.parquet";

/// From workers, and at the end from the owner.
#[derive(Debug)]
pub(super) enum Message {
    /// Rows; the chunk is to go home.
    Full(Chunk),
    /// No worker is left.
    End(FileMetadata),
}

/// Where workers get their [`QueryRecorder`].
#[derive(Debug)]
pub struct RowSink {
    full: Sender<Message>,
    dropped: Arc<AtomicU64>,
}

impl RowSink {
    /// The scribe of worker `index` of `count`, for queries that time out after `timeout`.
    #[must_use]
    pub fn recorder(&self, index: usize, count: usize, timeout: Duration) -> QueryRecorder {
        let timeout_ns = timeout.as_nanos() as u64;
        QueryRecorder::new((index, count), timeout_ns, self.full.clone(), Arc::clone(&self.dropped))
    }
}

/// A file of rows in the making: written beside, renamed at the end.
#[derive(Debug)]
pub struct PerQuery {
    path: PathBuf,
    sink: Arc<RowSink>,
    thread: JoinHandle<io::Result<u64>>,
}

/// What stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Written {
    /// Queries in it.
    pub rows: u64,
    /// Queries that are not, because the writer could not keep up.
    pub dropped: u64,
}

impl PerQuery {
    /// Begins a file in the folder, and the thread that writes it.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(folder: &Path) -> Result<Self, WriteError> {
        let path = folder.join(FILE_NAME);
        let begin = || -> io::Result<_> {
            let table = Table::new(File::create(part_path(&path))?)?;
            let (full, inbox) = channel();
            let thread = std::thread::Builder::new().name("per-query".into()).spawn(move || write(table, &inbox))?;
            Ok((full, thread))
        };
        let (full, thread) = begin().map_err(|source| WriteError { path: path.clone(), source })?;
        Ok(Self { path, sink: Arc::new(RowSink { full, dropped: Arc::default() }), thread })
    }

    /// For the plan of the run.
    #[must_use]
    pub fn sink(&self) -> Arc<RowSink> {
        Arc::clone(&self.sink)
    }

    /// What a run gave, and the file of its rows, if there is one.
    ///
    /// # Errors
    /// That of the run; the file is given up then.
    pub fn of_run<T>(rows: Option<Self>, run: io::Result<T>) -> io::Result<(T, Option<Self>)> {
        match run {
            Ok(outcome) => Ok((outcome, rows)),
            Err(error) => {
                rows.into_iter().for_each(Self::abandon);
                Err(error)
            }
        }
    }

    /// Gives the file up: there was no run.
    fn abandon(self) {
        let Self { path, sink, thread } = self;
        drop(sink);
        // What it would say is that the run has ended, or an error beside the one that ended the run.
        let _ended = thread.join();
        let _removed = std::fs::remove_file(part_path(&path));
    }

    /// Ends the file, when no worker is left.
    ///
    /// # Errors
    /// When it could not be written; it is absent then.
    pub fn finish(self, started: SystemTime, timeout: Duration, validity: &Validity) -> Result<Written, WriteError> {
        let Self { path, sink, thread } = self;
        let dropped = sink.dropped.load(Ordering::Relaxed);
        let metadata = FileMetadata {
            started_unix_ns: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64,
            timeout_ns: timeout.as_nanos() as u64,
            dropped,
            validity: validity.to_string(),
        };
        // A writer that has ended tells why.
        let _ended = sink.full.send(Message::End(metadata));
        let joined = thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
        let part_path = part_path(&path);
        let finished = joined.and_then(|rows| {
            std::fs::rename(&part_path, &path)?;
            Ok(Written { rows, dropped })
        });
        finished.map_err(|source| {
            // What is left of it is of no use; that it may stay changes nothing of the error.
            let _removed = std::fs::remove_file(&part_path);
            WriteError { path, source }
        })
    }
}

/// Beside its place, until it is whole.
fn part_path(path: &Path) -> PathBuf {
    path.with_extension("parquet.part")
}

/// The loop of the thread; gives how many rows it wrote. After a failure workers still get their chunks back.
fn write(mut table: Table<File>, inbox: &Receiver<Message>) -> io::Result<u64> {
    let mut failure = None;
    for message in inbox {
        match message {
            Message::Full(chunk) => {
                if failure.is_none() {
                    failure = table.add(&chunk).err();
                }
                chunk.return_to_worker();
            }
            Message::End(metadata) => return failure.map_or_else(|| table.finish(&metadata), Err),
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::other("the run ended without a word")))
}
