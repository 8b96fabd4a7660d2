//! How many connections each client has (RFC 7766 6.2.2), over all transports that have connections, and what it takes
//! of memory.

use crate::metrics::Gauge;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Counts connections, of all and of each client.
pub(crate) struct Clients {
    /// Places that are taken. Changed under the lock of the others, read by whoever asks how crowded it is.
    total: AtomicUsize,
    of: Mutex<HashMap<IpAddr, Client>>,
    connections_max: usize,
    per_client_max: usize,
}

/// What one of them has.
#[derive(Default)]
struct Client {
    count: usize,
    octets: Arc<Gauge>,
}

/// A connection's place; given back when dropped.
pub(crate) struct Place {
    clients: Arc<Clients>,
    client: IpAddr,
    octets: Arc<Gauge>,
}

impl Clients {
    pub(crate) fn new(connections_max: usize, per_client_max: usize) -> Arc<Self> {
        Arc::new(Self { total: AtomicUsize::new(0), of: Mutex::default(), connections_max, per_client_max })
    }

    /// Places that are taken.
    pub(crate) fn count(&self) -> usize {
        self.total.load(Relaxed)
    }

    /// Whether more than three of four places are taken.
    pub(crate) fn is_crowded(&self) -> bool {
        self.count() > self.connections_max - self.connections_max.div_ceil(4)
    }

    /// A place for a connection from `address`, if it may have one.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let client = client_of(address);
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let own = of.get(&client).map_or(0, |own| own.count);
        if self.count() >= self.connections_max || own >= self.per_client_max {
            return None;
        }
        self.total.fetch_add(1, Relaxed);
        let own = of.entry(client).or_default();
        own.count += 1;
        Some(Place { clients: self.clone(), client, octets: own.octets.clone() })
    }
}

impl Place {
    /// What all connections of its client take of memory.
    pub(super) const fn octets(&self) -> &Arc<Gauge> {
        &self.octets
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut of = self.clients.of.lock().unwrap_or_else(PoisonError::into_inner);
        self.clients.total.fetch_sub(1, Relaxed);
        if let Some(own) = of.get_mut(&self.client) {
            own.count -= 1;
            if own.count == 0 {
                of.remove(&self.client);
            }
        }
    }
}

/// Who an address belongs to: an address of IPv4 is one client (a /32: many share one behind a translator as it is), of
/// IPv6 a /56, which is what a customer is given (RFC 6177 2).
pub(super) fn client_of(address: IpAddr) -> IpAddr {
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
mod tests {
    use super::*;

    #[test]
    fn both_limits_hold_and_places_come_back() {
        let clients = Clients::new(3, 2);
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = clients.enter(ip("2001:db8::1")).unwrap();
        let _second = clients.enter(ip("2001:db8:0:ff::2")).unwrap();
        assert!(clients.enter(ip("2001:db8:0:12::3")).is_none(), "the same /56");
        assert!(!clients.is_crowded(), "two of three");
        let _third = clients.enter(ip("192.0.2.1")).unwrap();
        assert!(clients.is_crowded());
        assert!(clients.enter(ip("192.0.2.2")).is_none(), "three in all");
        drop(first);
        assert!(clients.enter(ip("192.0.2.2")).is_some());
        assert_eq!((clients.of.lock().unwrap().len(), clients.count()), (2, 2));
    }
}
