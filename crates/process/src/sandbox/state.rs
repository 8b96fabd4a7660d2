//! How far a sandbox is enforced.

use serde::{Deserialize, Serialize};

/// How far one part of the sandbox is enforced.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforced {
    /// Disabled, or unknown to the kernel.
    #[default]
    No,
    /// As far as an older kernel supports it.
    Partly,
    /// Completely.
    Fully,
}

/// The state of the sandbox of a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SandboxState {
    /// Whether the capabilities are dropped.
    pub capabilities: Enforced,
    /// Whether started programs get no more privileges than this process.
    pub no_new_privs: Enforced,
    /// Whether the files are restricted.
    pub landlock: Enforced,
    /// Whether the system calls are filtered.
    pub seccomp: Enforced,
}

impl SandboxState {
    /// Its parts by name, for metrics.
    #[must_use]
    pub fn parts(self) -> [(&'static str, Enforced); 4] {
        [
            ("capabilities", self.capabilities),
            ("no_new_privs", self.no_new_privs),
            ("landlock", self.landlock),
            ("seccomp", self.seccomp),
        ]
    }
}
