//! Checks answers against those of a trusted server, question by question.
//!
//! ```text
//!    Recorder: the first answer to each question ---> file ---> Expected
//!    answer --> Checker (known bytes? else parse) --> Fingerprint --> Expected | Recorder --> Checked, WrongAnswer
//! ```
//!
//! Compares the RCODE, and the answer and authority sections as sets of RRs. Ignores order and TTL of RRs, case of
//! names, the additional section (it depends on the transport), flags, EDNS and TSIG. Also ignores signature bytes (a
//! signer may create new ones), and the serial of an SOA in the authority section (updates change it). For a truncated
//! answer, only the RCODE is compared.

// The compared parts of an answer.
mod fingerprint;
// Answers as text.
mod text;
// Expected answers: from a file, or from the first answer.
mod expected;
mod recorder;
// The checks of one worker.
mod checker;

pub use checker::{Checking, Reference};
pub use expected::{Expected, ExpectedError};
pub use fingerprint::Fingerprint;
pub use recorder::Recorder;
