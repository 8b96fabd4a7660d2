//! The limits of all responses to one address, and to each network around it.
//!
//! ```text
//!   IPv4   /32                       /24       /20        /18         each has its own rate, and a response
//!   IPv6  /128          /64          /56       /48        /32         must be within all of them
//!         `address_*`   `all_*` / 2  `all_*`   a few times `all_*`
//! ```
//! An attacker that forges one address gets the rate of one resolver. Forging many addresses of a provider gets only
//! the rate of that provider.

use crate::token_buckets::{Rate, TokenBuckets};
use config::rate_limit::RateLimit;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;

/// The wider networks of IPv4: how many bits shorter their prefixes are (/20 and /18 around a /24), and the factors of
/// their rates.
const WIDER_IPV4: [(u8, f64); 2] = [(4, 4.0), (6, 8.0)];
/// The same for IPv6: /48 and /32 around a /56.
const WIDER_IPV6: [(u8, f64); 2] = [(8, 2.0), (24, 16.0)];
/// Most prefixes that contain one address.
pub(super) const PREFIX_COUNT: usize = 5;

/// One prefix length of a family.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    mask: u128,
    rate: Rate,
}

/// The prefixes of both families, the longest first.
pub(super) struct Prefixes {
    families: [[Option<Prefix>; PREFIX_COUNT]; 2],
    /// Keeps an attacker from choosing networks that collide.
    secret: [u64; 2],
}

impl Prefixes {
    /// The prefixes of one of `workers` workers.
    pub(super) fn new(config: &RateLimit, workers: usize, seed_hasher: SipHasher13) -> Self {
        let prefix = |length: u8, per_second: u32, burst: u32, factor: f64| {
            let share = |whole: u32| f64::from(whole) * factor / workers as f64;
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            (per_second > 0).then(|| Prefix { mask, rate: Rate::new(share(per_second), share(burst)) })
        };
        let address = prefix(128, config.address_per_second, config.address_burst, 1.0);
        let all = |length: u8, factor| prefix(length, config.all_per_second, config.all_burst, factor);
        // A prefix of length 0 would contain all addresses of its family, so it has no limit.
        let wider = |offset: u8, length: u8, (bits, factor): (u8, f64)| {
            let wider = length.checked_sub(bits).filter(|wider| *wider > 0)?;
            all(offset + wider, factor)
        };
        let (ipv4, ipv6) = (config.ipv4_prefix, config.ipv6_prefix);
        // IPv4 addresses are the last 32 bits of 128.
        let [first, second] = WIDER_IPV4.map(|step| wider(96, ipv4, step));
        let ipv4 = [address, all(96 + ipv4, 1.0), first, second, None];
        let half = all(ipv6.saturating_add(8).min(128), 0.5);
        let [first, second] = WIDER_IPV6.map(|step| wider(0, ipv6, step));
        let ipv6 = [address, half, all(ipv6, 1.0), first, second];
        let secret_number = |number| {
            let mut hasher = seed_hasher;
            hasher.write_u64(number);
            hasher.finish() | 1
        };
        Self { families: [ipv4, ipv6], secret: [secret_number(1), secret_number(2)] }
    }

    /// The bucket keys of all prefixes that contain a canonical address.
    pub(super) fn keys_of(&self, address: IpAddr) -> [u64; PREFIX_COUNT] {
        let bits = bits_of(address);
        let family = &self.families[usize::from(address.is_ipv6())];
        std::array::from_fn(|index| family[index].map_or(0, |prefix| self.key(bits & prefix.mask, index)))
    }

    /// A keyed hash of two multiplications. It takes a few instructions, where SipHash for each prefix would take
    /// hundreds.
    fn key(&self, bits: u128, index: usize) -> u64 {
        let fold = |one: u64, other: u64| {
            let product = u128::from(one) * u128::from(other);
            product as u64 ^ (product >> 64) as u64
        };
        let [first, second] = self.secret;
        let upper = fold((bits >> 64) as u64 ^ second, first.wrapping_add(2 * index as u64));
        fold(bits as u64 ^ upper ^ first, second)
    }

    /// Takes one token from each bucket of these keys, the longest prefix first; false when one is empty.
    pub(super) fn take(
        &self,
        buckets: &mut TokenBuckets,
        keys: [u64; PREFIX_COUNT],
        is_ipv6: bool,
        now_us: u64,
    ) -> bool {
        let prefixes = self.families[usize::from(is_ipv6)].iter().zip(keys);
        prefixes
            .flat_map(|(prefix, key)| prefix.map(|prefix| (prefix.rate, key)))
            .all(|(rate, key)| buckets.take(key, rate, now_us))
    }
}

