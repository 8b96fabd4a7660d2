//! Who may write what: the update policy of a zone, and what it says of one update. Pure functions; knows neither
//! consensus nor I/O.
//!
//! ```text
//!   text (rules as BIND writes them) --> Policy --> decide (one owner and type) --> permit (a whole update)
//! ```
//!
//! Whoever asks hears the same: the node that received an update, to refuse it early; the leader, whose word counts;
//! and `catamaran policy check`, which explains it. What is not granted is denied.
#![forbid(unsafe_code)]

pub mod limits;

// What there is to say, and how it is written.
mod codec;
mod rule;
pub mod text;
pub use rule::{Effect, Identity, KeyLimits, Rule, RuleType, Scope};

// Rules in their order.
mod table;
pub use table::{Policy, PolicyError};
mod revision;
pub use revision::Revision;

// What others say.
mod external;
pub use external::{External, Question, SocketPath};

// What an update is, as far as rules are about it.
mod update;
pub use update::{Step, ZoneLimits, ZoneRead};

// What all that comes to.
mod address;
mod decide;
mod permit;
pub use decide::{Decision, Judge, List, Place, Requestor, Rules, UpdateGrant, is_never_written};
pub use permit::{Denied, Permit};

#[cfg(test)]
mod tests;
