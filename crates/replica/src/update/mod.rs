//! An UPDATE (RFC 2136), from its bytes to its changeset. The functions are pure: the time is an argument.
//!
//! ```text
//!   bytes --> tsig::authenticate (who) --> prescan (form) --> evaluate (outcome on one version of the zone) --> sign
//! ```

pub mod limits;

// Checks its form.
mod prescan;
pub use prescan::{Parsed, Prerequisite, prescan};

// Computes its effect.
mod evaluate;
pub mod serial;
mod working;
pub use evaluate::{Evaluated, Refusal, evaluate, evaluate_within};
pub use working::LimitReached;
