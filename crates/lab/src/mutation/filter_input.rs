//! What a program reads: a trace, changed by rules first where there are any.

use super::{FilterError, Pipe};
use std::fmt;
use std::path::{Path, PathBuf};
use trace::mutate::{Mutator, Plan, PlanError};
use trace::{Options, Reader, TraceError, open};

/// See the module.
pub(crate) struct FilterInput {
    reader: Reader,
    mutator: Option<Mutator>,
}

impl FilterInput {
    /// Opens the trace; rules begin anew.
    ///
    /// # Errors
    /// [`FilterInputError`].
    pub(crate) fn open(trace: &Path, reading: &Options, rules: Option<&Plan>) -> Result<Self, FilterInputError> {
        let mutator = rules.cloned().map(Mutator::new).transpose().map_err(FilterInputError::Rules)?;
        let reader = open(trace, reading).map_err(|error| FilterInputError::Trace(trace.to_owned(), error))?;
        Ok(Self { reader, mutator })
    }

    /// Writes all of it, as long as the program reads on and it is wanted; gives why the trace could not be read to its
    /// end, if so.
    ///
    /// # Errors
    /// Of the pipe.
    pub(crate) fn feed(mut self, pipe: &mut Pipe, is_wanted: impl Fn() -> bool) -> Result<Option<String>, FilterError> {
        while is_wanted() {
            let message = match self.reader.next() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Ok(Some(error.to_string())),
            };
            let goes_on = match &mut self.mutator {
                None => pipe.write(&message)?,
                Some(mutator) => mutator.apply(&message).map_or(Ok(true), |message| pipe.write(&message))?,
            };
            if !goes_on {
                break;
            }
        }
        Ok(None)
    }
}

/// Why nothing can be fed.
#[derive(Debug)]
pub enum FilterInputError {
    /// The trace cannot be read.
    Trace(PathBuf, TraceError),
    /// Rules that cannot be carried out.
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
