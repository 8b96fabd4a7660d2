//! The DNS laboratory: it judges any server, ours or a peer's, by nothing but its answers.
//!
//! ```text
//!   trace | generator --> compare::send (to each server) --> normalise --> judge --> report
//! ```

// What is sent, and to whom.
pub mod limits;
pub mod peers;
pub mod trace;

// What came back, side by side.
pub mod compare;
