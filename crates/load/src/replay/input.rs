//! The input of both readings of a trace: a file, or the output of a filter command that runs each time.

use super::error::ReplayError;
use crate::mutation::{FilterInput, FilterInputError, KillHandle, StreamEnd, StreamingFilter};
use ::trace::mutate::Plan;
use ::trace::{Options, Reader, Tally};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The input of both readings.
#[derive(Clone, Debug)]
pub(super) struct Input {
    path: PathBuf,
    reading: Options,
    /// Rules that apply first.
    rules: Option<Arc<Plan>>,
    /// A shell command that runs for each reading.
    live: Option<String>,
}

/// The input of one reading.
pub(super) struct Opened {
    pub(super) reader: Reader,
    pub(super) program: Option<Program>,
}

/// A running filter command.
pub(super) struct Program {
    live: StreamingFilter,
    command: String,
}

impl Input {
    pub(super) fn new(path: &Path, reading: Options, rules: Option<Arc<Plan>>, live: Option<String>) -> Self {
        Self { path: path.to_owned(), reading, rules, live }
    }

    /// Starts a reading. `kill_handle` is that of the filter command, if there is one.
    ///
    /// # Errors
    /// If the input cannot be opened.
    pub(super) fn open(&self, kill_handle: KillHandle) -> Result<Opened, ReplayError> {
        let Some(command) = &self.live else {
            let reader = ::trace::open(&self.path, &self.reading);
            let reader = reader.map_err(|error| ReplayError::Trace(self.path.clone(), error))?;
            return Ok(Opened { reader, program: None });
        };
        let fed = FilterInput::open(&self.path, &self.reading, self.rules.as_deref()).map_err(|error| match error {
            FilterInputError::Trace(path, error) => ReplayError::Trace(path, error),
            FilterInputError::Rules(error) => ReplayError::Rules(error),
        })?;
        let started = StreamingFilter::start(command, fed, kill_handle);
        let (reader, live) = started.map_err(|error| ReplayError::Program(program_error("sh", &error.to_string())))?;
        Ok(Opened { reader, program: Some(Program { live, command: command.clone() }) })
    }

    /// Whether the input comes from a running command.
    pub(super) const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Rules that still have to be applied. The input of a filter command was already changed by them.
    pub(super) fn remaining_rules(&self) -> Option<&Plan> {
        self.rules.as_deref().filter(|_| self.live.is_none())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Program {
    /// See [`StreamingFilter::kill_handle`].
    pub(super) fn kill_handle(&self) -> KillHandle {
        self.live.kill_handle()
    }

    /// See [`StreamingFilter::end`].
    pub(super) fn end(self, lines: &Tally) -> Result<StreamEnd, String> {
        self.live.end(lines).map_err(|reason| program_error(&self.command, &reason))
    }

    /// The error if its output cannot be read, with its name.
    pub(super) fn unread(&self, reason: &impl ToString) -> String {
        program_error(&self.command, &reason.to_string())
    }
}

fn program_error(command: &str, reason: &str) -> String {
    format!("--filter-command {command}: {reason}")
}
