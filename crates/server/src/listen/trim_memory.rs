//! Returns the memory of closed connections to the operating system. The allocator keeps the memory that a thread
//! frees, so after one flood a node would keep it for good.

use super::memory::MemoryBudget;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which each runtime checks whether to trim memory of connections.
const CONNECTIONS_TRIM_CHECK_MS: u64 = 1_000;
/// Minimum freed bytes for a trim.
const CONNECTIONS_TRIM_BYTES_MIN: usize = 4 << 20;

/// Trims this thread's memory each time most of the connection memory becomes free again. Runs forever.
pub(crate) async fn trim_after_floods(memory: Arc<MemoryBudget>) {
    let mut high_water = HighWaterMark::default();
    loop {
        tokio::time::sleep(Duration::from_millis(CONNECTIONS_TRIM_CHECK_MS)).await;
        if high_water.has_dropped(memory.used()) {
            crate::sys::memory::trim();
        }
    }
}

/// The most memory in use since the last trim.
#[derive(Default)]
struct HighWaterMark(usize);

impl HighWaterMark {
    /// Whether most of it is free again. If so, the mark restarts at the current use.
    fn has_dropped(&mut self, taken: usize) -> bool {
        self.0 = self.0.max(taken);
        let freed = self.0 - taken;
        let has_dropped = freed >= CONNECTIONS_TRIM_BYTES_MIN && freed > taken;
        if has_dropped {
            self.0 = taken;
        }
        has_dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_trimmed_once_per_flood() {
        const MIB: usize = 1 << 20;
        let mut high_water = HighWaterMark::default();
        let observed = [0, 10 * MIB, 100 * MIB, 60 * MIB, 40 * MIB, 30 * MIB, 0, 0, MIB, 0]
            .map(|taken| high_water.has_dropped(taken));
        assert_eq!(observed, [false, false, false, false, true, false, true, false, false, false]);
    }
}
