//! The peers that this node cannot connect to, for the log, the status and the metrics.

use crate::tls::names::node_number;
use replica::io::NodeId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time after which an unreachable peer is logged.
const PEER_WARN_AFTER: Duration = Duration::from_secs(3);
/// Interval of further log lines about it.
const PEER_WARN_EVERY: Duration = Duration::from_secs(60);

/// One peer that cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unreachable {
    pub(crate) address: String,
    pub(crate) why: String,
    pub(crate) since: Instant,
}

/// The state of each dialled peer, by its heartbeat connection.
#[derive(Default, Debug)]
pub(crate) struct Reachability(Mutex<BTreeMap<NodeId, Peer>>);

#[derive(Default, Debug)]
struct Peer {
    lost: Option<Unreachable>,
    warned_at: Option<Instant>,
}

impl Reachability {
    fn peers(&self) -> MutexGuard<'_, BTreeMap<NodeId, Peer>> {
        // The map is consistent between any two statements, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connected(&self, id: NodeId, address: &str) {
        let mut peers = self.peers();
        let peer = peers.entry(id).or_default();
        peer.lost = None;
        if peer.warned_at.take().is_some() {
            tracing::info!(node = node_number(id), address, "the peer can be reached again");
        }
    }

    /// Records a failed attempt. A peer that stays unreachable is logged, and then again at intervals.
    pub(super) fn failed(&self, id: NodeId, address: &str, why: &str) {
        let now = Instant::now();
        let mut peers = self.peers();
        let peer = peers.entry(id).or_default();
        let since = peer.lost.as_ref().map_or(now, |lost| lost.since);
        peer.lost = Some(Unreachable { address: address.to_owned(), why: why.to_owned(), since });
        let is_due = now.duration_since(since) >= PEER_WARN_AFTER
            && peer.warned_at.is_none_or(|at| now.duration_since(at) >= PEER_WARN_EVERY);
        if is_due {
            peer.warned_at = Some(now);
            let for_s = now.duration_since(since).as_secs();
            tracing::warn!(
                node = node_number(id),
                address,
                why,
                for_s,
                "cannot connect to a peer: if the node has moved, see `catamaran cluster move --help`"
            );
        }
    }

    /// Forgets a peer that is no longer dialled.
    pub(super) fn forget(&self, id: NodeId) {
        self.peers().remove(&id);
    }

    /// Why this peer cannot be reached; `None` while it can be, or before the first attempt.
    pub(crate) fn lost(&self, id: NodeId) -> Option<Unreachable> {
        self.peers().get(&id)?.lost.clone()
    }

    /// All dialled peers, and whether each is connected.
    pub(crate) fn all(&self) -> Vec<(NodeId, bool)> {
        self.peers().iter().map(|(&id, peer)| (id, peer.lost.is_none())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_lost_since_the_first_attempt_that_failed() {
        let reach = Reachability::default();
        assert!(reach.lost(2).is_none() && reach.all().is_empty());
        reach.failed(2, "a:1", "refused");
        let first = reach.lost(2).unwrap().since;
        reach.failed(2, "b:1", "late");
        let lost = reach.lost(2).unwrap();
        assert_eq!((lost.since, &*lost.address, &*lost.why), (first, "b:1", "late"));
        reach.connected(3, "c:1");
        assert_eq!(reach.all(), [(2, false), (3, true)]);
        reach.connected(2, "b:1");
        assert!(reach.lost(2).is_none());
        reach.forget(2);
        assert_eq!(reach.all(), [(3, true)]);
    }
}
