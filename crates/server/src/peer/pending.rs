//! Connections that have not shown yet whom they are from. They are few and short: at the limit the oldest one makes
//! room, of the address that has the most, so that no stranger keeps a node out.

use crate::limits::{PEER_PENDING_MAX, PEER_PENDING_PER_ADDRESS_MAX};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::AbortHandle;

/// All of them, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Pending(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    next: u64,
    connections: Vec<Connection>,
}

struct Connection {
    ticket: u64,
    /// An address, or a network of IPv6 that is one client's.
    client: IpAddr,
    /// `None` until its task has started.
    task: Option<AbortHandle>,
}

/// A place among them, until it is dropped.
pub(super) struct PendingPlace {
    pending: Pending,
    ticket: u64,
}

impl Drop for PendingPlace {
    fn drop(&mut self) {
        self.pending.change(|inner| inner.connections.retain(|other| other.ticket != self.ticket));
    }
}

impl Pending {
    /// Takes a place for a connection from this client; makes room if there is none.
    pub(super) fn enter(&self, client: IpAddr) -> PendingPlace {
        let ticket = self.change(|inner| {
            inner.make_room(client);
            inner.next += 1;
            inner.connections.push(Connection { ticket: inner.next, client, task: None });
            inner.next
        });
        PendingPlace { pending: self.clone(), ticket }
    }

    /// What is ended if the place is needed. The place may have been given up already. Only the task that calls
    /// [`enter`](Self::enter) calls this, right after it, so no place is needed in between.
    pub(super) fn set_task(&self, ticket: u64, task: AbortHandle) {
        self.change(|inner| {
            if let Some(connection) = inner.connections.iter_mut().find(|other| other.ticket == ticket) {
                connection.task = Some(task);
            }
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        // The list is whole between any two statements.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl PendingPlace {
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
        let gives_way = |other: &Connection| match is_over_share {
            true => other.client == client,
            // Of clients that have as many, the one that came first: a node needs its place for milliseconds.
            false => counts.get(&other.client) == Some(&most),
        };
        if let Some(task) = self.connections.iter().position(gives_way).and_then(|at| self.connections.remove(at).task)
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

    /// A place whose task never ends by itself.
    fn enter(pending: &Pending, from: IpAddr) -> (PendingPlace, tokio::task::JoinHandle<()>) {
        let place = pending.enter(from);
        let task = tokio::spawn(std::future::pending());
        pending.set_task(place.ticket(), task.abort_handle());
        (place, task)
    }

    async fn is_ended(task: &mut tokio::task::JoinHandle<()>) -> bool {
        tokio::time::timeout(std::time::Duration::from_millis(50), task).await.is_ok()
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_oldest_of_the_address_with_the_most_makes_room() {
        let pending = Pending::default();
        // One address fills its share: its own oldest goes.
        let mut greedy: Vec<_> = (0..=PEER_PENDING_PER_ADDRESS_MAX).map(|_| enter(&pending, address(1))).collect();
        assert!(is_ended(&mut greedy[0].1).await && !is_ended(&mut greedy[1].1).await);
        // Many addresses fill the rest: the one with the most gives way, and newcomers get in.
        let others = PEER_PENDING_MAX - PEER_PENDING_PER_ADDRESS_MAX;
        let mut others: Vec<_> = (0..others).map(|other| enter(&pending, address(2 + other))).collect();
        let mut newcomer = enter(&pending, address(9_999));
        assert!(is_ended(&mut greedy[1].1).await);
        assert!(!is_ended(&mut newcomer.1).await && !is_ended(&mut others[0].1).await);
        // A place that is given up is free.
        let before = pending.change(|inner| inner.connections.len());
        drop(newcomer.0);
        assert_eq!(pending.change(|inner| inner.connections.len()), before - 1);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn where_nobody_has_more_than_others_the_first_makes_room() {
        let pending = Pending::default();
        let mut all: Vec<_> = (0..PEER_PENDING_MAX).map(|other| enter(&pending, address(other))).collect();
        let mut newcomer = enter(&pending, address(9_999));
        assert!(is_ended(&mut all[0].1).await);
        assert!(!is_ended(&mut all[PEER_PENDING_MAX - 1].1).await && !is_ended(&mut newcomer.1).await);
    }
}
