//! Rows of single queries.

use serde::{Deserialize, Serialize};

/// The contents of `queries.parquet`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QueryFileCounts {
    /// Recorded queries.
    pub rows: u64,
    /// Queries that were dropped because the writer could not keep up.
    pub dropped: u64,
}
