//! Sends the same bytes to several servers, and explains or reports every difference.
//!
//! ```text
//!    send       to each server, over the transport of the trace          -> a reply each
//!    response   read into a form that can be compared                    -> sets of RRs, flags, RCODE
//!    judge      equal to two peers? else the predicates: which is right? -> equal | explained | unexplained
//! ```
//!
//! Ours must equal at least two of the three peers after normalisation by [`response`], or [`predicates`] must cover
//! the difference. Any other difference is unexplained, and a failure.

#![forbid(unsafe_code)]

pub mod limits;

// Messages to send.
pub mod generate;
pub mod query;
pub mod recorded;
pub mod run;

// Responses.
pub mod response;
pub mod send;
pub mod served;

// Verdicts.
pub mod case;
pub mod case_text;
pub mod judge;
pub mod predicates;

// Updates, compared by the resulting zone.
pub mod updates;

pub use case::Case;
pub use judge::Tally;
pub use response::Response;
pub use send::ask_all;
