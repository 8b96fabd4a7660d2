//! Connections that have not authenticated yet. Their number is limited, and they are short. At the limit, the oldest
//! connection of the address with the most connections is closed, so that strangers cannot keep nodes out.

use crate::limits::{PEER_PENDING_MAX, PEER_PENDING_PER_ADDRESS_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::AbortHandle;

/// The pending connections, in order of arrival.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    next: u64,
    connections: Vec<Connection>,
}

struct Connection {
    ticket: u64,
    /// An IPv4 address, or the IPv6 network of one client.
    client: IpAddr,
    /// `None` until its task has started.
    task: Option<AbortHandle>,
}

/// The slot of a pending connection. It is released on drop.
pub(super) struct PendingSlot {
    pending: Pending,
    ticket: u64,
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        self.pending.change(|inner| inner.connections.retain(|other| other.ticket != self.ticket));
    }
}

impl Pending {
    /// Takes a slot for a connection of this client, and closes another connection if there is none.
    pub(super) fn enter(&self, client: IpAddr) -> PendingSlot {
        let ticket = self.change(|inner| {
            inner.make_room(client);
            inner.next += 1;
            inner.connections.push(Connection { ticket: inner.next, client, task: None });
            inner.next
        });
        PendingSlot { pending: self.clone(), ticket }
    }

    /// Sets the task to abort when the slot is needed. The slot may have been released already. Only the task that
    /// calls [`enter`](Self::enter) calls this, right after it, so the slot is not needed in between.
    pub(super) fn set_task(&self, ticket: u64, task: AbortHandle) {
        self.change(|inner| {
            if let Some(connection) = inner.connections.iter_mut().find(|other| other.ticket == ticket) {
                connection.task = Some(task);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        // The list is consistent between any two statements, so a poisoned lock is safe to use.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PendingSlot {
    pub(super) const fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Inner {
    fn make_room(&mut self, client: IpAddr) {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        self.connections.iter().for_each(|other| *counts.entry(other.client).or_default() += 1);
        let is_over_share = counts.get(&client).is_some_and(|count| *count >= PEER_PENDING_PER_ADDRESS_MAX);
        if !is_over_share && self.connections.len() < PEER_PENDING_MAX {
            return;
        }
        let most = counts.values().max().copied().unwrap_or_default();
        let is_candidate = |other: &Connection| match is_over_share {
            true => other.client == client,
            // Among clients with equally many, the first one: a node needs its slot only for milliseconds.
            false => counts.get(&other.client) == Some(&most),
        };
        if let Some(task) =
            self.connections.iter().position(is_candidate).and_then(|at| self.connections.remove(at).task)
        {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: usize) -> IpAddr {
        IpAddr::from([127, 0, (last >> 8) as u8, last as u8])
    }

    /// Takes a slot whose task never ends.
    fn enter(pending: &Pending, from: IpAddr) -> (PendingSlot, tokio::task::JoinHandle<()>) {
        let slot = pending.enter(from);
        let task = tokio::spawn(std::future::pending());
        pending.set_task(slot.ticket(), task.abort_handle());
        (slot, task)
    }

    async fn is_ended(task: &mut tokio::task::JoinHandle<()>) -> bool {
        tokio::time::timeout(std::time::Duration::from_millis(50), task).await.is_ok()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_oldest_connection_of_the_busiest_address_is_closed() {
        let pending = Pending::default();
        // One address fills its share: its oldest connection is closed.
        let mut greedy: Vec<_> = (0..=PEER_PENDING_PER_ADDRESS_MAX).map(|_| enter(&pending, address(1))).collect();
        assert!(is_ended(&mut greedy[0].1).await && !is_ended(&mut greedy[1].1).await);
        // Many addresses fill the rest: the address with the most connections loses one.
        let others = PEER_PENDING_MAX - PEER_PENDING_PER_ADDRESS_MAX;
        let mut others: Vec<_> = (0..others).map(|other| enter(&pending, address(2 + other))).collect();
        let mut newcomer = enter(&pending, address(9_999));
        assert!(is_ended(&mut greedy[1].1).await);
        assert!(!is_ended(&mut newcomer.1).await && !is_ended(&mut others[0].1).await);
        // A dropped slot is free.
        let before = pending.change(|inner| inner.connections.len());
        drop(newcomer.0);
        assert_eq!(pending.change(|inner| inner.connections.len()), before - 1);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_first_connection_is_closed_if_all_addresses_have_one() {
        let pending = Pending::default();
        let mut all: Vec<_> = (0..PEER_PENDING_MAX).map(|other| enter(&pending, address(other))).collect();
        let mut newcomer = enter(&pending, address(9_999));
        assert!(is_ended(&mut all[0].1).await);
        assert!(!is_ended(&mut all[PEER_PENDING_MAX - 1].1).await && !is_ended(&mut newcomer.1).await);
    }
}
