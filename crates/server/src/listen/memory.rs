//! The memory of all connections, and of each client.

use super::connection_table::{ConnectionPermit, ConnectionSlot};
use crate::metrics::Gauge;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;

/// Bytes of queued messages that the fixed estimate of a connection includes.
pub(super) const CONNECTION_MEMORY_FREE_BYTES: usize = 4 << 10;

/// The memory limit of all connections.
pub(crate) struct MemoryBudget {
    used: Gauge,
    max: AtomicUsize,
}

impl MemoryBudget {
    pub(super) fn new(max: usize) -> Self {
        Self { used: Gauge::default(), max: AtomicUsize::new(max) }
    }

    /// Changes the limit. Memory in use stays in use.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Relaxed);
    }

    /// Whether more than three quarters are in use.
    pub(super) fn is_nearly_full(&self) -> bool {
        let max = self.max.load(Relaxed);
        self.used.get() > (max - max.div_ceil(4)) as u64
    }

    /// Reserves bytes for a client, unless it would then use more than remains free. So no client can use up all
    /// memory: the next client always finds some.
    pub(super) fn reserve(&self, client: &Gauge, bytes: usize) -> bool {
        let max = self.max.load(Relaxed);
        let left = max.saturating_sub(self.used.get() as usize).saturating_sub(bytes);
        if !client.put(bytes, left) {
            return false;
        }
        let is_granted = self.used.put(bytes, max);
        if !is_granted {
            client.take(bytes);
        }
        is_granted
    }

    /// Releases bytes of a client.
    pub(super) fn release(&self, client: &Gauge, bytes: usize) {
        client.take(bytes);
        self.used.take(bytes);
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> usize {
        self.used.get() as usize
    }
}

/// Memory of the messages of one connection. Dropping it releases the memory.
pub(crate) struct MemoryReservation {
    memory: Arc<MemoryBudget>,
    client: Arc<Gauge>,
    slot: Arc<ConnectionSlot>,
    reserved: usize,
}

impl MemoryReservation {
    /// The reservation of a new connection; empty.
    pub(super) fn new(memory: &Arc<MemoryBudget>, permit: &ConnectionPermit) -> Self {
        let (memory, client, slot) = (memory.clone(), permit.bytes().clone(), permit.slot().clone());
        Self { memory, client, slot, reserved: 0 }
    }

    /// Records that the client sent or read something. The most idle connections are evicted first.
    pub(super) fn record_activity(&self, now: Instant) {
        self.slot.record_activity(now.into_std());
    }

    /// Sets the memory of the connection; false when that exceeds a limit. A few bytes are free, so that most
    /// connections touch no shared counter.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(CONNECTION_MEMORY_FREE_BYTES);
        if wanted > self.reserved && !self.memory.reserve(&self.client, wanted - self.reserved) {
            return false;
        }
        if wanted < self.reserved {
            self.memory.release(&self.client, self.reserved - wanted);
        }
        self.reserved = wanted;
        true
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if self.reserved > 0 {
            self.memory.release(&self.client, self.reserved);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::listen::handler::ConnectionLimits;
    use config::Tcp;

    /// A small limit.
    pub(in crate::listen) const MAX: usize = 1 << 20;

    /// Limits with that memory limit.
    pub(in crate::listen) fn limits() -> ConnectionLimits {
        ConnectionLimits::new(&Tcp { memory_bytes_max: MAX, ..Tcp::default() }, &[])
    }

    /// The reservation of a connection of this client.
    pub(in crate::listen) fn share(limits: &ConnectionLimits, client: &str) -> MemoryReservation {
        MemoryReservation::new(&limits.memory, &limits.connections.acquire(client.parse().unwrap()).unwrap())
    }

    #[test]
    fn memory_is_shared_and_released() {
        const HALF: usize = MAX / 2 + CONNECTION_MEMORY_FREE_BYTES;
        let limits = limits();
        let (mut one, mut other) = (share(&limits, "192.0.2.1"), share(&limits, "192.0.2.2"));
        assert!(one.set(CONNECTION_MEMORY_FREE_BYTES));
        assert_eq!(limits.memory.used(), 0, "a little is free");
        assert!(one.set(HALF));
        assert!(!limits.memory.is_nearly_full());
        assert!(other.set(HALF / 2) && !limits.memory.is_nearly_full());
        assert!(!other.set(HALF), "all of it would be used");
        assert!(one.set(CONNECTION_MEMORY_FREE_BYTES + 10));
        assert!(other.set(HALF - 10));
        drop((one, other));
        assert_eq!(limits.memory.used(), 0);
    }

    #[test]
    fn no_client_uses_more_memory_than_it_leaves() {
        let limits = limits();
        // Reserves as much as it can, in small steps over many connections.
        let fill = |client: &str| -> (Vec<MemoryReservation>, usize) {
            let mut shares = Vec::new();
            let mut sum = 0;
            while let Some(share) = limits.connections.acquire(client.parse().unwrap()).and_then(|permit| {
                let mut share = MemoryReservation::new(&limits.memory, &permit);
                share.set(CONNECTION_MEMORY_FREE_BYTES + 1_024).then_some(share)
            }) {
                // Its permit is released: the number of connections is another limit.
                shares.push(share);
                sum += 1_024;
            }
            (shares, sum)
        };
        let _keep = limits.connections.acquire("192.0.2.1".parse().unwrap()).unwrap();
        let (first, sum) = fill("192.0.2.1");
        assert_eq!(sum, MAX / 2);
        let _keep = limits.connections.acquire("2001:db8::1".parse().unwrap()).unwrap();
        let (second, sum) = fill("2001:db8:0:ff::1");
        assert_eq!(sum, MAX / 4, "half of what the first left");
        assert!(fill("2001:db8::2").0.is_empty(), "the same /56");
        assert!(share(&limits, "198.51.100.1").set(MAX / 8), "another");
        assert!(!limits.memory.is_nearly_full());
        drop((first, second));
        assert_eq!(limits.memory.used(), 0);
        assert_eq!(fill("192.0.2.1").1, MAX / 2);
    }
}
