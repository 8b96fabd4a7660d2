//! What the zones keep in memory, for those who are not the replica's thread.

use crate::metrics::text::{Kind, Page};
use replica::MemoryFigures;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zone::set::Stats;

/// Bytes, as the replica's thread last said: with each of its ticks.
#[derive(Default, Debug)]
pub(crate) struct ZoneMemory {
    used: AtomicU64,
    retired: AtomicU64,
    let_go: AtomicU64,
    limit: AtomicU64,
}

impl ZoneMemory {
    /// What it is now. All zones at once may be others than before.
    pub(crate) fn set(&self, stats: &Stats, figures: MemoryFigures) {
        self.limit.store(figures.limit_bytes, Relaxed);
        self.used.store(stats.used_bytes as u64, Relaxed);
        self.retired.store(stats.retired_bytes as u64, Relaxed);
        self.let_go.store(stats.retired_bytes_total, Relaxed);
    }

    /// All that changes ever let go. Who holds a version keeps what is let go from then on.
    pub(crate) fn let_go(&self) -> u64 {
        self.let_go.load(Relaxed)
    }

    pub(super) fn write(&self, page: &mut Page) {
        let help = "Bytes of zones in memory, former versions included.";
        page.single("catamaran_zone_bytes", Kind::Gauge, help, self.used.load(Relaxed));
        let help = "Bytes that zones may take here: growth is refused at 80 % of the smallest of any node.";
        page.single("catamaran_zone_bytes_max", Kind::Gauge, help, self.limit.load(Relaxed));
        let help = "Bytes of former versions that somebody may still read: a transfer, or a checkpoint.";
        page.single("catamaran_zone_retired_bytes", Kind::Gauge, help, self.retired.load(Relaxed));
    }

    #[cfg(test)]
    pub(crate) fn let_go_more(&self, bytes: u64) {
        self.let_go.fetch_add(bytes, Relaxed);
    }
}
