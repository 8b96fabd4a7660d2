//! A trace that was changed by rules and a filter command and stored before the run, so that the run does not wait for
//! the command.

use super::filter_input::{FilterInput, FilterInputError};
use super::{FilterCommand, FilterError, FilterExit, Pipe, no_lines};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};
use trace::mutate::Plan;
use trace::{Format, Message, Options, Writer};

/// The output of the command as a binary trace in its own temporary folder. Both are removed on drop.
#[derive(Debug)]
pub struct TempTrace {
    folder: PathBuf,
    path: PathBuf,
    damaged: Option<String>,
}

impl TempTrace {
    /// Reads a trace, changes it by rules and filters it with a shell command.
    ///
    /// # Errors
    /// [`TempTraceError`], including a nonzero exit code.
    pub fn make(trace: &Path, reading: &Options, rules: Option<Plan>, command: &str) -> Result<Self, TempTraceError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("catlab-through-{}-{number}", std::process::id()));
        let input = FilterInput::open(trace, reading, rules.as_ref()).map_err(TempTraceError::FilterInput)?;
        let file_error = |error: io::Error| TempTraceError::File(std::env::temp_dir(), error);
        // A new folder without access for other users, because they may write to its parent.
        DirBuilder::new().mode(0o700).create(&folder).map_err(file_error)?;
        // From here on it is removed on any return.
        let mut spool = Self { path: folder.join("trace.catrace"), folder, damaged: None };
        let mut writer = Writer::create(&spool.path, Format::Binary).map_err(file_error)?;
        let started =
            FilterCommand::start(command).map_err(|error| TempTraceError::Program("sh".into(), error.to_string()))?;
        let damaged = &mut spool.damaged;
        let feed = |pipe: &mut Pipe| {
            *damaged = input.feed(pipe, || true)?;
            Ok(())
        };
        let each = |message: &Message<'_>| writer.write(message).map_err(FilterError::Writer);
        let result = started.run(feed, each);
        let (FilterExit { status, command }, lines) = result.map_err(|error| match error {
            FilterError::Writer(error) => file_error(error),
            error => TempTraceError::Program(command.to_owned(), error.to_string()),
        })?;
        if !status.success() {
            return Err(TempTraceError::Program(command, status.to_string()));
        }
        if let Some(reason) = no_lines(lines.tally()) {
            return Err(TempTraceError::Program(command, reason));
        }
        writer.finish().map_err(file_error)?;
        Ok(spool)
    }

    /// The path of the binary trace.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The damage of the input trace, if any.
    #[must_use]
    pub fn damaged(&self) -> Option<&str> {
        self.damaged.as_deref()
    }
}

impl Drop for TempTrace {
    fn drop(&mut self) {
        // A leftover in the system's temporary folder does no harm.
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// Why the trace could not be filtered.
#[derive(Debug)]
pub enum TempTraceError {
    /// The trace or the rules failed.
    FilterInput(FilterInputError),
    /// The output cannot be written to this folder.
    File(PathBuf, io::Error),
    /// The command failed: its exit status, or what is wrong with its output.
    Program(String, String),
}

impl fmt::Display for TempTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FilterInput(error) => error.fmt(f),
            Self::File(folder, error) => {
                write!(
                    f,
                    "{}: {error}; set TMPDIR to another folder for the output of --filter-command",
                    folder.display()
                )
            }
            Self::Program(command, reason) => write!(f, "--filter-command {command}: {reason}; nothing was sent"),
        }
    }
}

impl std::error::Error for TempTraceError {}
