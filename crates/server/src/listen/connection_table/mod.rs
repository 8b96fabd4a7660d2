//! Counts the connections of each client (RFC 7766 6.2.2) over all transports, and the memory that they use.
//!
//! While there are free slots, only the limit per client applies. When none is free, a client with fewer connections
//! than others still gets one: the most idle connection of the client with the most is evicted. So an attacker's
//! address keeps at most as many connections as any other client can have.

mod slot;

use crate::limits::{EVICTED_MAX, EVICTION_LOOK_MAX};
use crate::metrics::Gauge;
pub(super) use slot::ConnectionSlot;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The open connections, in all and of each client.
pub(crate) struct ConnectionTable {
    /// Open connections. Written under the lock of the table, read without it.
    total: AtomicUsize,
    table: Mutex<Table>,
    connections_max: AtomicUsize,
    per_client_max: AtomicUsize,
    started_at: Instant,
}

/// The permits of each client.
struct Table {
    of: HashMap<IpAddr, Client>,
    /// Clients with permits, ordered by their number of permits.
    by_count: BTreeSet<(usize, IpAddr)>,
    /// Connections that were evicted and have not ended yet.
    evicted_count: usize,
    /// Where the next search for an idle connection starts: at this client among those with equal counts, and at this
    /// slot of each client.
    next_client: IpAddr,
    next_slot: usize,
}

/// The connections and memory of one client.
#[derive(Default)]
struct Client {
    slots: Vec<Arc<ConnectionSlot>>,
    /// These, and evicted connections that have not ended yet.
    alive_count: usize,
    bytes: Arc<Gauge>,
}

/// The right to keep one connection open. Dropping it releases the slot.
pub(crate) struct ConnectionPermit {
    table: Arc<ConnectionTable>,
    client: IpAddr,
    slot: Arc<ConnectionSlot>,
    bytes: Arc<Gauge>,
}

impl ConnectionTable {
    pub(crate) fn new(connections_max: usize, per_client_max: usize) -> Arc<Self> {
        let table = Table {
            of: HashMap::new(),
            by_count: BTreeSet::new(),
            evicted_count: 0,
            next_client: Ipv4Addr::UNSPECIFIED.into(),
            next_slot: 0,
        };
        let (total, table) = (AtomicUsize::new(0), Mutex::new(table));
        let (connections_max, per_client_max) = (AtomicUsize::new(connections_max), AtomicUsize::new(per_client_max));
        Arc::new(Self { total, table, connections_max, per_client_max, started_at: Instant::now() })
    }

    /// Changes the limits. Open connections stay, even if there are more than the new limits allow.
    pub(crate) fn set_limits(&self, connections_max: usize, per_client_max: usize) {
        self.connections_max.store(connections_max, Relaxed);
        self.per_client_max.store(per_client_max, Relaxed);
    }

    /// Number of open connections.
    pub(crate) fn count(&self) -> usize {
        self.total.load(Relaxed)
    }

    /// Whether more than three quarters of the slots are in use.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let max = self.connections_max.load(Relaxed);
        self.count() > max - max.div_ceil(4)
    }

    /// A permit for a connection from `address`, if its client may have one. It may evict another connection.
    pub(crate) fn acquire(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let client = client_of(address);
        let mut table = self.table();
        let own = table.of.get(&client).map_or(0, |own| own.slots.len());
        if own >= self.per_client_max.load(Relaxed) {
            return None;
        }
        match self.count() >= self.connections_max.load(Relaxed) {
            true if !table.evict_for(own) => return None,
            true => {}
            false => drop(self.total.fetch_add(1, Relaxed)),
        }
        let slot = Arc::new(ConnectionSlot::new(self.started_at, own));
        let theirs = table.of.entry(client).or_default();
        theirs.slots.push(slot.clone());
        theirs.alive_count += 1;
        let bytes = theirs.bytes.clone();
        table.recount(client, own, own + 1);
        Some(ConnectionPermit { table: self.clone(), client, slot, bytes })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, client: IpAddr, slot: &Arc<ConnectionSlot>) {
        let mut table = self.table();
        let Some(theirs) = table.of.get_mut(&client) else { return };
        theirs.alive_count -= 1;
        let (count, is_gone) = (theirs.slots.len(), theirs.alive_count == 0);
        if slot.is_evicted() {
            table.evicted_count -= 1;
        } else {
            theirs.take_out(slot.index());
            table.recount(client, count, count - 1);
            self.total.fetch_sub(1, Relaxed);
        }
        if is_gone {
            table.of.remove(&client);
        }
    }
}

