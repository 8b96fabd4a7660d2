//! Sends the same UPDATEs to several servers, and compares RCODE, serial change and the whole zone after each.
//!
//! ```text
//!    generate | history --> client (sign, send, transfer the zone) --> judge (against reference) --> repair --> next
//! ```
//!
//! The reference is [`mod@reference`], a simple implementation of RFC 2136. A named predicate of [`predicates`] must
//! cover every deviation from it; other deviations are unexplained, and a failure. After a deviation, the server is
//! reset to the zone of the reference, by updates if possible and otherwise by a restart, so that each step is judged
//! independently.

// Messages to send.
pub mod contents;
pub mod generate;
pub mod history;
pub mod message;

// Clients and outcomes.
pub mod client;
pub mod start;

// Expected outcomes.
mod address;
pub mod predicates;
pub mod quirk;
mod readable;
pub mod reference;

// The whole run, step by step.
pub mod repair;
pub mod run;

pub use contents::Contents;
pub use history::History;
pub use message::{Update, WireRecord};
pub use run::{HistoryCounts, Plan, Server, Tally, run, run_history};
pub use start::{KINDS, key, start_all};
