//! The connections of members: one for each member and lane, so that no member holds more than its own.

use replica::io::{Lane, NodeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

type Key = (NodeId, u8);

/// All of them.
#[derive(Clone, Default)]
pub(super) struct MemberConnections(Arc<Mutex<BTreeMap<Key, Arc<Notify>>>>);

/// One of them, until it is dropped.
pub(super) struct MemberPlace {
    all: MemberConnections,
    key: Key,
    replaced: Arc<Notify>,
}

impl MemberConnections {
    /// A member that connects again takes the place of its connection before: the old one may be half open.
    pub(super) fn enter(&self, from: NodeId, lane: Lane) -> MemberPlace {
        let (key, replaced) = ((from, super::lane_byte(lane)), Arc::<Notify>::default());
        if let Some(before) = self.change(|all| all.insert(key, replaced.clone())) {
            before.notify_one();
        }
        MemberPlace { all: self.clone(), key, replaced }
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Key, Arc<Notify>>) -> T) -> T {
        // The map is whole between any two statements.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl MemberPlace {
    /// Waits until the member has connected again.
    pub(super) async fn replaced(&self) {
        self.replaced.notified().await;
    }
}

impl Drop for MemberPlace {
    fn drop(&mut self) {
        self.all.change(|all| {
            if all.get(&self.key).is_some_and(|now| Arc::ptr_eq(now, &self.replaced)) {
                all.remove(&self.key);
            }
        });
    }
}
