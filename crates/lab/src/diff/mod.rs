//! The same bytes to several servers, and every difference explained or reported.
//!
//! ```text
//!   send       to each server, over the transport of the trace          -> a reply each
//!   response   read into a form that can be compared                    -> sets of RRs, flags, RCODE
//!   judge      equal to two peers? else the predicates: who is right?   -> equal | explained | unexplained
//! ```
//!
//! Ours must equal at least two of the three peers, after the normalisation of [`response`], or [`predicates`] cover
//! the difference. What is left is unexplained, and a failure.

// What is asked.
pub mod generate;
pub mod query;
pub mod run;

// What comes back.
pub mod response;
pub mod send;
pub mod served;

// What to make of it.
pub mod judge;
pub mod predicates;
pub mod report;

// Updates are compared by what they leave in the zone.
pub mod updates;

pub use judge::{Case, Tally};
pub use response::Response;
pub use send::ask_all;
