//! The input of a filter command: a trace, changed by rules if there are any.

use super::{FilterError, Pipe};
use std::fmt;
use std::path::{Path, PathBuf};
use trace::mutate::{Mutator, Plan, PlanError};
use trace::{Options, Reader, TraceError, open};

/// The input of a filter command.
pub(crate) struct FilterInput {
    reader: Reader,
    mutator: Option<Mutator>,
}

impl FilterInput {
    /// Opens the trace, with fresh state of the rules.
    ///
    /// # Errors
    /// [`FilterInputError`].
    pub(crate) fn open(trace: &Path, reading: &Options, rules: Option<&Plan>) -> Result<Self, FilterInputError> {
        let mutator = rules.cloned().map(Mutator::new).transpose().map_err(FilterInputError::Rules)?;
        let reader = open(trace, reading).map_err(|error| FilterInputError::Trace(trace.to_owned(), error))?;
        Ok(Self { reader, mutator })
    }

    /// Writes the whole trace, until the command closes its input or the output is no longer needed. Returns the damage
    /// of the trace, if any.
    ///
    /// # Errors
    /// If the pipe fails.
    pub(crate) fn feed(mut self, pipe: &mut Pipe, is_wanted: impl Fn() -> bool) -> Result<Option<String>, FilterError> {
        while is_wanted() {
            let message = match self.reader.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Ok(Some(error.to_string())),
            };
            let has_more = match &mut self.mutator {
                None => pipe.write(&message)?,
                Some(mutator) => mutator.apply(&message).map_or(Ok(true), |message| pipe.write(&message))?,
            };
            if !has_more {
                break;
            }
        }
        Ok(None)
    }
}

/// Why there is no input.
#[derive(Debug)]
pub enum FilterInputError {
    /// The trace cannot be read.
    Trace(PathBuf, TraceError),
    /// The rules are invalid.
    Rules(PlanError),
}

impl fmt::Display for FilterInputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Rules(error) => write!(f, "--rules: {error}"),
        }
    }
}

impl std::error::Error for FilterInputError {}
