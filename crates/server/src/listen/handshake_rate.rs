//! Limits the rate of handshakes per client. A handshake costs the server a signature, and the client almost nothing.

use super::connection_table::client_of;
use crate::token_buckets::{Rate, TokenBuckets};
use config::Tcp;
use config::subnet::Subnet;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Counts handshakes of each client. A lock is cheap compared with a handshake.
pub(crate) struct HandshakeRate {
    buckets: Mutex<TokenBuckets>,
    rate: Option<Rate>,
    exempt: Vec<Subnet>,
    hashes: RandomState,
    started_at: Instant,
}

/// Whether the address of a client is validated. Claimed addresses have buckets of their own, so that forged ones take
/// nothing from the real owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Address {
    Claimed,
    Validated,
}

impl HandshakeRate {
    pub(crate) fn new(limits: &Tcp, exempt: &[Subnet]) -> Self {
        let (per_second, burst) = (limits.handshakes_per_second, limits.handshakes_burst);
        Self {
            buckets: Mutex::new(TokenBuckets::new()),
            rate: (per_second > 0).then(|| Rate::new(per_second.into(), burst.into())),
            exempt: exempt.to_vec(),
            hashes: RandomState::new(),
            started_at: Instant::now(),
        }
    }

    /// Counts one handshake; false when the client is over its limit.
    pub(crate) fn take(&self, client: IpAddr, address: Address) -> bool {
        self.take_at(client, address, self.started_at.elapsed().as_micros() as u64)
    }

    fn take_at(&self, client: IpAddr, address: Address, now_us: u64) -> bool {
        let Some(rate) = self.rate.filter(|_| !self.exempt.iter().any(|subnet| subnet.contains(client))) else {
            return true;
        };
        let key = self.hashes.hash_one((client_of(client), address));
        // A panic cannot leave the buckets half changed.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).take(key, rate, now_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_rate() {
        let limits = Tcp { handshakes_per_second: 10, handshakes_burst: 20, ..Tcp::default() };
        let exempt = ["127.0.0.0/8".parse().unwrap()];
        let rate = HandshakeRate::new(&limits, &exempt);
        let begun = |rate: &HandshakeRate, client: &str, address| {
            let client = client.parse().unwrap();
            // A thousand a second, for ten seconds.
            (0..10_000).filter(|step| rate.take_at(client, address, step * 1_000)).count()
        };
        let at_the_rate = 118..=121;
        assert!(at_the_rate.contains(&begun(&rate, "192.0.2.1", Address::Validated)));
        assert_eq!(begun(&rate, "127.0.0.1", Address::Validated), 10_000, "exempt");
        // Another address and a claimed one have buckets of their own; an IPv6 /56 is one client.
        assert!(at_the_rate.contains(&begun(&rate, "192.0.2.2", Address::Validated)));
        assert!(at_the_rate.contains(&begun(&rate, "192.0.2.1", Address::Claimed)));
        assert!(at_the_rate.contains(&begun(&rate, "2001:db8::1", Address::Validated)));
        assert!(!rate.take_at("2001:db8:0:ff::1".parse().unwrap(), Address::Validated, 9_999_000));
        let none = HandshakeRate::new(&Tcp { handshakes_per_second: 0, ..limits }, &[]);
        assert_eq!(begun(&none, "192.0.2.1", Address::Validated), 10_000);
    }
}