/// An address as a number. Addresses are canonical, so no IPv6 address has the number of an IPv4 address.
pub(super) fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::limiter::{Limiter, Verdict};
    use std::collections::HashSet;
    use zone::answer::AnswerKind;

    /// Responses to a flood of ten different queries per millisecond for ten seconds.
    fn sent(limiter: &mut Limiter, address: impl Fn(u64) -> IpAddr) -> usize {
        let within = (0..100_000).filter(|step| {
            let name: wire::Name = format!("n{step}.test.").parse().unwrap();
            let keys = limiter.keys_of(address(*step), AnswerKind::Positive, Some(name.as_ref()));
            limiter.check(keys, step * 100) == Verdict::Send
        });
        within.count()
    }

    fn limiter() -> Limiter {
        Limiter::new(&RateLimit { exempt: Vec::new(), ..RateLimit::default() }, 1, [5; 16]).unwrap()
    }

    #[test]
    fn each_prefix_is_limited_however_a_flood_is_spread() {
        // The rate for ten seconds, and the burst.
        let bounds = |per_second: usize, burst: usize| 10 * per_second - 5..=10 * per_second + burst + 5;
        let v4 = |bits: u64| {
            move |step: u64| IpAddr::from((0xC000_0000u32 | (step * 2_654_435_761 % (1 << bits)) as u32).to_be_bytes())
        };
        let one = sent(&mut limiter(), v4(0));
        assert!(bounds(100, 250).contains(&one), "a /32: {one}");
        let network = sent(&mut limiter(), v4(8));
        assert!(bounds(1_600, 4_000).contains(&network), "a /24: {network}");
        // 16 networks. Without the wider prefixes all responses would be sent.
        let wide = sent(&mut limiter(), v4(12));
        assert!(bounds(6_400, 16_000).contains(&wide), "a /20: {wide}");
        let v6 = |bits: u32| {
            move |step: u64| {
                let spread = u128::from(step.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64 | u128::from(step);
                let host = if bits == 0 { 0 } else { spread >> (128 - bits) };
                IpAddr::from((0x2001_0DB8_u128 << 96 | host).to_be_bytes())
            }
        };
        let one = sent(&mut limiter(), v6(0));
        assert!(bounds(100, 250).contains(&one), "a /128: {one}");
        let half = sent(&mut limiter(), v6(64));
        assert!(bounds(800, 2_000).contains(&half), "a /64: {half}");
        let network = sent(&mut limiter(), v6(72));
        assert!(bounds(1_600, 4_000).contains(&network), "a /56: {network}");
        let wide = sent(&mut limiter(), v6(80));
        assert!(bounds(3_200, 8_000).contains(&wide), "a /48: {wide}");
    }

    #[test]
    fn the_widest_prefix_is_limited_too() {
        let config = RateLimit { all_per_second: 160, all_burst: 400, exempt: Vec::new(), ..RateLimit::default() };
        let limiter = || Limiter::new(&config, 1, [5; 16]).unwrap();
        let spread = |step: u64, bits: u32| step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
        let v4 = sent(&mut limiter(), |step| IpAddr::from((0xC000_0000u32 | spread(step, 14) as u32).to_be_bytes()));
        assert!((8 * 1_600..=8 * 2_000 + 10).contains(&v4), "a /18: {v4}");
        let v6 = sent(&mut limiter(), |step| {
            IpAddr::from((0x2001_0DB8_u128 << 96 | u128::from(spread(step, 32)) << 64).to_be_bytes())
        });
        assert!((16 * 1_600..=16 * 2_000 + 10).contains(&v6), "a /32 of IPv6: {v6}");
    }

    #[test]
    fn one_address_takes_little_from_its_neighbours() {
        let mut limiter = limiter();
        assert!(sent(&mut limiter, |_| IpAddr::from([192, 0, 2, 1])) < 1_300);
        let now_us = 10_000_000;
        let neighbour = |limiter: &mut Limiter, number: u8| {
            let keys = limiter.keys_of(IpAddr::from([192, 0, 2, number]), AnswerKind::Positive, None);
            limiter.check(keys, now_us) == Verdict::Send
        };
        // The burst of similar responses is 125.
        assert_eq!((2..=126).filter(|number| neighbour(&mut limiter, *number)).count(), 125);
    }

    #[test]
    fn keys_are_those_of_networks_and_do_not_collide() {
        let limiter = limiter();
        let keys = |address: [u8; 4]| limiter.all.keys_of(IpAddr::from(address));
        let same = |one: [u8; 4], other: [u8; 4]| {
            keys(one).iter().zip(keys(other)).take(4).map(|(one, other)| *one == other).collect::<Vec<_>>()
        };
        assert_eq!(same([192, 0, 2, 1], [192, 0, 2, 2]), [false, true, true, true]);
        assert_eq!(same([192, 0, 2, 1], [192, 0, 3, 1]), [false, false, true, true]);
        assert_eq!(same([192, 0, 2, 1], [192, 0, 16, 1]), [false, false, false, true]);
        assert_eq!(same([192, 0, 2, 1], [192, 0, 64, 1]), [false, false, false, false]);
        let all: HashSet<u64> = (0..65_536u32).map(|last| keys((0x0A00_0000 | last).to_be_bytes())[0]).collect();
        assert_eq!(all.len(), 65_536);
    }

    #[test]
    fn short_prefixes_and_no_limits_are_understood() {
        let config = RateLimit { ipv4_prefix: 4, ipv6_prefix: 128, ..RateLimit::default() };
        let prefixes = Prefixes::new(&config, 1, SipHasher13::new());
        let present = |family: usize| prefixes.families[family].map(|prefix| prefix.is_some());
        assert_eq!(present(0), [true, true, false, false, false]);
        assert_eq!(present(1), [true; PREFIX_COUNT]);
        let config = RateLimit { address_per_second: 0, all_per_second: 0, ..config };
        let none = Prefixes::new(&config, 1, SipHasher13::new());
        assert!(none.families.iter().flatten().all(Option::is_none));
        assert!((0..1_000).all(|_| none.take(&mut TokenBuckets::new(), [0; PREFIX_COUNT], false, 0)));
    }
}
