//! The memory use of the zones, for other threads than the replica.

use metrics_text::{Kind, Page};
use replica::MemoryFigures;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zone::set::Stats;

/// Byte counts, updated by the replica thread at each tick.
#[derive(Default, Debug)]
pub(crate) struct ZoneMemory {
    used: AtomicU64,
    retired: AtomicU64,
    retired_total: AtomicU64,
    limit: AtomicU64,
}

impl ZoneMemory {
    /// Updates the counts. All zones may have been replaced.
    pub(crate) fn set(&self, stats: &Stats, figures: MemoryFigures) {
        self.limit.store(figures.limit_bytes, Relaxed);
        self.used.store(stats.used_bytes as u64, Relaxed);
        self.retired.store(stats.retired_bytes as u64, Relaxed);
        self.retired_total.store(stats.retired_bytes_total, Relaxed);
    }

    /// Total bytes that changes have retired so far. A reader that holds a version keeps the bytes that are retired
    /// from then on.
    pub(crate) fn retired_bytes(&self) -> u64 {
        self.retired_total.load(Relaxed)
    }

    pub(crate) fn write(&self, page: &mut Page) {
        let help = "Bytes of zones in memory, former versions included.";
        page.single("catamaran_zone_bytes", Kind::Gauge, help, self.used.load(Relaxed));
        let help =
            "Limit for the bytes of zones on this node; growth is refused at 80 % of the lowest limit of any node.";
        page.single("catamaran_zone_bytes_max", Kind::Gauge, help, self.limit.load(Relaxed));
        let help = "Bytes of former versions of zones that a transfer or a checkpoint may still read.";
        page.single("catamaran_zone_retired_bytes", Kind::Gauge, help, self.retired.load(Relaxed));
    }

    #[cfg(test)]
    pub(crate) fn retire_more(&self, bytes: u64) {
        self.retired_total.fetch_add(bytes, Relaxed);
    }
}
