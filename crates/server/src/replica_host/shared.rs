//! The state that the replica thread shares with other threads.

use super::cluster_clock::ClusterClock;
use super::removal::Removal;
use crate::audit_log::refused::RefusedLog;
use crate::metrics::Gauge;
use crate::published::address_hints::AddressHints;
use crate::published::rights::Rights;
use crate::published::zone_memory::ZoneMemory;
use crate::update_queue::fair_quota::FairQuota;
use replica::Trust;
use replica::io::Membership;
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

/// State that the replica thread shares with other threads.
#[derive(Default)]
pub(crate) struct Shared {
    /// Pending updates.
    pub(crate) updates: Gauge,
    /// Pending updates by key and zone.
    pub(super) quota: Arc<FairQuota>,
    /// Pending administrative commands.
    pub(crate) admins: Gauge,
    /// Events in the queue.
    pub(crate) waiting: Gauge,
    rights: RwLock<Arc<Rights>>,
    /// The members of the cluster, for the connections between nodes.
    pub(crate) membership: watch::Sender<Arc<Membership>>,
    /// Changes when queries see newer data.
    pub(crate) published: watch::Sender<u64>,
    /// The CAs, certificates and pinned keys of the cluster.
    pub(crate) trust: watch::Sender<Arc<Trust>>,
    /// The indexes that other nodes have applied, as far as this node knows.
    pub(crate) everywhere: watch::Sender<Everywhere>,
    /// The memory use of the zones.
    pub(crate) zone_memory: Arc<ZoneMemory>,
    /// The cluster's time.
    pub(crate) clock: ClusterClock,
    /// Addresses of members besides those in the state.
    pub(crate) hints: Arc<AddressHints>,
    /// Whether this node was removed.
    pub(crate) removal: Removal,
    /// Refused requests, for the audit log.
    pub(crate) refusals: RefusedLog,
}

/// The indexes that other nodes have applied.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Everywhere {
    /// The index applied by all nodes that may answer for zones with `ack = all-live`.
    pub(crate) of_rotation: u64,
    /// The index applied by all nodes that the leader can reach. They may answer for all other zones.
    pub(crate) reachable: u64,
}

impl Everywhere {
    /// Whether all nodes that may answer for a zone have applied this index. A node out of the rotation answers only
    /// for zones that need no lease.
    pub(crate) const fn shows(self, index: u64, is_leased: bool) -> bool {
        index <= if is_leased { self.of_rotation } else { self.reachable }
    }
}

impl Shared {
    pub(crate) fn with_hints(hints: AddressHints) -> Arc<Self> {
        Arc::new(Self { hints: Arc::new(hints), ..Self::default() })
    }

    pub(super) fn set_everywhere(&self, index: u64, of_rotation: bool) {
        self.everywhere.send_modify(|known| match of_rotation {
            true => known.of_rotation = index,
            false => known.reachable = index,
        });
    }

    pub(super) fn set_rights(&self, rights: Rights) {
        let rights = Arc::new(rights);
        let before = std::mem::replace(&mut *self.rights.write().unwrap_or_else(PoisonError::into_inner), rights);
        // Dropping a hundred thousand keys takes a while, and must not delay the readers of the new ones.
        drop(before);
    }

    pub(crate) fn rights(&self) -> Arc<Rights> {
        self.rights.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_without_a_lease_wait_for_nodes_out_of_the_rotation() {
        let known = Everywhere { of_rotation: 9, reachable: 4 };
        assert!(known.shows(9, true) && !known.shows(10, true));
        assert!(known.shows(4, false) && !known.shows(5, false));
    }
}
