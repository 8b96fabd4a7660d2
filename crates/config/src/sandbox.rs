//! `sandbox`: whether the process drops privileges that it does not need.

use serde::{Deserialize, Serialize};

/// The `sandbox` key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// Uses all mechanisms that the kernel supports.
    #[default]
    On,
    /// For systems where the sandbox does not work.
    Off,
}

impl Sandbox {
    /// Whether the sandbox is on.
    pub fn is_on(&self) -> bool {
        *self == Self::On
    }
}
