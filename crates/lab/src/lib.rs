//! The DNS laboratory: it judges any server, ours or a peer's, by nothing but its answers.
//!
//! ```text
//!   trace | generator --> diff::send (to each server) --> normalise --> judge --> report
//!   workload, schedule | trace, replay --> engine (send, match) --> measure --> report
//! ```

// Whether this machine can measure.
pub mod doctor;
pub mod harvest;

// What is sent, and to whom.
pub mod limits;
pub mod peers;
pub mod trace;
pub mod workload;
// And changed before.
pub mod mutation;

// When it is sent, and by whom.
pub mod population;
pub mod replay;
pub mod schedule;
// Sending it, and whose answer is whose.
pub mod engine;
// Whether it is the right one.
pub mod answers;
mod byte_hash;
// What it is tried against.
pub mod echo;
// The servers of a hierarchy.
pub mod emulation;
// Each query on its own.
pub mod per_query;
// Many machines as one.
pub mod fleet;
// How long it took.
pub mod measure;
pub mod report;
// What is told while it goes on.
pub mod live;
mod say;
pub use say::{print, say};

// What rate a server bears.
pub mod capacity;

// How soon an update is seen.
pub mod freshness;

// What the server did meanwhile.
pub mod monitor;

// What came back, side by side.
pub mod diff;
