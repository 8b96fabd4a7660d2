//! Finds the highest rate at which a server meets an objective. Doubles the rate until the server misses the objective,
//! then halves the bracket. Several repeats give an interval.
//!
//! ```text
//!    Objective --+
//!    Search -----+--> rate --> (a run) --> Summary --> Objective::judge --> Search::record --> Estimate
//! ```

mod objective;
mod search;

pub use objective::{Objective, ObjectiveError, Verdict};
pub use search::{Estimate, Limits, Search};