impl Client {
    /// Removes one slot; the last one moves to its index.
    fn take_out(&mut self, index: usize) -> Arc<ConnectionSlot> {
        let slot = self.slots.swap_remove(index);
        if let Some(moved) = self.slots.get(index) {
            moved.set_index(index);
        }
        slot
    }
}

impl Table {
    fn recount(&mut self, client: IpAddr, from: usize, to: usize) {
        self.by_count.remove(&(from, client));
        if to > 0 {
            self.by_count.insert((to, client));
        }
    }

    /// Evicts a connection for a client that has `own` connections; false when no client has more than it would then
    /// have. A client without connections always gets one.
    fn evict_for(&mut self, own: usize) -> bool {
        let Some(&(most, _)) = self.by_count.last() else { return false };
        // The other client must not end up with fewer than the new one: otherwise two clients would evict each other
        // forever.
        if (own > 0 && own + 1 >= most) || self.evicted_count >= EVICTED_MAX {
            return false;
        }
        let Some((client, index)) = self.most_idle(most) else { return false };
        let Some(theirs) = self.of.get_mut(&client) else { return false };
        theirs.take_out(index).evict();
        self.recount(client, most, most - 1);
        self.evicted_count += 1;
        true
    }

    /// The most idle connection, among some of the clients with the most. The next search continues after this one, so
    /// that all connections are examined in time.
    fn most_idle(&mut self, most: usize) -> Option<(IpAddr, usize)> {
        let behind = self.by_count.range((most, self.next_client)..);
        let clients = behind.chain(self.by_count.range((most, Ipv4Addr::UNSPECIFIED.into())..(most, self.next_client)));
        let (of, first) = (&self.of, self.next_slot);
        let candidates = clients.flat_map(|(_, client)| {
            let slots = of.get(client).map_or(&[][..], |theirs| &theirs.slots);
            let indices = (0..slots.len()).map(move |index| (first + index) % slots.len());
            indices.map(move |index| (slots[index].active_ms(), *client, index))
        });
        let looked_at = candidates.take(EVICTION_LOOK_MAX);
        let mut last = self.next_client;
        let found = looked_at.inspect(|(_, client, _)| last = *client).min_by_key(|(active_ms, ..)| *active_ms);
        self.next_client = last;
        self.next_slot = self.next_slot.wrapping_add(EVICTION_LOOK_MAX);
        found.map(|(_, client, index)| (client, index))
    }
}

impl ConnectionPermit {
    /// Memory that all connections of its client use.
    pub(super) const fn bytes(&self) -> &Arc<Gauge> {
        &self.bytes
    }

    /// Its slot, which knows how idle it is.
    pub(super) const fn slot(&self) -> &Arc<ConnectionSlot> {
        &self.slot
    }

    /// Runs the connection's work; `None` when the connection was evicted.
    pub(super) async fn unless_evicted<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        self.slot.unless_evicted(work).await
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.table.release(self.client, &self.slot);
    }
}

/// The client of an address: a single IPv4 address (NAT already puts many users behind one), or an IPv6 /56, which is
/// what a customer gets (RFC 6177 2).
pub(crate) fn client_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None if v6.is_loopback() => address,
            None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !(u128::MAX >> 56))),
        },
    }
}

#[cfg(test)]
mod tests;
