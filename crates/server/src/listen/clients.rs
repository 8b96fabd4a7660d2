//! How many connections each client has (RFC 7766 6.2.2), over all transports that have connections, and what it takes
//! of memory.
//!
//! While there are free places nobody is counted out but by the limit of one client. When all are taken, a client that
//! has fewer than others gets in: the idlest connection of the client with the most is evicted. So however many
//! addresses an attacker has, none of them keeps more than any other client could have.

mod seat;

use crate::limits::{EVICTED_MAX, EVICTION_LOOK_MAX};
use crate::metrics::Gauge;
pub(super) use seat::Seat;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Counts connections, of all and of each client.
pub(crate) struct Clients {
    /// Places that are taken. Changed under the lock of the others, read by whoever asks how crowded it is.
    total: AtomicUsize,
    table: Mutex<Table>,
    connections_max: AtomicUsize,
    per_client_max: AtomicUsize,
    started_at: Instant,
}

/// Who has which places.
struct Table {
    of: HashMap<IpAddr, Client>,
    /// Clients that have places, by how many they have.
    by_count: BTreeSet<(usize, IpAddr)>,
    /// Connections that were evicted and have not ended yet.
    evicted_count: usize,
    /// Where the next search for an idle connection begins, among clients with as many and among places of one.
    next_client: IpAddr,
    next_place: usize,
}

/// What one of them has.
#[derive(Default)]
struct Client {
    seats: Vec<Arc<Seat>>,
    /// Those, and evicted ones that have not ended yet.
    alive_count: usize,
    bytes: Arc<Gauge>,
}

/// A connection's place; given back when dropped.
pub(crate) struct Place {
    clients: Arc<Clients>,
    client: IpAddr,
    seat: Arc<Seat>,
    bytes: Arc<Gauge>,
}

impl Clients {
    pub(crate) fn new(connections_max: usize, per_client_max: usize) -> Arc<Self> {
        let table = Table {
            of: HashMap::new(),
            by_count: BTreeSet::new(),
            evicted_count: 0,
            next_client: Ipv4Addr::UNSPECIFIED.into(),
            next_place: 0,
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

    /// Places that are taken.
    pub(crate) fn count(&self) -> usize {
        self.total.load(Relaxed)
    }

    /// Whether more than three of four places are taken.
    pub(crate) fn is_crowded(&self) -> bool {
        let max = self.connections_max.load(Relaxed);
        self.count() > max - max.div_ceil(4)
    }

    /// A place for a connection from `address`, if it may have one: that of another, if need be.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let client = client_of(address);
        let mut table = self.table();
        let own = table.of.get(&client).map_or(0, |own| own.seats.len());
        if own >= self.per_client_max.load(Relaxed) {
            return None;
        }
        match self.count() >= self.connections_max.load(Relaxed) {
            true if !table.evict_for(own) => return None,
            true => {}
            false => drop(self.total.fetch_add(1, Relaxed)),
        }
        let seat = Arc::new(Seat::new(self.started_at, own));
        let theirs = table.of.entry(client).or_default();
        theirs.seats.push(seat.clone());
        theirs.alive_count += 1;
        let bytes = theirs.bytes.clone();
        table.recount(client, own, own + 1);
        Some(Place { clients: self.clone(), client, seat, bytes })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, client: IpAddr, seat: &Arc<Seat>) {
        let mut table = self.table();
        let Some(theirs) = table.of.get_mut(&client) else { return };
        theirs.alive_count -= 1;
        let (count, is_gone) = (theirs.seats.len(), theirs.alive_count == 0);
        if seat.is_evicted() {
            table.evicted_count -= 1;
        } else {
            theirs.take_out(seat.index());
            table.recount(client, count, count - 1);
            self.total.fetch_sub(1, Relaxed);
        }
        if is_gone {
            table.of.remove(&client);
        }
    }
}

impl Client {
    /// Takes one out; the last one takes its place in the list.
    fn take_out(&mut self, index: usize) -> Arc<Seat> {
        let seat = self.seats.swap_remove(index);
        if let Some(moved) = self.seats.get(index) {
            moved.set_index(index);
        }
        seat
    }
}

impl Table {
    fn recount(&mut self, client: IpAddr, from: usize, to: usize) {
        self.by_count.remove(&(from, client));
        if to > 0 {
            self.by_count.insert((to, client));
        }
    }

    /// Frees a place for a client that has so many; false when nobody has more than it would have then. One that has
    /// none always gets in.
    fn evict_for(&mut self, own: usize) -> bool {
        let Some(&(most, _)) = self.by_count.last() else { return false };
        // The other must not be left with fewer than the newcomer gets: otherwise two would take turns for ever.
        if (own > 0 && own + 1 >= most) || self.evicted_count >= EVICTED_MAX {
            return false;
        }
        let Some((client, index)) = self.idlest(most) else { return false };
        let Some(theirs) = self.of.get_mut(&client) else { return false };
        theirs.take_out(index).evict();
        self.recount(client, most, most - 1);
        self.evicted_count += 1;
        true
    }

    /// The place whose connection was idle for the longest time, among some of the clients with the most. The next
    /// search goes on behind this one, so that all are looked at in time.
    fn idlest(&mut self, most: usize) -> Option<(IpAddr, usize)> {
        let behind = self.by_count.range((most, self.next_client)..);
        let clients = behind.chain(self.by_count.range((most, Ipv4Addr::UNSPECIFIED.into())..(most, self.next_client)));
        let (of, first) = (&self.of, self.next_place);
        let places = clients.flat_map(|(_, client)| {
            let seats = of.get(client).map_or(&[][..], |theirs| &theirs.seats);
            let indices = (0..seats.len()).map(move |index| (first + index) % seats.len());
            indices.map(move |index| (seats[index].active_ms(), *client, index))
        });
        let looked_at = places.take(EVICTION_LOOK_MAX);
        let mut last = self.next_client;
        let found = looked_at.inspect(|(_, client, _)| last = *client).min_by_key(|(active_ms, ..)| *active_ms);
        self.next_client = last;
        self.next_place = self.next_place.wrapping_add(EVICTION_LOOK_MAX);
        found.map(|(_, client, index)| (client, index))
    }
}

impl Place {
    /// What all connections of its client take of memory.
    pub(super) const fn bytes(&self) -> &Arc<Gauge> {
        &self.bytes
    }

    /// What is known of how idle it is.
    pub(super) const fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    /// Does the connection's work; `None` when its place was given to another.
    pub(super) async fn unless_evicted<T>(&self, work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        self.seat.unless_evicted(work).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clients.leave(self.client, &self.seat);
    }
}

/// Who an address belongs to: an address of IPv4 is one client (a /32: many share one behind a translator as it is), of
/// IPv6 a /56, which is what a customer is given (RFC 6177 2).
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
