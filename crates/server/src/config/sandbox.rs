//! `sandbox`: whether the process gives up what it does not need.

use serde::{Deserialize, Serialize};

/// The `sandbox` key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sandbox {
    /// As far as the kernel knows how.
    #[default]
    On,
    /// For systems where it is in the way.
    Off,
}

impl Sandbox {
    pub(crate) fn is_on(&self) -> bool {
        *self == Self::On
    }
}
