//! The `[log]` table, as the replica needs it.

use config::Log;
use replica::log::{self, LogConfig};

/// The configuration of a replica's log. `memory_bytes_max` limits the memory of its newest entries, and of old zone
/// versions while a checkpoint is written.
pub(super) fn log_config(table: &Log, memory_bytes_max: u64) -> LogConfig {
    let log = LogConfig::default();
    LogConfig {
        retired_while_checkpoint: log.retired_while_checkpoint.min(memory_bytes_max),
        tail_bytes: log.tail_bytes.min(memory_bytes_max.try_into().unwrap_or(usize::MAX)),
        checkpoint_due_bytes: table.checkpoint_bytes,
        entries_behind_checkpoint: table.keep_entries,
        bytes_behind_checkpoint: table.keep_bytes,
        ..log
    }
}

// The defaults of the `[log]` table are those of the replica.
const _: () = assert!(config::limits::CHECKPOINT_BYTES == log::limits::CHECKPOINT_DUE_BYTES);
const _: () = assert!(config::limits::CHECKPOINT_KEEP_ENTRIES == log::limits::ENTRIES_BEHIND_CHECKPOINT_MAX);
const _: () = assert!(config::limits::CHECKPOINT_KEEP_BYTES == log::limits::BYTES_BEHIND_CHECKPOINT_MAX);
// The configuration accepts the addresses that the replica accepts.
const _: () = assert!(config::limits::ADDRESS_BYTES_MAX == replica::limits::ADDRESS_BYTES_MAX);
