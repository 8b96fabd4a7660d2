//! Whether an answer is the right one: held against what a trusted server said, question by question.
//!
//! ```text
//!   Recorder: the first answer to each question ---> file ---> Expected
//!   answer --> Checker (known bytes? else parse) --> Fingerprint --> Expected | Recorder --> Checked, WrongAnswer
//! ```
//!
//! Compared are the RCODE and the answer and authority sections as sets of RRs. Left out are the order and the TTL of
//! RRs, the case of names, the additional section (what of it fits depends on the transport), flags, EDNS and TSIG, the
//! bytes of signatures (a signer may make new ones) and the serial of an SOA in the authority section (updates step
//! it). Of a truncated answer only the RCODE counts.

// What of an answer is compared.
mod fingerprint;
// An answer for people to read.
mod text;
// What is right: from a file, or from the first answer.
mod expected;
mod recorder;
// Each answer of a worker.
mod checker;

pub(crate) use checker::Checker;
pub use checker::{Checking, Reference};
pub use expected::{Expected, ExpectedError};
pub use fingerprint::{Difference, Fingerprint};
pub use recorder::Recorder;

use serde::{Deserialize, Serialize};

/// The result of checking one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerCheck {
    /// It is the right one.
    Right,
    /// What is right is not known.
    Unknown,
    /// It is not the right one.
    Wrong(Difference),
    /// Its RCODE is none of those that were expected; no more of it was looked at.
    UnexpectedRcode,
}

impl AnswerCheck {
    /// The word for it.
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

/// An answer that was not the one that was expected.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WrongAnswer {
    /// When its query was sent, seconds from the start of the run.
    pub at: f64,
    /// Name, class and type.
    pub question: String,
    /// What differs first: `rcode`, `answer`, `authority`, or `unreadable`.
    pub kind: Difference,
    /// What a right answer says.
    pub expected: String,
    /// What this one says.
    pub got: String,
}
