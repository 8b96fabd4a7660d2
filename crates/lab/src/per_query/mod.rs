//! A row for each query, for questions that no histogram answers.
//!
//! ```text
//!   worker: Scribe (queries that wait) -> Chunk --full--> Writer (a thread) -> Table -> queries.parquet
//!                                           ^---emptied-----'
//! ```
//!
//! The chunks of a worker are all there is: when the writer has not emptied one in time, queries go unrecorded and are
//! counted. A worker never waits.

// One query; many that have ended.
mod chunk;
// What a worker knows of the queries that wait.
mod scribe;
// Columns, and the file.
mod table;
// The thread between.
mod writer;

pub use chunk::{Answer, Fate, Query};
pub use scribe::{Parties, Scribe};
pub use writer::{PerQuery, Spool, Written};
