//! What a right answer is.

use super::parse::{parse_rcode, parse_share};
use clap::Args;
use lab::answers::{Checking, Expected, Reference};
use std::path::PathBuf;
use std::sync::Arc;

/// What answers are held against: one at most of the options in it.
pub(crate) const REFERENCE: &str = "reference";

#[derive(Args)]
#[command(next_help_heading = "Right answers: a wrong one is no capacity")]
pub(crate) struct Expectations {
    /// RCODEs that are right.
    #[arg(long = "expect-rcode", value_name = "RCODE", value_delimiter = ',', value_parser = parse_rcode)]
    pub(crate) rcodes: Vec<u8>,
    /// Hold each answer against this file, which `catlab load --record-answers` wrote at a server you trust: RCODE,
    /// answer and authority section, each as a set (docs/catlab/load.md).
    #[arg(long, value_name = "FILE", group = REFERENCE)]
    expect_answers: Option<PathBuf>,
    /// Share of the answers that are looked at, 0 to 1; wrong ones stand for as many of the others.
    #[arg(long = "check-share", value_name = "SHARE", default_value_t = 1.0)]
    #[arg(value_parser = parse_share, requires = REFERENCE)]
    pub(crate) share: f64,
}

impl Expectations {
    /// The check, if one is wanted.
    ///
    /// # Errors
    /// When the file cannot be read, or is none of its form.
    pub(crate) fn checking(&self) -> Result<Option<Checking>, String> {
        let Some(path) = &self.expect_answers else { return Ok(None) };
        let expected = Expected::read(path).map_err(|error| error.to_string())?;
        Ok(Some(Checking { reference: Reference::Expected(Arc::new(expected)), share: self.share }))
    }
}
