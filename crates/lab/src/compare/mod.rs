//! The same octets to several servers, and every difference explained or reported.
//!
//! Ours must equal at least two of the three peers, after the normalisation of [`response`], or a named predicate of
//! [`predicates`] covers the difference. What is left is unexplained, and a failure.

pub mod generate;
pub mod judge;
pub mod predicates;
pub mod response;
pub mod run;
pub mod send;
pub mod updates;

pub use judge::{Tally, judge};
pub use response::Response;
pub use send::ask_all;
