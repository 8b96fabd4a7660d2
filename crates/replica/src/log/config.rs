//! Sizes of a log.

use super::limits::*;

/// Sizes; the default is for production, tests and simulations use smaller ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Bytes of a segment, a multiple of the sector.
    pub segment_bytes: u64,
    /// Bytes of a physical block of the disk, a power of two from the sector to [`BLOCK_BYTES_MAX`]. No write shares a
    /// block with an earlier one.
    pub block_bytes: u64,
    /// Bytes of entries after which a record is closed.
    pub record_bytes: usize,
    /// Bytes of memory for applied and durable entries that are not in a checkpoint.
    pub tail_bytes: usize,
    /// Bytes of one read of older entries.
    pub fetch_bytes: u64,
    /// Entries kept behind a checkpoint.
    pub entries_behind_checkpoint: u64,
    /// Largest number of bytes of records kept behind a checkpoint.
    pub bytes_behind_checkpoint: u64,
    /// Smallest number of bytes of records after which a checkpoint is due.
    pub checkpoint_due_bytes: u64,
    /// Largest number of bytes of records kept behind a checkpoint for a transfer.
    pub bytes_pinned: u64,
    /// Bytes of records after which an unfinished checkpoint is abandoned.
    pub bytes_while_checkpoint: u64,
    /// Bytes of former zone versions that an unfinished checkpoint may retain in memory before it is abandoned.
    pub retired_while_checkpoint: u64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES,
            block_bytes: SECTOR_BYTES as u64,
            record_bytes: RECORD_BYTES_MAX,
            tail_bytes: TAIL_BYTES_MAX,
            fetch_bytes: FETCH_BYTES_MAX,
            entries_behind_checkpoint: ENTRIES_BEHIND_CHECKPOINT_MAX,
            bytes_behind_checkpoint: BYTES_BEHIND_CHECKPOINT_MAX,
            checkpoint_due_bytes: CHECKPOINT_DUE_BYTES,
            bytes_pinned: BYTES_PINNED_MAX,
            bytes_while_checkpoint: BYTES_WHILE_CHECKPOINT_MAX,
            retired_while_checkpoint: RETIRED_WHILE_CHECKPOINT_MAX,
        }
    }
}
