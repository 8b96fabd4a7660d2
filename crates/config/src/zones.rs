//! `[zones]`: memory limits of the zones of this node.

use crate::limits::ZONES_MEMORY_BYTES_MIN;
use process::memory_size;
use serde::{Deserialize, Serialize};

/// Divisor of the memory of the machine or cgroup: the default zone memory. The log, history and connections need the
/// rest.
const ZONES_MEMORY_SHARE: u64 = 2;
/// Divisor of the zone memory: the default bytes of records that one key may add to one zone.
const KEY_GROWTH_SHARE: u64 = 4;

/// The `[zones]` table.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Zones {
    /// Memory limit of all zones, in bytes. The leader refuses growth at 80 % of the smallest node's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_max: Option<u64>,
    /// Bytes of records that one key may add to one zone while this node is the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_growth_bytes_max: Option<u64>,
    /// Nodes on this machine, which share the default memory limit. Set by `--nodes-here`.
    #[serde(skip)]
    pub nodes_here: u64,
}

impl Zones {
    pub(super) const KEYS: &'static [&'static str] = &["memory_bytes_max", "key_growth_bytes_max"];

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The memory limit of zones: as configured, or half of the memory of the machine or control group, divided by the
    /// nodes there.
    pub fn memory_bytes(&self) -> u64 {
        let share = || {
            let here = memory_size::bytes_here().unwrap_or(u64::MAX);
            (here / ZONES_MEMORY_SHARE / self.nodes_here.max(1)).max(ZONES_MEMORY_BYTES_MIN)
        };
        self.memory_bytes_max.unwrap_or_else(share)
    }

    /// The growth limit of one key in one zone: as configured, or a fraction of the memory limit.
    pub fn key_growth_bytes(&self) -> u64 {
        self.key_growth_bytes_max.unwrap_or_else(|| self.memory_bytes() / KEY_GROWTH_SHARE)
    }

    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.memory_bytes_max.is_some_and(|max| max < ZONES_MEMORY_BYTES_MIN) {
            let least = ZONES_MEMORY_BYTES_MIN;
            return Err(("zones", format!("`zones.memory_bytes_max` must be {least} or more")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_on_one_machine_share_its_memory() {
        let of = |nodes_here| Zones { nodes_here, ..Zones::default() }.memory_bytes();
        assert_eq!((of(0), of(1) / of(3)), (of(1), 3));
        assert_eq!(of(u64::MAX), ZONES_MEMORY_BYTES_MIN);
        let configured = Zones { memory_bytes_max: Some(32 << 20), nodes_here: 3, ..Zones::default() };
        assert_eq!((configured.memory_bytes(), configured.key_growth_bytes()), (32 << 20, 8 << 20));
        assert_eq!(Zones { key_growth_bytes_max: Some(5), ..configured }.key_growth_bytes(), 5);
        assert!(Zones { memory_bytes_max: Some(1), ..Zones::default() }.check().is_err());
    }
}
