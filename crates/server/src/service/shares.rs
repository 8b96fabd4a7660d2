//! How many places of a queue each network has. While there is room enough nobody is counted out; from half on a
//! network takes no more than a share, so that what one sends, verified or not, leaves room for the others.

use crate::config::subnet::masked;
use crate::limits::{DESK_SHARE_MAX, DESK_SHARES};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Octets of an address that are a network, as those of the rate limit: /24 and /56.
const PREFIXES: [u8; 2] = [24, 56];

/// Places by network. Networks of one slot have one share: nobody can choose to be in another's, the hash is keyed.
#[derive(Debug)]
pub(super) struct Shares {
    slots: Box<[AtomicU32]>,
    key: RandomState,
}

impl Default for Shares {
    fn default() -> Self {
        Self { slots: (0..DESK_SHARES).map(|_| AtomicU32::new(0)).collect(), key: RandomState::new() }
    }
}

impl Shares {
    /// Takes a place for an address; `false` when it is crowded and the network has its share.
    pub(super) fn enter(&self, address: IpAddr, is_crowded: bool) -> bool {
        let most = if is_crowded { DESK_SHARE_MAX } else { u32::MAX };
        let add = |now: u32| now.checked_add(1).filter(|&sum| sum <= most);
        self.slot(address).fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Gives it back.
    pub(super) fn leave(&self, address: IpAddr) {
        let before = self.slot(address).fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0);
    }

    fn slot(&self, address: IpAddr) -> &AtomicU32 {
        let address = address.to_canonical();
        let network = masked(address, PREFIXES[usize::from(address.is_ipv6())]);
        &self.slots[self.key.hash_one(network) as usize % self.slots.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_share_when_it_is_crowded() {
        let shares = Shares::default();
        let flood = |last: u8| IpAddr::from([192, 0, 2, last]);
        assert!((0..2 * DESK_SHARE_MAX).all(|number| shares.enter(flood(number as u8), false)));
        assert!(!shares.enter(flood(9), true), "another address of the network");
        (0..=DESK_SHARE_MAX).for_each(|number| shares.leave(flood(number as u8)));
        assert!(shares.enter(flood(9), true), "once it has less than its share");
        assert!(!shares.enter(flood(9), true));
        // A network of another slot: with keys drawn at random one of these is.
        let others = (0..8).map(|network| IpAddr::from([198, 51, network, 1]));
        assert!(others.into_iter().any(|other| shares.enter(other, true)));
        let same = |a: [u16; 8], b: [u16; 8]| std::ptr::eq(shares.slot(a.into()), shares.slot(b.into()));
        assert!(same([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1], [0x2001, 0xdb8, 0, 0xff, 9, 9, 9, 9]), "one /56");
    }
}
