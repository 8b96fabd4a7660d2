//! Who leads next when a leader hands over.

use crate::io::NodeId;
use crate::limits::SUCCESSOR_ALIVE_MS;
use crate::progress::Progress;
use crate::raft::Driver;
use crate::replica::Replica;
use core::cmp::Reverse;

/// The best of the other voters: one that answers and is not fenced before one that does not or is, then the one with
/// the longest log that is known to agree with this leader's.
pub(crate) fn successor(driver: &Driver, progress: &Progress, now_ms: u64) -> Option<NodeId> {
    let mut others = driver.incoming_voters();
    others.retain(|&id| id != driver.id());
    let takes_it = |id| progress.responded_within(id, SUCCESSOR_ALIVE_MS, now_ms) && !progress.is_differing(id);
    others.into_iter().max_by_key(|&id| (takes_it(id), driver.matched(id), Reverse(id)))
}

impl Replica {
    pub(crate) fn successor(&self) -> Option<NodeId> {
        successor(&self.driver, &self.progress, self.now.monotonic_ms)
    }
}
