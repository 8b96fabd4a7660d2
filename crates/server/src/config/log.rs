//! The `[log]` table.

use crate::limits::{CHECKPOINT_BYTES_MIN, SCRUB_INTERVAL_S};
use replica::log::LogConfig;
use serde::{Deserialize, Serialize};

/// Size limits of the log, and the interval of scrubs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// Bytes of log after which a checkpoint is written, unless the last one was larger.
    pub(crate) checkpoint_bytes: u64,
    /// Entries that are kept before a checkpoint. A node that lags further gets the checkpoint.
    pub(crate) keep_entries: u64,
    /// Maximum bytes of entries that are kept before a checkpoint.
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
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &["checkpoint_bytes", "keep_entries", "keep_bytes", "scrub_interval_s"];

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// As the configuration of a replica's log. `memory_bytes_max` limits the memory of its newest entries, and of old
    /// zone versions while a checkpoint is written.
    pub(crate) fn to_log_config(&self, memory_bytes_max: u64) -> LogConfig {
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

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.checkpoint_bytes < CHECKPOINT_BYTES_MIN {
            return Err(("checkpoint_bytes", format!("`checkpoint_bytes` must be {CHECKPOINT_BYTES_MIN} or more")));
        }
        Ok(())
    }
}
