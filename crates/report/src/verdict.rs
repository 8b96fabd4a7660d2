//! Two verdicts with their evidence: whether a run is valid, and whether the tool or the server set its limit.

use crate::{Rules, reasons};
use measure::Second;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The verdict on the results of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Validity {
    /// Whether the results are valid.
    pub valid: bool,
    /// Why the results are invalid.
    pub reasons: Vec<String>,
}

/// `valid`, or `INVALID: ` and the reasons.
impl fmt::Display for Validity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.valid {
            formatter.write_str("valid")
        } else {
            write!(formatter, "INVALID: {}", self.reasons.join("; "))
        }
    }
}

impl Validity {
    /// The verdict on an unfinished run, from all seconds so far. Later seconds may make up for a send lag.
    #[must_use]
    pub fn so_far(total: &Second, rules: &Rules) -> Self {
        let mut reasons: Vec<_> = reasons::lag(total, rules).into_iter().collect();
        reasons.extend(reasons::refused(total));
        reasons.extend(reasons::no_answers(total));
        Self { valid: reasons.is_empty(), reasons }
    }
}

/// What limited the rate of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitSide {
    /// This tool on this machine.
    Tool,
    /// The server or the network.
    Server,
    /// Nothing: the offered rate was reached. The maximum is higher and unknown.
    None,
}

impl LimitSide {
    /// Text for the terminal.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tool => "the tool",
            Self::Server => "the server",
            Self::None => "none: the offered rate was reached",
        }
    }
}

/// The verdict and its evidence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// What limited the rate.
    pub side: LimitSide,
    /// All observations, for and against the verdict.
    pub evidence: Vec<String>,
}
