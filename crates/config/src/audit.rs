//! The `[audit]` table.

use crate::limits::{AUDIT_BYTES_MAX, AUDIT_BYTES_MIN};
use serde::{Deserialize, Serialize};

/// Size limit of the audit log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// Total size of its files, in bytes.
    pub bytes_max: u64,
}

impl Default for Audit {
    fn default() -> Self {
        Self { bytes_max: AUDIT_BYTES_MAX }
    }
}

impl Audit {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &["bytes_max"];

    /// Whether all values are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.bytes_max < AUDIT_BYTES_MIN {
            return Err(("bytes_max", format!("`audit.bytes_max` must be {AUDIT_BYTES_MIN} or more")));
        }
        Ok(())
    }
}
