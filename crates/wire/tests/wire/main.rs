//! Tests of the public interface.

mod support;

// Golden tables.
mod order_of_answers;
mod rdata;

// Examples: malformed messages, and composed bytes.
mod compose;
mod malformed;

// Properties, and comparison with an independent codec.
mod differential;
mod properties;
