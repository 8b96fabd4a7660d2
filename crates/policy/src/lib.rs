//! Update policies: which keys may write which names and types, and whether a policy allows a given update. Pure
//! functions without consensus or I/O.
//!
//! ```text
//!   text (rules as BIND writes them) --> Policy --> decide (one owner and type) --> permit (a whole update)
//! ```
//!
//! Three callers get the same decision: the node that received an update, to refuse it early; the leader, whose
//! decision counts; and `catamaran policy check`, which explains it. Everything that no rule grants is denied.
#![forbid(unsafe_code)]

pub mod limits;

// Rules, their text and their encoding.
mod codec;
mod rule;
pub mod text;
pub use rule::{Effect, Identity, KeyLimits, Rule, RuleType, Scope, is_never_written};

// Ordered rules of one policy.
mod table;
pub use table::{Policy, PolicyError};
mod revision;
pub use revision::Revision;

// Answers of the daemons of `external` rules.
mod external;
pub use external::{DaemonAnswers, Question, SocketPath};

// The parts of an update and of a zone that rules look at.
mod update;
pub use update::{Step, ZoneLimits, ZoneRead};

// Decisions: for one record, and for a whole update.
mod address;
mod decide;
mod permit;
pub use decide::{Decision, PolicyEvaluator, Requestor, RuleList, RuleRef, Rules, UpdateGrant};
pub use permit::{Denied, Permit};

#[cfg(test)]
mod tests;
