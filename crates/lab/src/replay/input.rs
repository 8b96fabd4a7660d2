//! What both readings of a trace read: a file, or what a program makes of it each time.

use super::ReplayError;
use crate::mutation::{Fed, FedError, Leash, Live, LiveEnd};
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
    live: Live,
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
    pub(super) fn open(&self, leash: Leash) -> Result<Opened, ReplayError> {
        let Some(command) = &self.live else {
            let reader = ::trace::open(&self.path, &self.reading);
            let reader = reader.map_err(|error| ReplayError::Trace(self.path.clone(), error))?;
            return Ok(Opened { reader, program: None });
        };
        let fed = Fed::open(&self.path, &self.reading, self.rules.as_deref()).map_err(|error| match error {
            FedError::Trace(path, error) => ReplayError::Trace(path, error),
            FedError::Rules(error) => ReplayError::Rules(error),
        })?;
        let started = Live::start(command, fed, leash);
        let (reader, live) = started.map_err(|error| ReplayError::Program(told("sh", &error.to_string())))?;
        Ok(Opened { reader, program: Some(Program { live, command: command.clone() }) })
    }

    /// Whether a program writes what is read.
    pub(super) const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The rules by which messages are still to be changed: a program has been given what is changed already.
    pub(super) fn rules_left(&self) -> Option<&Plan> {
        self.rules.as_deref().filter(|_| self.live.is_none())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Program {
    /// See [`Live::leash`].
    pub(super) fn leash(&self) -> Leash {
        self.live.leash()
    }

    /// See [`Live::end`].
    pub(super) fn end(self, lines: &Tally) -> Result<LiveEnd, String> {
        self.live.end(lines).map_err(|reason| told(&self.command, &reason))
    }

    /// Why what it writes cannot be read, with its name.
    pub(super) fn unread(&self, reason: &impl ToString) -> String {
        told(&self.command, &reason.to_string())
    }
}

fn told(command: &str, reason: &str) -> String {
    format!("--filter-command {command}: {reason}")
}
