//! Memory that connections have used goes back to the operating system once they are gone. The allocator keeps what a
//! thread has freed: a node that was flooded once would keep as much for good.

use super::memory::Memory;
use crate::limits::{CONNECTIONS_GIVE_BACK_BYTES_MIN, CONNECTIONS_LOOK_MS};
use std::sync::Arc;
use std::time::Duration;

/// Gives back what the connections of this thread's runtime have freed, each time that most of them are gone. For ever.
pub(crate) async fn give_back_after_floods(memory: Arc<Memory>) {
    let mut high_water = HighWater::default();
    loop {
        tokio::time::sleep(Duration::from_millis(CONNECTIONS_LOOK_MS)).await;
        if high_water.has_ebbed(memory.taken()) {
            crate::memory::give_back();
        }
    }
}

/// The most that was taken since the last time.
#[derive(Default)]
struct HighWater(usize);

impl HighWater {
    /// Whether most of it is free again.
    fn has_ebbed(&mut self, taken: usize) -> bool {
        self.0 = self.0.max(taken);
        let freed = self.0 - taken;
        let has_ebbed = freed >= CONNECTIONS_GIVE_BACK_BYTES_MIN && freed > taken;
        if has_ebbed {
            self.0 = taken;
        }
        has_ebbed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_for_each_flood() {
        const MIB: usize = 1 << 20;
        let mut high_water = HighWater::default();
        let told = [0, 10 * MIB, 100 * MIB, 60 * MIB, 40 * MIB, 30 * MIB, 0, 0, MIB, 0]
            .map(|taken| high_water.has_ebbed(taken));
        assert_eq!(told, [false, false, false, false, true, false, true, false, false, false]);
    }
}
