//! Limits the connections to the API, in total and for each client.
//!
//! At a limit, the connection that has been idle longest is closed, and the new one is accepted. So idle connections
//! cannot block other clients. A connection with an active request is never closed for another one.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// All connections of one listener.
pub(super) struct Connections {
    open: Mutex<Open>,
    total_max: usize,
    per_client_max: usize,
    /// Time without traffic after which a connection counts as idle.
    idle_ms_min: u64,
    started_at: Instant,
}

#[derive(Default)]
struct Open {
    next: u64,
    active: BTreeMap<u64, Arc<Activity>>,
}

/// The activity of one connection.
pub(super) struct Activity {
    client: IpAddr,
    /// Milliseconds from the start to the last byte in either direction.
    last_ms: AtomicU64,
    /// Active requests.
    requests: AtomicU32,
    evicted: Notify,
    started_at: Instant,
}

/// Permission for one connection; released when dropped.
pub(super) struct ConnectionPermit {
    connections: Arc<Connections>,
    number: u64,
    pub(super) activity: Arc<Activity>,
}

/// An active request. Until it is dropped, its connection is not idle.
pub(super) struct ActiveRequest(Arc<Activity>);

impl Connections {
    pub(super) fn new(total_max: usize, per_client_max: usize, idle_ms_min: u64) -> Arc<Self> {
        let (open, started_at) = (Mutex::default(), Instant::now());
        Arc::new(Self { open, total_max, per_client_max, idle_ms_min, started_at })
    }

    /// Admits a connection from `address`. `None` at a limit, if no other connection is idle.
    pub(super) fn acquire(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        self.acquire_for(address, self.idle_ms_min)
    }

    /// The same, but every connection without a request counts as idle.
    pub(super) fn acquire_at_once(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        self.acquire_for(address, 0)
    }

    fn acquire_for(self: &Arc<Self>, address: IpAddr, idle_ms_min: u64) -> Option<ConnectionPermit> {
        let client = client_of(address);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let idle_since_ms = (self.started_at.elapsed().as_millis() as u64).checked_sub(idle_ms_min);
        let own = open.active.values().filter(|connection| connection.client == client).count();
        if own >= self.per_client_max {
            open.evict(idle_since_ms?, |connection| connection.client == client)?;
        } else if open.active.len() >= self.total_max {
            open.evict(idle_since_ms?, |_| true)?;
        }
        let activity = Arc::new(Activity {
            client,
            last_ms: AtomicU64::new(0),
            requests: AtomicU32::new(0),
            evicted: Notify::new(),
            started_at: self.started_at,
        });
        activity.touch();
        let number = open.next;
        open.next += 1;
        open.active.insert(number, activity.clone());
        Some(ConnectionPermit { connections: self.clone(), number, activity })
    }

    fn release(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).active.remove(&number);
    }
}

impl Open {
    /// Closes the connection among some that has been idle longest. `None` if none has been idle since that time.
    fn evict(&mut self, since_ms: u64, among: impl Fn(&Activity) -> bool) -> Option<()> {
        let is_idle = |connection: &Activity| {
            connection.requests.load(Relaxed) == 0 && connection.last_ms.load(Relaxed) <= since_ms
        };
        let idle = self.active.iter().filter(|(_, connection)| is_idle(connection) && among(connection));
        let (&number, _) = idle.min_by_key(|(number, connection)| (connection.last_ms.load(Relaxed), **number))?;
        // Released here, not when its task ends, so that the limit always holds.
        let connection = self.active.remove(&number)?;
        connection.evicted.notify_one();
        Some(())
    }
}

impl Activity {
    /// Records traffic.
    pub(super) fn touch(&self) {
        self.last_ms.store(self.started_at.elapsed().as_millis() as u64, Relaxed);
    }

    /// Begins a request.
    pub(super) fn begin(self: &Arc<Self>) -> ActiveRequest {
        self.requests.fetch_add(1, Relaxed);
        ActiveRequest(self.clone())
    }

    /// Returns when the connection must close because of a limit.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.touch();
        self.0.requests.fetch_sub(1, Relaxed);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.release(self.number);
    }
}

/// The client that a connection counts for: an IPv4 address, an IPv6 /64, or this machine.
fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire(connections: &Arc<Connections>, address: &str) -> Option<ConnectionPermit> {
        connections.acquire(address.parse().unwrap())
    }

    fn is_evicted(permit: &ConnectionPermit) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let wait = async { tokio::time::timeout(std::time::Duration::from_millis(1), permit.activity.evicted()).await };
        runtime.block_on(wait).is_ok()
    }

    /// `ms` is before now: both are counted from the start.
    fn idle_since(permit: &ConnectionPermit, ms: u64) {
        std::thread::sleep(std::time::Duration::from_millis(10));
        permit.activity.last_ms.store(ms, Relaxed);
    }

    #[test]
    fn at_the_client_limit_its_idlest_connection_is_closed() {
        let connections = Connections::new(8, 2, 0);
        let [first, second] = [(); 2].map(|()| acquire(&connections, "192.0.2.1").unwrap());
        let other = acquire(&connections, "192.0.2.2").unwrap();
        idle_since(&first, 5);
        idle_since(&second, 4);
        idle_since(&other, 1);
        let third = acquire(&connections, "192.0.2.1").unwrap();
        assert!(is_evicted(&second) && !is_evicted(&first) && !is_evicted(&third) && !is_evicted(&other));
        drop(second);
        // Connections with active requests stay, so there is no permit.
        let busy = (first.activity.begin(), third.activity.begin());
        assert!(acquire(&connections, "192.0.2.1").is_none() && acquire(&connections, "192.0.2.2").is_some());
        drop(busy.0);
        assert!(acquire(&connections, "192.0.2.1").is_some() && is_evicted(&first));
    }

    #[test]
    fn a_new_connection_is_not_idle_yet() {
        let connections = Connections::new(1, 1, 60_000);
        let first = acquire(&connections, "192.0.2.1").unwrap();
        assert!(acquire(&connections, "192.0.2.1").is_none() && acquire(&connections, "192.0.2.2").is_none());
        assert!(!is_evicted(&first));
        let second = connections.acquire_at_once("192.0.2.2".parse().unwrap()).unwrap();
        assert!(is_evicted(&first));
        drop((first, second));
        assert!(acquire(&connections, "192.0.2.2").is_some());
    }

    #[test]
    fn at_the_total_limit_the_idlest_connection_is_closed() {
        let connections = Connections::new(3, 2, 0);
        let active: Vec<ConnectionPermit> =
            ["192.0.2.1", "192.0.2.2", "2001:db8::1"].iter().map(|one| acquire(&connections, one).unwrap()).collect();
        active.iter().zip([7, 3, 5]).for_each(|(permit, ms)| idle_since(permit, ms));
        let fourth = acquire(&connections, "192.0.2.9").unwrap();
        assert_eq!(active.iter().map(is_evicted).collect::<Vec<_>>(), [false, true, false]);
        drop(active);
        drop(fourth);
        let all: Vec<_> = (1..=9).map(|last| acquire(&connections, &format!("192.0.2.{last}")).unwrap()).collect();
        assert_eq!(connections.open.lock().unwrap().active.len(), 3);
        drop(all);
        assert!(connections.open.lock().unwrap().active.is_empty());
    }

    #[test]
    fn clients_are_addresses_networks_and_this_machine() {
        let of = |text: &str| client_of(text.parse().unwrap());
        assert_eq!(of("127.0.0.1"), of("127.3.4.5"));
        assert_eq!(of("127.0.0.1"), of("::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.2"), of("192.0.2.1"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
    }
}
