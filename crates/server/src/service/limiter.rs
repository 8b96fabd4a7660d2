//! Limits how many responses go to one network over UDP, where anybody can claim any address: how many that are alike,
//! and how many in all.
//!
//! Alike are responses of one kind that are about the same name; all names that do not exist in a zone, all below one
//! delegation, and all that one wildcard makes are the same here, since whoever forges queries can make up names. Who
//! goes round names that exist meets the other limit, which is far higher: a network may have many resolvers.
//!
//! ```text
//!   exempt network, or a cookie that proves the address   -> not counted
//!   within both rates and bursts                          -> sent
//!   beyond, every `slip`th: the client sent a cookie      -> BADCOOKIE, with a cookie (RFC 7873 5.2.3)
//!                           it did not                    -> TC, so that it comes over TCP
//!   beyond, the others                                    -> nothing
//! ```
//!
//! Each worker counts for itself, with its share of the rate: no two write the same memory.

use crate::accounts::{Accounts, Rate};
use crate::config::rate_limit::RateLimit;
use crate::config::subnet::{Subnet, masked};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;
use wire::NameRef;
use zone::answer::AnswerKind;

/// What becomes of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It goes out.
    Send,
    /// A short one goes in its place.
    Slip,
    /// Nothing does.
    Drop,
}

/// What a worker limits with.
pub(crate) struct Limiter {
    accounts: Accounts,
    /// Of responses that are alike.
    alike: Rate,
    /// Of all that go to one network.
    all: Option<Rate>,
    /// So that nobody can make two responses collide on purpose.
    secret: [u8; 16],
    exempt: Vec<Subnet>,
    prefixes: [u8; 2],
    slip: u32,
    beyond_count: u32,
}

impl Limiter {
    /// For one of `workers`; `None` when there is no limit.
    pub(crate) fn new(config: &RateLimit, workers: usize, secret: [u8; 16]) -> Option<Self> {
        let rate = |per_second, burst| {
            let share = |whole| f64::from(whole) / workers as f64;
            (per_second > 0).then(|| Rate::new(share(per_second), share(burst)))
        };
        rate(config.per_second, config.burst).map(|alike| Self {
            accounts: Accounts::new(),
            alike,
            all: rate(config.all_per_second, config.all_burst),
            secret,
            exempt: config.exempt.clone(),
            prefixes: [config.ipv4_prefix, config.ipv6_prefix],
            slip: config.slip,
            beyond_count: 0,
        })
    }

    /// Whether this client's network is without a limit.
    pub(crate) fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.iter().any(|subnet| subnet.contains(address))
    }

    /// Counts a response of this kind about this name, or about all below it, at a time in microseconds.
    pub(crate) fn judge(
        &mut self,
        address: IpAddr,
        kind: AnswerKind,
        name: Option<NameRef<'_>>,
        now_us: u64,
    ) -> Verdict {
        let mut hasher = self.hasher_of(address);
        let network = hasher.finish();
        let is_within = self.accounts.take(key_of(&mut hasher, kind, name), self.alike, now_us)
            // What is held back counts to the network no more than what it never asked for.
            && self.all.is_none_or(|all| self.accounts.take(network, all, now_us));
        if is_within {
            return Verdict::Send;
        }
        self.beyond_count = self.beyond_count.wrapping_add(1);
        if self.slip > 0 && self.beyond_count.is_multiple_of(self.slip) { Verdict::Slip } else { Verdict::Drop }
    }

    /// Knows the network; what it gives then is the key of all that goes there.
    fn hasher_of(&self, address: IpAddr) -> SipHasher13 {
        let mut hasher = SipHasher13::new_with_key(&self.secret);
        let address = address.to_canonical();
        match masked(address, self.prefixes[usize::from(address.is_ipv6())]) {
            IpAddr::V4(network) => hasher.write(&network.octets()),
            IpAddr::V6(network) => hasher.write(&network.octets()),
        }
        hasher
    }
}

