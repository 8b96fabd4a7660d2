//! What a zone holds and what it answers. No I/O, no clock, no consensus.
#![forbid(unsafe_code)]

pub mod limits;

// What a zone is made of.
pub mod record;

// Presentation format.
pub mod text;

// Zone files.
pub mod file;

// What a zone has to be.
pub mod check;
