//! Bytes of memory that all connections hold together, and each client of them.

use super::connection_table::{ConnectionPermit, ConnectionSlot};
use super::handler::ConnectionLimits;
use crate::limits::CONNECTION_MEMORY_FREE_BYTES;
use crate::metrics::Gauge;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;

/// Bytes of a common bound.
pub(crate) struct MemoryBudget {
    used: Gauge,
    max: AtomicUsize,
}

impl MemoryBudget {
    pub(super) fn new(max: usize) -> Self {
        Self { used: Gauge::default(), max: AtomicUsize::new(max) }
    }

    /// Changes the bound. MemoryBudget that is already in use stays in use.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Relaxed);
    }

    /// Whether more than three of four are used.
    pub(super) fn is_nearly_full(&self) -> bool {
        let max = self.max.load(Relaxed);
        self.used.get() > (max - max.div_ceil(4)) as u64
    }

    /// Takes bytes for a client, unless it would hold more than it leaves. So nobody is counted out while half of them
    /// are free; and however many take all that they can, something is left for whoever comes next.
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

    /// Gives bytes of a client back.
    pub(super) fn release(&self, client: &Gauge, bytes: usize) {
        client.take(bytes);
        self.used.take(bytes);
    }

    /// Bytes that are used now.
    pub(super) fn used(&self) -> usize {
        self.used.get() as usize
    }
}

/// Bytes of messages that one connection holds of the common memory; given back when dropped.
pub(crate) struct MemoryReservation {
    memory: Arc<MemoryBudget>,
    client: Arc<Gauge>,
    slot: Arc<ConnectionSlot>,
    reserved: usize,
}

impl MemoryReservation {
    /// That of a connection in this place; none yet.
    pub(super) fn new(limits: &ConnectionLimits, place: &ConnectionPermit) -> Self {
        let (memory, client, slot) = (limits.memory.clone(), place.bytes().clone(), place.slot().clone());
        Self { memory, client, slot, reserved: 0 }
    }

    /// Takes note that the client asks for something, or takes it: when all places are used, idle connections make
    /// room first.
    pub(super) fn record_activity(&self, now: Instant) {
        self.slot.record_activity(now.into_std());
    }

    /// Says how much the connection holds now; false when all of them together would hold too much, or its client. Few
    /// bytes are free, so that what is usual touches no memory that other threads write.
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
    use crate::config::Tcp;

    /// A bound that is soon reached.
    pub(in crate::listen) const MAX: usize = 1 << 20;

    /// The limits with that bound.
    pub(in crate::listen) fn limits() -> ConnectionLimits {
        ConnectionLimits::new(&Tcp { memory_bytes_max: MAX, ..Tcp::default() }, &[])
    }

    /// That of a connection of this client.
    pub(in crate::listen) fn share(limits: &ConnectionLimits, client: &str) -> MemoryReservation {
        MemoryReservation::new(limits, &limits.connections.acquire(client.parse().unwrap()).unwrap())
    }

    #[test]
    fn memory_is_shared_and_comes_back() {
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
    fn no_client_holds_more_than_it_leaves() {
        let limits = limits();
        // As much as it can, byte by byte, over as many connections as it likes.
        let fill = |client: &str| -> (Vec<MemoryReservation>, usize) {
            let mut shares = Vec::new();
            let mut sum = 0;
            while let Some(share) = limits.connections.acquire(client.parse().unwrap()).and_then(|place| {
                let mut share = MemoryReservation::new(&limits, &place);
                share.set(CONNECTION_MEMORY_FREE_BYTES + 1_024).then_some(share)
            }) {
                // Its place is given back: those it may have are another limit.
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
        assert_eq!(sum, MAX / 4, "of what the first has left");
        assert!(fill("2001:db8::2").0.is_empty(), "the same /56");
        assert!(share(&limits, "198.51.100.1").set(MAX / 8), "another");
        assert!(!limits.memory.is_nearly_full());
        drop((first, second));
        assert_eq!(limits.memory.used(), 0);
        assert_eq!(fill("192.0.2.1").1, MAX / 2);
    }
}
