//! The slots for running transfers. When all are in use, a key with fewer transfers than others still gets one: the
//! slowest transfer of the key with the most is evicted. Clients that share a key share its slots in the same way.

use crate::limits::TRANSFERS_MAX;
use config::limits::TRANSFER_RATE_MIN;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use wire::Name;

/// The slots of a node.
#[derive(Default, Debug)]
pub(super) struct Slots(Mutex<SlotTable>);

#[derive(Default, Debug)]
struct SlotTable {
    slots: Vec<Arc<Slot>>,
    /// Transfers that were evicted and have not ended yet.
    evicted_count: usize,
}

/// One slot: its owner, and the progress of its transfer.
#[derive(Debug)]
pub(super) struct Slot {
    key: Name,
    /// The network of the client; see [`network`](crate::update_queue::fair_quota::network).
    client: IpAddr,
    started_at: Instant,
    sent_bytes: AtomicU64,
    is_evicted: AtomicBool,
}

impl Slot {
    /// Records the total bytes sent.
    pub(super) fn sent(&self, bytes: u64) {
        self.sent_bytes.store(bytes, Relaxed);
    }

    /// Whether the transfer was evicted.
    pub(super) fn is_evicted(&self) -> bool {
        self.is_evicted.load(Relaxed)
    }

    /// Bytes per second since the start. A transfer that has just started does not count as slow.
    fn rate(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.started_at).as_secs_f64();
        (self.sent_bytes.load(Relaxed) + TRANSFER_RATE_MIN) as f64 / elapsed.max(f64::EPSILON)
    }
}

impl Slots {
    /// Acquires a slot, evicting another transfer if needed; `None` when this key and client have their share.
    pub(super) fn acquire(&self, key: &Name, client: IpAddr, now: Instant) -> Option<Arc<Slot>> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.slots.len() >= TRANSFERS_MAX {
            // An evicted transfer ends at its next check. Until then it uses memory, so their number is limited too.
            if table.evicted_count >= TRANSFERS_MAX {
                return None;
            }
            let index = victim(&table.slots, key, client, now)?;
            table.slots.swap_remove(index).is_evicted.store(true, Relaxed);
            table.evicted_count += 1;
        }
        let (sent_bytes, is_evicted) = (AtomicU64::new(0), AtomicBool::new(false));
        let slot = Arc::new(Slot { key: key.clone(), client, started_at: now, sent_bytes, is_evicted });
        table.slots.push(slot.clone());
        Some(slot)
    }

    /// Releases a slot.
    pub(super) fn release(&self, slot: &Arc<Slot>) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match table.slots.iter().position(|other| Arc::ptr_eq(other, slot)) {
            Some(index) => drop(table.slots.swap_remove(index)),
            None => table.evicted_count -= 1,
        }
    }

    /// Transfers in progress, including evicted ones that have not ended yet.
    pub(super) fn count(&self) -> usize {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.slots.len() + table.evicted_count
    }
}

/// The slot that a transfer of this key and client may take over.
fn victim(slots: &[Arc<Slot>], key: &Name, client: IpAddr, now: Instant) -> Option<usize> {
    let of_key = |key: &Name| slots.iter().filter(|slot| slot.key == *key).count();
    let of_client = |key: &Name, client| slots.iter().filter(|slot| slot.key == *key && slot.client == client).count();
    // The other must not end up with fewer. Otherwise two clients would evict each other forever.
    let richest = slots.iter().map(|slot| &slot.key).max_by_key(|key| of_key(key))?;
    let from = if of_key(key) + 1 < of_key(richest) { richest } else { key };
    let busiest = slots.iter().filter(|slot| slot.key == *from).max_by_key(|slot| of_client(from, slot.client))?.client;
    if from == key && of_client(key, client) + 1 >= of_client(key, busiest) {
        return None;
    }
    let theirs = slots.iter().enumerate().filter(|(_, slot)| slot.key == *from && slot.client == busiest);
    theirs.min_by(|(_, one), (_, other)| one.rate(now).total_cmp(&other.rate(now))).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn client(last: u8) -> IpAddr {
        IpAddr::from([192, 0, last, 0])
    }

    /// All slots, used by one key.
    fn full(slots: &Slots, now: Instant, client_of: impl Fn(usize) -> IpAddr) -> Vec<Arc<Slot>> {
        (0..TRANSFERS_MAX).map(|index| slots.acquire(&key("greedy."), client_of(index), now).unwrap()).collect()
    }

    #[test]
    fn the_slowest_transfer_of_the_key_with_the_most_is_evicted() {
        let (slots, start) = (Slots::default(), Instant::now());
        let greedy = full(&slots, start, |_| client(1));
        greedy.iter().enumerate().for_each(|(index, slot)| slot.sent(if index == 5 { 10 } else { 1_000_000 }));
        let now = start + Duration::from_secs(100);
        assert!(slots.acquire(&key("greedy."), client(1), now).is_none(), "it has all slots");
        let other = slots.acquire(&key("other."), client(2), now).unwrap();
        assert!(greedy[5].is_evicted() && greedy.iter().filter(|slot| slot.is_evicted()).count() == 1);
        assert_eq!(slots.count(), TRANSFERS_MAX + 1, "the evicted one has not ended");
        slots.release(&greedy[5]);
        slots.release(&other);
        assert_eq!(slots.count(), TRANSFERS_MAX - 1);
    }

    #[test]
    fn keys_end_up_with_equal_shares_and_stop_evicting_each_other() {
        let (slots, now) = (Slots::default(), Instant::now());
        let _greedy = full(&slots, now, |_| client(1));
        let more = std::iter::from_fn(|| slots.acquire(&key("other."), client(2), now)).take(100);
        assert_eq!(more.collect::<Vec<_>>().len(), TRANSFERS_MAX / 2);
        assert!(slots.acquire(&key("greedy."), client(1), now).is_none());
        assert!(slots.acquire(&key("other."), client(2), now).is_none());
    }

    #[test]
    fn clients_of_one_key_share_its_slots() {
        let (slots, now) = (Slots::default(), Instant::now());
        let shared = full(&slots, now, |index| client(u8::from(index < 3)));
        let other = slots.acquire(&key("greedy."), client(9), now);
        assert!(other.is_some());
        assert!(shared[..3].iter().all(|slot| !slot.is_evicted()), "the client with the most loses one");
    }

    #[test]
    fn evicted_transfers_that_have_not_ended_are_bounded() {
        let (slots, now) = (Slots::default(), Instant::now());
        let mut greedy = full(&slots, now, |_| client(1));
        for number in 0..2 * TRANSFERS_MAX {
            // A transfer of another key evicts one and ends. The greedy key takes the free slot, and its evicted
            // transfers go on.
            if let Some(slot) = slots.acquire(&key(&format!("k{number}.")), client(2), now) {
                slots.release(&slot);
                greedy.extend(slots.acquire(&key("greedy."), client(1), now));
            }
        }
        assert_eq!(slots.count(), 2 * TRANSFERS_MAX);
    }
}
