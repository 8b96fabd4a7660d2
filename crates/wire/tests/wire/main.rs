//! What this crate does, seen from outside.

mod support;

// Golden tables.
mod order_of_answers;
mod rdata;

// Examples: the ways to go wrong, and composed bytes.
mod compose;
mod malformed;

// Any bytes, and an independent codec.
mod differential;
mod properties;
