//! A trace that goes through rules and a program before it is sent: written down whole, so that the run waits for no
//! program.

use super::filter_input::{FilterInput, FilterInputError};
use super::{FilterCommand, FilterError, FilterExit, Pipe, no_lines};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};
use trace::mutate::Plan;
use trace::{Format, Message, Options, Writer};

/// What came out of the program, as a binary trace in a folder of its own in that for temporary files. Both go when
/// this does.
#[derive(Debug)]
pub struct TempTrace {
    folder: PathBuf,
    path: PathBuf,
    damaged: Option<String>,
}

impl TempTrace {
    /// Reads a trace, changes it by rules and sends it through a command of the shell.
    ///
    /// # Errors
    /// [`TempTraceError`], also when the program ends with another exit code than 0.
    pub fn make(trace: &Path, reading: &Options, rules: Option<Plan>, command: &str) -> Result<Self, TempTraceError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("catlab-through-{}-{number}", std::process::id()));
        let fed = FilterInput::open(trace, reading, rules.as_ref()).map_err(TempTraceError::FilterInput)?;
        let written = |error: io::Error| TempTraceError::File(std::env::temp_dir(), error);
        // A folder that was not there and that nobody else may enter: others write into the one above too.
        DirBuilder::new().mode(0o700).create(&folder).map_err(written)?;
        // From here on it goes, whatever happens.
        let mut spool = Self { path: folder.join("trace.catrace"), folder, damaged: None };
        let mut writer = Writer::create(&spool.path, Format::Binary).map_err(written)?;
        let started =
            FilterCommand::start(command).map_err(|error| TempTraceError::Program("sh".into(), error.to_string()))?;
        let damaged = &mut spool.damaged;
        let feed = |pipe: &mut Pipe| {
            *damaged = fed.feed(pipe, || true)?;
            Ok(())
        };
        let each = |message: &Message<'_>| writer.write(message).map_err(FilterError::Writer);
        let ran = started.run(feed, each);
        let (FilterExit { status, command }, lines) = ran.map_err(|error| match error {
            FilterError::Writer(error) => written(error),
            error => TempTraceError::Program(command.to_owned(), error.to_string()),
        })?;
        if !status.success() {
            return Err(TempTraceError::Program(command, status.to_string()));
        }
        if let Some(reason) = no_lines(lines.tally()) {
            return Err(TempTraceError::Program(command, reason));
        }
        writer.finish().map_err(written)?;
        Ok(spool)
    }

    /// The binary trace.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why the trace could not be read to its end, if so.
    #[must_use]
    pub fn damaged(&self) -> Option<&str> {
        self.damaged.as_deref()
    }
}

impl Drop for TempTrace {
    fn drop(&mut self) {
        // What stays behind in the system's temporary folder harms nobody.
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}

/// Why a trace did not go through.
#[derive(Debug)]
pub enum TempTraceError {
    /// It, or the rules.
    FilterInput(FilterInputError),
    /// What comes out cannot be written, in this folder.
    File(PathBuf, io::Error),
    /// The program: how it ended, or what was wrong with what it wrote.
    Program(String, String),
}

impl fmt::Display for TempTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FilterInput(error) => error.fmt(f),
            Self::File(folder, error) => {
                write!(f, "{}: {error}; TMPDIR names another folder for what --filter-command writes", folder.display())
            }
            Self::Program(command, reason) => write!(f, "--filter-command {command}: {reason}; nothing was sent"),
        }
    }
}

impl std::error::Error for TempTraceError {}
