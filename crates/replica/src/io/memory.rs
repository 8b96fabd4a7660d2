//! Memory of a member's zones.

/// Memory use and limit of a member's zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFigures {
    /// Bytes in use, including former versions.
    pub used_bytes: u64,
    /// The limit in bytes; zero means none.
    pub limit_bytes: u64,
}

impl MemoryFigures {
    /// The size up to which zones may grow: 80 % of the limit. The rest is for deletions, which copy too.
    #[must_use]
    pub const fn growth_max(self) -> u64 {
        if self.limit_bytes == 0 { u64::MAX } else { self.limit_bytes / 5 * 4 }
    }
}
