//! The thread that writes the file during the run.

use super::message::Message;
use super::query_recorder::QueryRecorder;
use super::table::{FileMetadata, Table};
use measure::QueryFileCounts;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file name in the run folder.
const FILE_NAME: &str = "queries.parquet";

/// Creates the [`QueryRecorder`] of each worker.
#[derive(Debug)]
pub struct RowSink {
    full: Sender<Message>,
    dropped: Arc<AtomicU64>,
}

impl RowSink {
    /// The recorder of worker `index` of `count`, for queries that time out after `timeout`.
    #[must_use]
    pub fn recorder(&self, index: usize, count: usize, timeout: Duration) -> QueryRecorder {
        let timeout_ns = timeout.as_nanos() as u64;
        QueryRecorder::new((index, count), timeout_ns, self.full.clone(), Arc::clone(&self.dropped))
    }
}

/// Why the file of rows was not written.
#[derive(Debug)]
pub struct RowsError {
    /// The file.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

/// An unfinished file of rows. It is written under a temporary name and renamed at the end.
#[derive(Debug)]
pub struct PerQuery {
    path: PathBuf,
    sink: Arc<RowSink>,
    thread: JoinHandle<io::Result<u64>>,
}

impl PerQuery {
    /// Creates a file in the folder, and starts the writer thread.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(folder: &Path) -> Result<Self, RowsError> {
        let path = folder.join(FILE_NAME);
        let begin = || -> io::Result<_> {
            let table = Table::new(File::create(part_path(&path))?)?;
            let (full, inbox) = channel();
            let thread = std::thread::Builder::new().name("per-query".into()).spawn(move || write(table, &inbox))?;
            Ok((full, thread))
        };
        let (full, thread) = begin().map_err(|source| RowsError { path: path.clone(), source })?;
        Ok(Self { path, sink: Arc::new(RowSink { full, dropped: Arc::default() }), thread })
    }

    /// The sink for the plan of the run.
    #[must_use]
    pub fn sink(&self) -> Arc<RowSink> {
        Arc::clone(&self.sink)
    }

    /// The result of a run, and the file of its rows, if there is one.
    ///
    /// # Errors
    /// That of the run. The file is then removed.
    pub fn of_run<T>(rows: Option<Self>, run: io::Result<T>) -> io::Result<(T, Option<Self>)> {
        match run {
            Ok(outcome) => Ok((outcome, rows)),
            Err(error) => {
                rows.into_iter().for_each(Self::abandon);
                Err(error)
            }
        }
    }

    /// Removes the file, because there was no run.
    fn abandon(self) {
        let Self { path, sink, thread } = self;
        drop(sink);
        // It only reports that the run has ended, or an additional error.
        let _ended = thread.join();
        let _removed = std::fs::remove_file(part_path(&path));
    }

    /// Finishes the file after all workers have ended.
    ///
    /// # Errors
    /// If it could not be written. No partial file remains.
    pub fn finish(self, started: SystemTime, timeout: Duration, validity: &str) -> Result<QueryFileCounts, RowsError> {
        let Self { path, sink, thread } = self;
        let dropped = sink.dropped.load(Ordering::Relaxed);
        let metadata = FileMetadata {
            started_unix_ns: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64,
            timeout_ns: timeout.as_nanos() as u64,
            dropped,
            validity: validity.to_owned(),
        };
        // If the writer has failed, `join` returns its error.
        let _ended = sink.full.send(Message::End(metadata));
        let joined = thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer panicked")));
        let part_path = part_path(&path);
        let finished = joined.and_then(|rows| {
            std::fs::rename(&part_path, &path)?;
            Ok(QueryFileCounts { rows, dropped })
        });
        finished.map_err(|source| {
            // A leftover does not change the error.
            let _removed = std::fs::remove_file(&part_path);
            RowsError { path, source }
        })
    }
}

/// The temporary name.
fn part_path(path: &Path) -> PathBuf {
    path.with_extension("parquet.part")
}

/// The loop of the thread. Returns the number of rows. After a failure, chunks are still returned to workers.
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
    Err(failure.unwrap_or_else(|| io::Error::other("the run ended unexpectedly")))
}
