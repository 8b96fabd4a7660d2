//! The highest rate that a server bears: the rate doubles until the objective is missed, then the bracket is halved,
//! several times over, so that the answer has an interval.
//!
//! ```text
//!   Objective --+
//!   Search -----+--> rate --> (a run) --> Summary --> Objective::judge --> Search::record --> Estimate
//! ```

mod objective;
mod search;

pub use objective::{Objective, ObjectiveError, Verdict};
pub use search::{Estimate, Limits, Search};
