//! Records a row for each query, for questions that histograms cannot answer.
//!
//! ```text
//!    worker: QueryRecorder (queries in flight) -> Chunk --full--> Writer (a thread) -> Table -> queries.parquet
//!                                            ^--free chunks---'
//! ```
//!
//! Each worker has a fixed number of chunks. If the writer does not empty one in time, queries are not recorded but
//! counted. A worker never waits.

// A query, and a chunk of finished queries.
mod chunk;
// Messages to the writer.
mod message;
// The queries of a worker in flight.
mod query_recorder;
// The columns and the file.
mod table;
// The writer thread.
mod writer;

pub use chunk::{Answer, Fate, Query};
pub use query_recorder::{Parties, QueryRecorder};
pub use writer::{PerQuery, RowSink, RowsError};
