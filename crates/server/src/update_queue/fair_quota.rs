//! Fair shares of a queue for networks or keys. Shares apply only while the queue is at least half full. Then no
//! sender, verified or not, can take the space of the others.

use crate::limits::QUOTA_SLOTS;
use config::subnet::masked;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Prefix lengths of a network, as for the rate limit: /24 and /56.
const PREFIXES: [u8; 2] = [24, 56];

/// Used permits, counted in hashed slots. Keys in one slot share a quota. The hash is keyed, so a client cannot choose
/// its slot.
#[derive(Debug)]
pub(crate) struct FairQuota {
    slots: Box<[AtomicU32]>,
    hasher: RandomState,
}

/// A permit in use. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct QuotaPermit {
    quota: Arc<FairQuota>,
    slot: usize,
}

impl Default for FairQuota {
    fn default() -> Self {
        Self { slots: (0..QUOTA_SLOTS).map(|_| AtomicU32::new(0)).collect(), hasher: RandomState::new() }
    }
}

impl FairQuota {
    /// Takes a permit; `false` when `max` are in use. Without `max` there is no limit.
    pub(crate) fn acquire(&self, key: &impl Hash, max: Option<u32>) -> bool {
        self.acquire_slot(self.slot(key), max)
    }

    /// Releases a permit.
    pub(crate) fn release(&self, key: &impl Hash) {
        self.release_slot(self.slot(key));
    }

    /// As [`FairQuota::acquire`]; the permit is released when it is dropped.
    pub(crate) fn permit(self: &Arc<Self>, key: &impl Hash, max: Option<u32>) -> Option<QuotaPermit> {
        let slot = self.slot(key);
        self.acquire_slot(slot, max).then(|| QuotaPermit { quota: self.clone(), slot })
    }

    fn acquire_slot(&self, slot: usize, max: Option<u32>) -> bool {
        let add = |now: u32| now.checked_add(1).filter(|&sum| max.is_none_or(|max| sum <= max));
        self.slots[slot].fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn release_slot(&self, slot: usize) {
        let before = self.slots[slot].fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0);
    }

    fn slot(&self, key: &impl Hash) -> usize {
        self.hasher.hash_one(key) as usize % self.slots.len()
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        self.quota.release_slot(self.slot);
    }
}

/// The network of an address, which has one share.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    masked(address, PREFIXES[usize::from(address.is_ipv6())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::UPDATE_QUEUE_PER_NETWORK_MAX;

    #[test]
    fn a_network_is_limited_when_the_queue_is_crowded() {
        let quota = FairQuota::default();
        let flood = |last: u8| network(IpAddr::from([192, 0, 2, last]));
        let max = Some(UPDATE_QUEUE_PER_NETWORK_MAX);
        assert!((0..2 * UPDATE_QUEUE_PER_NETWORK_MAX).all(|number| quota.acquire(&flood(number as u8), None)));
        assert!(!quota.acquire(&flood(9), max), "another address of the network");
        (0..=UPDATE_QUEUE_PER_NETWORK_MAX).for_each(|number| quota.release(&flood(number as u8)));
        assert!(quota.acquire(&flood(9), max), "once it has less than its share");
        assert!(!quota.acquire(&flood(9), max));
        // Of eight networks, at least one uses another slot.
        let others = (0..8).map(|number| network(IpAddr::from([198, 51, number, 1])));
        assert!(others.into_iter().any(|other| quota.acquire(&other, max)));
        let same = |a: [u16; 8], b: [u16; 8]| network(a.into()) == network(b.into());
        assert!(same([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1], [0x2001, 0xdb8, 0, 0xff, 9, 9, 9, 9]), "one /56");
    }

    #[test]
    fn a_dropped_permit_is_released() {
        let quota = Arc::<FairQuota>::default();
        let permits: Vec<QuotaPermit> = (0..3).map_while(|_| quota.permit(&"key", Some(2))).collect();
        assert_eq!(permits.len(), 2);
        drop(permits);
        assert!(quota.permit(&"key", Some(1)).is_some() && quota.permit(&"key", Some(1)).is_some());
    }
}
