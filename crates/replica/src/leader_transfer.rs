//! Leadership transfer: which member leads next.

use crate::io::NodeId;
use crate::limits::SUCCESSOR_ALIVE_MS;
use crate::progress::Progress;
use crate::raft::Driver;
use core::cmp::Reverse;

/// The best other voter: live and not fenced first, then the one with the longest log that matches this leader's.
pub(crate) fn successor(driver: &Driver, progress: &Progress, now_ms: u64) -> Option<NodeId> {
    let mut others = driver.incoming_voters();
    others.retain(|&id| id != driver.id());
    let is_alive = |id| planted!(TransferToSilentMember) || progress.responded_within(id, SUCCESSOR_ALIVE_MS, now_ms);
    let takes_it = |id| is_alive(id) && !progress.is_differing(id);
    others.into_iter().max_by_key(|&id| (takes_it(id), driver.matched(id), Reverse(id)))
}
