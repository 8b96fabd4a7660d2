//! How many places of a queue each network has, or each key. While there is room enough nobody is counted out; from
//! half on none takes more than a share, so that what one sends, verified or not, leaves room for the others.

use crate::config::subnet::masked;
use crate::limits::SHARE_SLOTS;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of an address that are a network, as those of the rate limit: /24 and /56.
const PREFIXES: [u8; 2] = [24, 56];

/// Places by who has them. Those of one slot have one share: nobody can choose to be in another's, the hash is keyed.
#[derive(Debug)]
pub(crate) struct Shares {
    slots: Box<[AtomicU32]>,
    key: RandomState,
}

/// A place that is taken; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shares: Arc<Shares>,
    slot: usize,
}

impl Default for Shares {
    fn default() -> Self {
        Self { slots: (0..SHARE_SLOTS).map(|_| AtomicU32::new(0)).collect(), key: RandomState::new() }
    }
}

impl Shares {
    /// Takes a place; `false` when there are as many as `most` already. Without one nobody is counted out.
    pub(super) fn enter(&self, who: &impl Hash, most: Option<u32>) -> bool {
        self.enter_slot(self.slot(who), most)
    }

    /// Gives it back.
    pub(super) fn leave(&self, who: &impl Hash) {
        self.leave_slot(self.slot(who));
    }

    /// As [`Shares::enter`], for as long as what it gives is kept.
    pub(crate) fn place(self: &Arc<Self>, who: &impl Hash, most: Option<u32>) -> Option<Place> {
        let slot = self.slot(who);
        self.enter_slot(slot, most).then(|| Place { shares: self.clone(), slot })
    }

    fn enter_slot(&self, slot: usize, most: Option<u32>) -> bool {
        let add = |now: u32| now.checked_add(1).filter(|&sum| most.is_none_or(|most| sum <= most));
        self.slots[slot].fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn leave_slot(&self, slot: usize) {
        let before = self.slots[slot].fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0);
    }

    fn slot(&self, who: &impl Hash) -> usize {
        self.key.hash_one(who) as usize % self.slots.len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shares.leave_slot(self.slot);
    }
}

/// The network of an address: all of it has one share.
pub(super) fn network(address: IpAddr) -> IpAddr {
    let address = address.to_canonical();
    masked(address, PREFIXES[usize::from(address.is_ipv6())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::DESK_SHARE_MAX;

    #[test]
    fn a_network_has_its_share_when_it_is_crowded() {
        let shares = Shares::default();
        let flood = |last: u8| network(IpAddr::from([192, 0, 2, last]));
        let most = Some(DESK_SHARE_MAX);
        assert!((0..2 * DESK_SHARE_MAX).all(|number| shares.enter(&flood(number as u8), None)));
        assert!(!shares.enter(&flood(9), most), "another address of the network");
        (0..=DESK_SHARE_MAX).for_each(|number| shares.leave(&flood(number as u8)));
        assert!(shares.enter(&flood(9), most), "once it has less than its share");
        assert!(!shares.enter(&flood(9), most));
        // A network of another slot: with keys drawn at random one of these is.
        let others = (0..8).map(|number| network(IpAddr::from([198, 51, number, 1])));
        assert!(others.into_iter().any(|other| shares.enter(&other, most)));
        let same = |a: [u16; 8], b: [u16; 8]| network(a.into()) == network(b.into());
        assert!(same([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1], [0x2001, 0xdb8, 0, 0xff, 9, 9, 9, 9]), "one /56");
    }

    #[test]
    fn a_place_comes_back_when_it_is_dropped() {
        let shares = Arc::<Shares>::default();
        let places: Vec<Place> = (0..3).map_while(|_| shares.place(&"key", Some(2))).collect();
        assert_eq!(places.len(), 2);
        drop(places);
        assert!(shares.place(&"key", Some(1)).is_some() && shares.place(&"key", Some(1)).is_some());
    }
}
