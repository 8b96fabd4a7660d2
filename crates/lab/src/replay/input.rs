//! What both readings of a trace read: a file, or what a program makes of it each time.

use super::ReplayError;
use crate::mutation::{FilterInput, FilterInputError, KillHandle, StreamEnd, StreamingFilter};
use ::trace::mutate::Plan;
use ::trace::{Options, Reader, Tally};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Input {
    path: PathBuf,
    reading: Options,
    /// What messages are changed by first.
    rules: Option<Arc<Plan>>,
    /// A command of the shell that is run for each reading.
    live: Option<String>,
}

/// What has been opened for one reading.
pub(super) struct Opened {
    pub(super) reader: Reader,
    pub(super) program: Option<Program>,
}

/// A program that runs.
pub(super) struct Program {
    live: StreamingFilter,
    command: String,
}

impl Input {
    pub(super) fn new(path: &Path, reading: Options, rules: Option<Arc<Plan>>, live: Option<String>) -> Self {
        Self { path: path.to_owned(), reading, rules, live }
    }

    /// Begins a reading; the leash is that of the program, if there is one.
    ///
    /// # Errors
    /// When there is no reading.
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

    /// Whether a program writes what is read.
    pub(super) const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The rules by which messages are still to be changed: a program has been given what is changed already.
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

    /// Why what it writes cannot be read, with its name.
    pub(super) fn unread(&self, reason: &impl ToString) -> String {
        program_error(&self.command, &reason.to_string())
    }
}

fn program_error(command: &str, reason: &str) -> String {
    format!("--filter-command {command}: {reason}")
}
