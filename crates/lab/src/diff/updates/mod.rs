//! The same UPDATEs to several servers: RCODE, step of the serial and whole zone after each, side by side.
//!
//! ```text
//!   generate | history --> client (sign, send, transfer the zone) --> judge (against reference) --> repair --> next
//! ```
//!
//! The measure is [`mod@reference`], which does what RFC 2136 says in the plainest way that there is. A server that
//! differs from it must be covered by a named predicate of [`predicates`]; what is left is unexplained, and a failure.
//! After a difference the server is brought back to the zone of the reference, by updates where that works and by a
//! restart where not, so that each step is judged by itself.

// What is sent.
pub mod contents;
pub mod generate;
pub mod history;
pub mod message;

// To whom, and what came of it.
pub mod client;
pub mod start;

// What should have come of it.
mod address;
pub mod predicates;
pub mod quirk;
mod readable;
pub mod reference;

// All of it, step by step.
pub mod repair;
pub mod run;

pub use contents::Contents;
pub use history::History;
pub use message::{Raw, Update};
pub use run::{HistoryCounts, Plan, Server, Tally, run, run_history};
pub use start::{KINDS, key, start_all};
