//! The `[log]` table.

use crate::limits::{CHECKPOINT_BYTES_MIN, SCRUB_INTERVAL_S};
use replica::log::LogConfig;
use serde::{Deserialize, Serialize};

/// How much of the log is kept, and how often it is read for damage.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// Bytes of log after which a checkpoint is written, unless the last one was larger.
    pub(crate) checkpoint_bytes: u64,
    /// Entries that stay behind a checkpoint; a node that was away for longer is sent the checkpoint.
    pub(crate) keep_entries: u64,
    /// Bytes of log that stay behind a checkpoint at most.
    pub(crate) keep_bytes: u64,
    /// Seconds between two scrubs of log and checkpoints; 0: never.
    #[serde(skip_serializing_if = "is_scrub_default")]
    pub(crate) scrub_interval_s: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_scrub_default(interval_s: &u64) -> bool {
    *interval_s == SCRUB_INTERVAL_S
}

impl Default for Log {
    fn default() -> Self {
        let log = LogConfig::default();
        Self {
            checkpoint_bytes: log.checkpoint_due_bytes,
            keep_entries: log.entries_behind_checkpoint,
            keep_bytes: log.bytes_behind_checkpoint,
            scrub_interval_s: SCRUB_INTERVAL_S,
        }
    }
}

impl Log {
    /// Its keys, for the search for the nearest one.
    pub(super) const KEYS: &[&str] = &["checkpoint_bytes", "keep_entries", "keep_bytes", "scrub_interval_s"];

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// As the log of a replica wants it, where its newest entries may take so much memory, and so may former versions
    /// of zones while a checkpoint is written.
    pub(crate) fn to_sizes(&self, memory_bytes_max: u64) -> LogConfig {
        let log = LogConfig::default();
        LogConfig {
            retired_while_checkpoint: log.retired_while_checkpoint.min(memory_bytes_max),
            tail_bytes: log.tail_bytes.min(memory_bytes_max.try_into().unwrap_or(usize::MAX)),
            checkpoint_due_bytes: self.checkpoint_bytes,
            entries_behind_checkpoint: self.keep_entries,
            bytes_behind_checkpoint: self.keep_bytes,
            ..log
        }
    }

    /// What types cannot say; names the key at fault.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.checkpoint_bytes < CHECKPOINT_BYTES_MIN {
            return Err(("checkpoint_bytes", format!("`checkpoint_bytes` must be {CHECKPOINT_BYTES_MIN} or more")));
        }
        Ok(())
    }
}
