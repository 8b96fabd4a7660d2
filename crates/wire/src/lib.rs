//! DNS messages: octets to data and back.
//!
//! *Parsing* turns octets into data, *composing* turns data into octets. This crate knows no I/O and no clock, panics on
//! no input and allocates nothing on the query path.
//!
//! ```text
//!   octets --> parse::Request --> (zone answers) --> compose::Composer --> octets
//! ```
#![forbid(unsafe_code)]

pub mod limits;

// Names and numbers: what everything else is made of.
pub mod name;
pub mod number;
