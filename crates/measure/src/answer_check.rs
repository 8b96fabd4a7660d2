//! Checks of answers during a run, and their results.

use crate::{CheckCounts, Difference};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Says how the answers of a run are checked.
pub trait AnswerChecking: fmt::Debug + Send + Sync {
    /// The checks of one worker. The seed decides which answers are checked, if not all are.
    fn checker(&self, seed: u64) -> Box<dyn AnswerChecker>;
}

/// The checks of one worker.
pub trait AnswerChecker {
    /// Checks the answer to a query that was sent at `at_ns`, if this answer is chosen.
    fn check(&mut self, at_ns: u64, message: &[u8], checked: &mut CheckCounts) -> Option<AnswerCheck>;

    /// The first wrong answers.
    fn into_wrong(self: Box<Self>) -> Vec<WrongAnswer>;
}

/// The result of checking one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerCheck {
    /// The answer is correct.
    Right,
    /// The expected answer is unknown.
    Unknown,
    /// The answer is wrong.
    Wrong(Difference),
    /// The RCODE is not an expected one. The rest is not checked.
    UnexpectedRcode,
}

impl AnswerCheck {
    /// The label of the result.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Unknown => "unknown",
            Self::Wrong(Difference::Rcode) => "rcode",
            Self::Wrong(Difference::Answer) => "answer",
            Self::Wrong(Difference::Authority) => "authority",
            Self::Wrong(Difference::Unreadable) => "unreadable",
            Self::UnexpectedRcode => "unexpected_rcode",
        }
    }
}

/// An answer that differs from the expected one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WrongAnswer {
    /// When the query was sent, in seconds from the start of the run.
    pub at: f64,
    /// Name, class and type.
    pub question: String,
    /// The first difference: `rcode`, `answer`, `authority` or `unreadable`.
    pub kind: Difference,
    /// The expected answer as text.
    pub expected: String,
    /// The actual answer as text.
    pub got: String,
}
