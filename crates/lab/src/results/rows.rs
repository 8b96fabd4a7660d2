//! Errors of the file of rows.

use load::per_query::RowsError;
use report::folder::WriteError;

/// Converts the error to that of the run folder.
#[must_use]
pub fn write_error(error: RowsError) -> WriteError {
    WriteError { path: error.path, source: error.source }
}
