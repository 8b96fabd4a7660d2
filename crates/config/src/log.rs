//! The `[log]` table.

use crate::limits::{
    CHECKPOINT_BYTES, CHECKPOINT_BYTES_MIN, CHECKPOINT_KEEP_BYTES, CHECKPOINT_KEEP_ENTRIES, SCRUB_INTERVAL_S,
};
use serde::{Deserialize, Serialize};

/// Size limits of the log, and the interval of scrubs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Bytes of log after which a checkpoint is written, unless the last one was larger.
    pub checkpoint_bytes: u64,
    /// Entries that are kept before a checkpoint. A node that lags further gets the checkpoint.
    pub keep_entries: u64,
    /// Maximum bytes of entries that are kept before a checkpoint.
    pub keep_bytes: u64,
    /// Seconds between two scrubs of log and checkpoints; 0: never.
    #[serde(skip_serializing_if = "is_scrub_default")]
    pub scrub_interval_s: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_scrub_default(interval_s: &u64) -> bool {
    *interval_s == SCRUB_INTERVAL_S
}

impl Default for Log {
    fn default() -> Self {
        Self {
            checkpoint_bytes: CHECKPOINT_BYTES,
            keep_entries: CHECKPOINT_KEEP_ENTRIES,
            keep_bytes: CHECKPOINT_KEEP_BYTES,
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

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.checkpoint_bytes < CHECKPOINT_BYTES_MIN {
            return Err(("checkpoint_bytes", format!("`checkpoint_bytes` must be {CHECKPOINT_BYTES_MIN} or more")));
        }
        Ok(())
    }
}
