//! The connections of members: one per member and channel.

use replica::io::{Channel, NodeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

type Key = (NodeId, u8);

/// All connections of members.
#[derive(Clone, Default)]
pub(super) struct MemberConnections(Arc<Mutex<BTreeMap<Key, Arc<Notify>>>>);

/// One connection. It is removed on drop.
pub(super) struct MemberConnection {
    all: MemberConnections,
    key: Key,
    replaced: Arc<Notify>,
}

impl MemberConnections {
    /// A new connection replaces the previous one of the same member, which may be half open.
    pub(super) fn enter(&self, from: NodeId, channel: Channel) -> MemberConnection {
        let (key, replaced) = ((from, super::channel_byte(channel)), Arc::<Notify>::default());
        if let Some(before) = self.change(|all| all.insert(key, replaced.clone())) {
            before.notify_one();
        }
        MemberConnection { all: self.clone(), key, replaced }
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Key, Arc<Notify>>) -> T) -> T {
        // The map is consistent between any two statements, so a poisoned lock is safe to use.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl MemberConnection {
    /// Waits until the member has connected again.
    pub(super) async fn replaced(&self) {
        self.replaced.notified().await;
    }
}

impl Drop for MemberConnection {
    fn drop(&mut self) {
        self.all.change(|all| {
            if all.get(&self.key).is_some_and(|now| Arc::ptr_eq(now, &self.replaced)) {
                all.remove(&self.key);
            }
        });
    }
}
