//! A row for each query, for questions that no histogram answers.
//!
//! ```text
//!   worker: QueryRecorder (queries in flight) -> Chunk --full--> Writer (a thread) -> Table -> queries.parquet
//!                                           ^---emptied-----'
//! ```
//!
//! The chunks of a worker are all there is: when the writer has not emptied one in time, queries go unrecorded and are
//! counted. A worker never waits.

// One query; many that have ended.
mod chunk;
// The queries of a worker that are in flight.
mod query_recorder;
// Columns, and the file.
mod table;
// The thread between.
mod writer;

pub use chunk::{Answer, Fate, Query};
pub use query_recorder::{Parties, QueryRecorder};
pub use writer::{PerQuery, RowSink, Written};
