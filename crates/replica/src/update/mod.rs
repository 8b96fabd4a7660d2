//! An UPDATE (RFC 2136) on its way from bytes to the change it makes. Pure functions: the time comes in.
//!
//! ```text
//!   bytes --> tsig::authenticate (who) --> prescan (form) --> evaluate (outcome on one version of the zone) --> sign
//! ```

pub mod limits;

// What it says.
mod prescan;
pub use prescan::{Parsed, Prerequisite, prescan};

// What it does.
mod evaluate;
pub mod serial;
mod working;
pub use evaluate::{Evaluated, Refusal, evaluate, evaluate_within};
pub use working::LimitReached;
