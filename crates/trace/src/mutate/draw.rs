//! Stateless random draws: the same seed and input give the same number.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;

/// Purpose of a draw. Draws for different purposes are independent.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Whether a rule applies to a message.
    Rule,
    /// The transport.
    Transport,
    /// Whether to set DO.
    DnssecOk,
    /// The client.
    Client,
    /// A cookie.
    Cookie,
    /// An ID.
    Id,
}

/// The draws of a seed for one rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    seed: u64,
    rule: u64,
}

impl Draws {
    pub(super) const fn new(seed: u64, rule: usize) -> Self {
        Self { seed, rule: rule as u64 }
    }

    fn hasher(self, purpose: Purpose) -> SipHasher13 {
        SipHasher13::new_with_keys(self.seed, self.rule << 8 | purpose as u64)
    }

    /// Draws a number for an address.
    pub(super) fn by_address(self, purpose: Purpose, address: IpAddr) -> u64 {
        let mut hasher = self.hasher(purpose);
        match address {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.finish()
    }

    /// Draws a number for a number.
    pub(super) fn by_number(self, purpose: Purpose, number: u64) -> u64 {
        let mut hasher = self.hasher(purpose);
        hasher.write_u64(number);
        hasher.finish()
    }
}

/// Converts a draw to a number from 0 (inclusive) to 1 (exclusive).
pub(super) fn unit(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}

/// Converts a draw to a number below `count`.
pub(super) fn scale(draw: u64, count: u128) -> u128 {
    // 2^64 values are enough, even for prefixes with more hosts.
    (u128::from(draw) * count.min(1 << 64)) >> 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_and_differ_by_purpose_rule_and_seed() {
        let draws = Draws::new(1, 0);
        let share = (0..10_000).filter(|&number| unit(draws.by_number(Purpose::Rule, number)) < 0.3).count();
        assert!((2_850..3_150).contains(&share), "{share}");
        let mut below_ten = [0; 10];
        (0..10_000).for_each(|number| below_ten[scale(draws.by_number(Purpose::Client, number), 10) as usize] += 1);
        assert!(below_ten.iter().all(|count| (850..1_150).contains(count)), "{below_ten:?}");
        let first = draws.by_number(Purpose::Rule, 7);
        assert_eq!(first, Draws::new(1, 0).by_number(Purpose::Rule, 7));
        assert!(![draws.by_number(Purpose::Id, 7), Draws::new(2, 0).by_number(Purpose::Rule, 7)].contains(&first));
        assert_ne!(first, Draws::new(1, 1).by_number(Purpose::Rule, 7));
        assert_eq!((scale(u64::MAX, 3), scale(u64::MAX, u128::MAX)), (2, u64::MAX.into()));
    }
}
