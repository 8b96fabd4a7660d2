//! Messages to the writer.

use super::chunk::Chunk;
use super::table::FileMetadata;

/// A message from a worker, or from the owner at the end.
#[derive(Debug)]
pub(super) enum Message {
    /// Rows. The chunk must be returned.
    Full(Chunk),
    /// All workers have ended.
    End(FileMetadata),
}
