//! Draws that are the same for the same seed: numbers made of what is drawn for, without a state.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;

/// What a number is drawn for, so that no draw tells of another.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// Whether a rule is for a message.
    Rule,
    /// Which transport.
    Transport,
    /// Whether DNSSEC is wanted.
    DnssecOk,
    /// Which client.
    Client,
    /// A cookie.
    Cookie,
    /// An ID.
    Id,
}

/// Numbers of a seed, for one rule.
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

    /// A number for an address.
    pub(super) fn by_address(self, purpose: Purpose, address: IpAddr) -> u64 {
        let mut hasher = self.hasher(purpose);
        match address {
            IpAddr::V4(address) => hasher.write(&address.octets()),
            IpAddr::V6(address) => hasher.write(&address.octets()),
        }
        hasher.finish()
    }

    /// A number for a number.
    pub(super) fn by_number(self, purpose: Purpose, number: u64) -> u64 {
        let mut hasher = self.hasher(purpose);
        hasher.write_u64(number);
        hasher.finish()
    }
}

/// A drawn number as one from 0 up to, and not, 1.
pub(super) fn unit(drawn: u64) -> f64 {
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}

/// A drawn number as one below `count`.
pub(super) fn below(drawn: u64, count: u128) -> u128 {
    // Of 2^64 equal parts as many for each; prefixes of more hosts have enough with so many.
    (u128::from(drawn) * count.min(1 << 64)) >> 64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_and_told_apart_by_purpose_rule_and_seed() {
        let draws = Draws::new(1, 0);
        let share = (0..10_000).filter(|&number| unit(draws.by_number(Purpose::Rule, number)) < 0.3).count();
        assert!((2_850..3_150).contains(&share), "{share}");
        let mut below_ten = [0; 10];
        (0..10_000).for_each(|number| below_ten[below(draws.by_number(Purpose::Client, number), 10) as usize] += 1);
        assert!(below_ten.iter().all(|count| (850..1_150).contains(count)), "{below_ten:?}");
        let first = draws.by_number(Purpose::Rule, 7);
        assert_eq!(first, Draws::new(1, 0).by_number(Purpose::Rule, 7));
        assert!(![draws.by_number(Purpose::Id, 7), Draws::new(2, 0).by_number(Purpose::Rule, 7)].contains(&first));
        assert_ne!(first, Draws::new(1, 1).by_number(Purpose::Rule, 7));
        assert_eq!((below(u64::MAX, 3), below(u64::MAX, u128::MAX)), (2, u64::MAX.into()));
    }
}
