//! The state that all threads of a run share.

use crate::cluster::Cluster;
use crate::history::Recorder;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;
use tsig::client::ClientKey;

/// The state that all threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) recorder: Recorder,
    pub(crate) key: ClientKey,
    /// A key with the same name and another secret.
    pub(crate) wrong_key: ClientKey,
    pub(crate) token: String,
    /// The zone with the registers that all clients write.
    pub(crate) registers: String,
    /// The zone with records that are written once.
    pub(crate) records: String,
    /// The value that each register has, as far as clients know.
    pub(crate) guesses: Vec<AtomicU32>,
    /// The last value that a client sent.
    pub(crate) last_value: AtomicU32,
    /// The last message id that a client used.
    pub(crate) last_id: AtomicU16,
    /// Pause between two updates of one client.
    pub(crate) pause: Duration,
    pub(crate) targets: RwLock<Vec<Target>>,
    pub(crate) is_over: AtomicBool,
}

impl Shared {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Returns the id of the next message. Two messages in the same second have different ids. Otherwise two updates
    /// could have the same bytes, and nodes would treat the second one as a repeat of the first.
    pub(crate) fn next_id(&self) -> u16 {
        next_id(&self.last_id)
    }

    /// Returns the members that clients send to.
    pub(crate) fn targets(&self) -> Vec<Target> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Updates the members after one joined or left.
    pub(crate) fn set_targets(&self, cluster: &Cluster<'_>) {
        *self.targets.write().unwrap_or_else(PoisonError::into_inner) = targets_of(cluster);
    }
}

fn next_id(last: &AtomicU16) -> u16 {
    last.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// A node as clients know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// Its number in the cluster, which is never used for another node.
    pub(crate) node: u64,
    /// Its network slot.
    pub(crate) slot: usize,
}

pub(crate) fn targets_of(cluster: &Cluster<'_>) -> Vec<Target> {
    cluster.nodes.values().map(|node| Target { node: node.id, slot: node.slot }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn message_ids_repeat_only_after_all_were_used() {
        let last = AtomicU16::new(0);
        let half = || (0..1 << 15).map(|_| next_id(&last)).collect::<Vec<u16>>();
        let ids = std::thread::scope(|scope| {
            let other = scope.spawn(half);
            [half(), other.join().unwrap()].concat()
        });
        assert_eq!(BTreeSet::from_iter(&ids).len(), 1 << 16);
        assert_eq!(next_id(&last), 1);
    }
}