/// The key of a network, which the hasher knows, and of responses that are alike.
fn key_of(hasher: &mut SipHasher13, kind: AnswerKind, name: Option<NameRef<'_>>) -> u64 {
    hasher.write_u8(kind as u8);
    if let Some(name) = name {
        let mut lower = [0; wire::limits::NAME_OCTETS_MAX];
        let lower = &mut lower[..name.octets().len()];
        lower.copy_from_slice(name.octets());
        // Lengths of labels are below 64 and no letters.
        lower.make_ascii_lowercase();
        hasher.write(lower);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(per_second: u32, burst: u32, slip: u32) -> Limiter {
        let config = RateLimit { per_second, burst, slip, ..RateLimit::default() };
        Limiter::new(&config, 1, [7; 16]).unwrap()
    }

    fn judge(limiter: &mut Limiter, address: &str, kind: AnswerKind, name: &str, now_us: u64) -> Verdict {
        let name: wire::Name = name.parse().unwrap();
        limiter.judge(address.parse().unwrap(), kind, Some(name.as_ref()), now_us)
    }

    #[test]
    fn what_is_alike_counts_together() {
        let mut limiter = limiter(1, 1, 1);
        let mut is_new = |address, kind, name| judge(&mut limiter, address, kind, name, 0) == Verdict::Send;
        assert!(is_new("192.0.2.1", AnswerKind::Positive, "a.test."));
        assert!(!is_new("192.0.2.1", AnswerKind::Positive, "a.test."));
        assert!(!is_new("192.0.2.200", AnswerKind::Positive, "A.TEST."), "the same network, the same name");
        assert!(is_new("192.0.3.1", AnswerKind::Positive, "a.test."));
        assert!(is_new("192.0.2.1", AnswerKind::NoData, "a.test."));
        assert!(is_new("192.0.2.1", AnswerKind::Positive, "b.test."));
        assert!(!is_new("::ffff:192.0.2.9", AnswerKind::Positive, "b.test."), "the same client over an IPv6 socket");
        assert!(is_new("2001:db8::1", AnswerKind::Positive, "a.test."));
        assert!(!is_new("2001:db8:0:ff::1", AnswerKind::Positive, "a.test."));
        assert!(is_new("2001:db8:0:100::1", AnswerKind::Positive, "a.test."));
    }

    #[test]
    fn a_network_gets_no_more_by_asking_of_many_names() {
        let config =
            RateLimit { per_second: 10, burst: 10, all_per_second: 100, all_burst: 250, ..RateLimit::default() };
        let sent = |config: &RateLimit, workers: usize, names: usize| {
            let mut limiter = Limiter::new(config, workers, [3; 16]).unwrap();
            // Ten seconds, ten queries a millisecond, from all over a network.
            let steps = (0..100_000).filter(|step| {
                let address = format!("192.0.2.{}", step % 256);
                let name = format!("n{}.test.", step % names);
                let now_us = *step as u64 * 100;
                judge(&mut limiter, &address, AnswerKind::Positive, &name, now_us) == Verdict::Send
            });
            steps.count()
        };
        // 100 a second, and 250 at once.
        assert!((1_248..=1_252).contains(&sent(&config, 1, 1_000)), "{}", sent(&config, 1, 1_000));
        // More names than there are accounts: the network's is not forgotten.
        assert!((1_248..=1_300).contains(&sent(&config, 1, 99_991)), "{}", sent(&config, 1, 99_991));
        assert!((305..=316).contains(&sent(&config, 4, 1_000)), "{}", sent(&config, 4, 1_000));
        // What is held back for being alike takes nothing from the network: 10 a second of each of five.
        assert!((540..=552).contains(&sent(&config, 1, 5)), "{}", sent(&config, 1, 5));
        let none = RateLimit { all_per_second: 0, ..config };
        assert_eq!(sent(&none, 1, 99_991), 100_000);
        // Another network is another matter.
        let mut limiter = Limiter::new(&RateLimit { all_per_second: 1, all_burst: 1, ..none }, 1, [3; 16]).unwrap();
        let mut is_sent = |address, name| judge(&mut limiter, address, AnswerKind::Positive, name, 0) == Verdict::Send;
        assert!(is_sent("192.0.2.1", "a.test.") && !is_sent("192.0.2.2", "b.test.") && is_sent("192.0.3.1", "b.test."));
    }

    #[test]
    fn every_so_manieth_slips() {
        for (slip, expected) in [
            (0, [Verdict::Drop; 4]),
            (1, [Verdict::Slip; 4]),
            (2, [Verdict::Drop, Verdict::Slip, Verdict::Drop, Verdict::Slip]),
        ] {
            let mut limiter = limiter(1, 1, slip);
            let mut next = || judge(&mut limiter, "192.0.2.1", AnswerKind::Positive, "a.test.", 0);
            assert_eq!(next(), Verdict::Send);
            assert_eq!([next(), next(), next(), next()], expected, "slip {slip}");
        }
    }

    #[test]
    fn workers_share_the_rate() {
        let config = RateLimit { per_second: 40, burst: 80, ..RateLimit::default() };
        let sent = |workers: usize| {
            let mut limiter = Limiter::new(&config, workers, [1; 16]).unwrap();
            let times = (0..20_000).map(|step| step * 500);
            times
                .filter(|&now| judge(&mut limiter, "192.0.2.1", AnswerKind::Positive, "a.test.", now) == Verdict::Send)
                .count()
        };
        // Ten seconds: 400 by rate, 80 at once.
        assert!((478..=481).contains(&sent(1)), "{}", sent(1));
        assert!((118..=121).contains(&sent(4)), "{}", sent(4));
        assert!(Limiter::new(&RateLimit { per_second: 0, ..config }, 1, [1; 16]).is_none());
    }

    #[test]
    fn loopback_is_exempt() {
        let limiter = limiter(1, 1, 1);
        for (address, is_exempt) in
            [("127.0.0.1", true), ("127.9.9.9", true), ("::1", true), ("192.0.2.1", false), ("::2", false)]
        {
            assert_eq!(limiter.is_exempt(address.parse().unwrap()), is_exempt, "{address}");
        }
    }
}
