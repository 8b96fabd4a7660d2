//! The `[dns.transfer]` table.

use crate::limits::{TRANSFER_GRACE_MS, TRANSFER_HELD_BYTES_MAX, TRANSFER_RATE_MIN};
use serde::{Deserialize, Serialize};

/// Limits of slow zone transfers. During a transfer, old versions of all zones stay in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Transfer {
    /// Minimum average rate of a transfer, in bytes per second.
    pub bytes_per_second_min: u64,
    /// Time before the minimum rate applies, in milliseconds.
    pub grace_ms: u64,
    /// Bytes of old versions that one transfer may keep in memory.
    pub held_bytes_max: u64,
}

impl Default for Transfer {
    fn default() -> Self {
        Self {
            bytes_per_second_min: TRANSFER_RATE_MIN,
            grace_ms: TRANSFER_GRACE_MS,
            held_bytes_max: TRANSFER_HELD_BYTES_MAX,
        }
    }
}

impl Transfer {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &["bytes_per_second_min", "grace_ms", "held_bytes_max"];

    /// The same limits, with `held_bytes_max` lowered to this maximum.
    pub fn within(self, held_bytes_max: u64) -> Self {
        Self { held_bytes_max: self.held_bytes_max.min(held_bytes_max), ..self }
    }

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.bytes_per_second_min == 0 {
            return Err(("bytes_per_second_min", "`bytes_per_second_min` must be 1 or more".into()));
        }
        if self.held_bytes_max == 0 {
            return Err(("held_bytes_max", "`held_bytes_max` must be 1 or more".into()));
        }
        Ok(())
    }
}
