//! Options for expected answers.

use super::parse::{parse_rcode, parse_share};
use clap::Args;
use lab::answers::{Checking, Expected, Reference};
use measure::AnswerChecking;
use std::path::PathBuf;
use std::sync::Arc;

/// Group of the options that set expected answers. At most one may be given.
pub(crate) const REFERENCE: &str = "reference";

#[derive(Args)]
#[command(next_help_heading = "Expected answers")]
pub(crate) struct Expectations {
    /// Expected RCODEs. All others count as wrong.
    #[arg(long = "expect-rcode", value_name = "RCODE", value_delimiter = ',', value_parser = parse_rcode)]
    pub(crate) rcodes: Vec<u8>,
    /// Compare each answer with this file of `catlab load --record-answers`: RCODE, and answer and authority sections
    /// as sets (docs/catlab/load.md).
    #[arg(long, value_name = "FILE", group = REFERENCE)]
    expect_answers: Option<PathBuf>,
    /// Share of answers to check, 0 to 1. Counts are extrapolated to all answers.
    #[arg(long = "check-share", value_name = "SHARE", default_value_t = 1.0)]
    #[arg(value_parser = parse_share, requires = REFERENCE)]
    pub(crate) share: f64,
}

impl Expectations {
    /// The check, if one is requested.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid.
    pub(crate) fn checking(&self) -> Result<Option<Arc<dyn AnswerChecking>>, String> {
        let Some(path) = &self.expect_answers else { return Ok(None) };
        let expected = Expected::read(path).map_err(|error| error.to_string())?;
        let checking = Checking { reference: Reference::Expected(Arc::new(expected)), share: self.share };
        Ok(Some(Arc::new(checking)))
    }
}
