//! The response rate limit (RRL) over UDP, where anyone can forge an address. It limits similar responses, and all
//! responses, to each network.
//!
//! Responses are similar if they have the same kind and name. All nonexistent names of a zone count as one name, and so
//! do all names below a delegation and all names of a wildcard, since an attacker can make up names. A client that
//! queries many existing names reaches the other limits: of its address, and of each prefix around it ([`prefixes`]).
//! Shorter prefixes have higher rates, because they contain more resolvers.
//!
//! ```text
//!   exempt network, or a cookie that proves the address   -> not counted
//!   within both rates and bursts                          -> sent
//!   over, every `slip`th:   the client sent a cookie      -> BADCOOKIE, with a cookie (RFC 7873 5.2.3)
//!                           it did not                    -> TC, so that it retries over TCP
//!                           it gets an error              -> the error, without options
//!   over, the others                                      -> nothing
//! ```
//!
//! Update threads count their responses too: signed queries like unsigned ones, TSIG errors and unsigned updates in one
//! bucket (see [`crate::update`]). Outcomes of verified updates are never counted.
//!
//! Each worker and update thread has its own buckets and its share of the rate, so no two write the same memory. The
//! responses of a batch are made first. Then their buckets are prefetched together, and each response is checked.

mod prefixes;
pub(crate) mod shared;

use crate::limits::{RATE_LIMIT_NETWORKS, UDP_BATCH_COUNT};
use crate::listen::batch::IndexSet;
use crate::token_buckets::{Rate, TokenBuckets};
use config::rate_limit::RateLimit;
use config::subnet::{Subnet, masked};
use prefixes::{PREFIX_COUNT, Prefixes, bits_of};
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;
use wire::NameRef;
use zone::answer::{AnswerKind, ResponseInfo};

/// What to do with a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Send it.
    Send,
    /// Send a short one instead.
    Slip,
    /// Send nothing.
    Drop,
}

/// The buckets that a response counts to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    /// The bucket of similar responses.
    alike: u64,
    /// The buckets of all responses to the address, and to each network around it.
    prefixes: [u64; PREFIX_COUNT],
    is_ipv6: bool,
}

/// A response that is made but not yet checked.
#[derive(Clone, Copy, Debug)]
struct BatchedResponse {
    keys: Keys,
    answered: ResponseInfo,
}

/// A network, and the hasher state that the keys of its responses start from.
#[derive(Clone)]
struct Network {
    bits: u128,
    begun: SipHasher13,
}

impl Network {
    fn new(seed_hasher: SipHasher13, bits: u128) -> Self {
        let mut begun = seed_hasher;
        begun.write_u64((bits >> 64) as u64);
        begun.write_u64(bits as u64);
        Self { bits, begun }
    }
}

/// The rate limiter of one thread.
pub(crate) struct Limiter {
    buckets: TokenBuckets,
    /// The rate of similar responses.
    alike: Rate,
    /// The rates of all responses to one address or network.
    all: Prefixes,
    /// Keyed, so that an attacker cannot make two responses collide.
    seed_hasher: SipHasher13,
    exempt: Vec<Subnet>,
    prefixes: [u8; 2],
    /// Recently seen networks.
    networks: Vec<Network>,
    slip: u32,
    over_limit_count: u32,
    /// Responses of the current batch, by index.
    batch: Vec<Option<BatchedResponse>>,
}

impl Limiter {
    /// The limiter of one of `workers` workers; `None` without a limit.
    pub(crate) fn new(config: &RateLimit, workers: usize, secret: [u8; 16]) -> Option<Self> {
        if config.per_second == 0 {
            return None;
        }
        let share = |whole| f64::from(whole) / workers as f64;
        let seed_hasher = SipHasher13::new_with_key(&secret);
        Some(Self {
            buckets: TokenBuckets::new(),
            alike: Rate::new(share(config.per_second), share(config.burst)),
            all: Prefixes::new(config, workers, seed_hasher),
            networks: vec![Network::new(seed_hasher, 0); RATE_LIMIT_NETWORKS],
            seed_hasher,
            exempt: config.exempt.clone(),
            prefixes: [config.ipv4_prefix, config.ipv6_prefix],
            slip: config.slip,
            over_limit_count: 0,
            batch: vec![None; UDP_BATCH_COUNT],
        })
    }

    /// Whether this client's network is exempt.
    pub(crate) fn is_exempt(&self, address: IpAddr) -> bool {
        self.exempt.iter().any(|subnet| subnet.contains(address))
    }

    /// The buckets of a response of this kind and name.
    pub(crate) fn keys_of(&mut self, address: IpAddr, kind: AnswerKind, name: Option<NameRef<'_>>) -> Keys {
        let address = address.to_canonical();
        let is_ipv6 = address.is_ipv6();
        let prefixes = self.all.keys_of(address);
        let network = bits_of(masked(address, self.prefixes[usize::from(is_ipv6)]));
        let mut hasher = self.network(network).begun;
        // The length makes the input unambiguous.
        let name_len = name.map_or(0, |name| name.as_bytes().len());
        hasher.write_u64(u64::from(kind as u8) | (name_len as u64) << 8);
        name.into_iter().flat_map(NameRef::lower_words).for_each(|word| hasher.write_u64(word));
        Keys { alike: hasher.finish(), prefixes, is_ipv6 }
    }

    /// The entry of a network, computed if it is not cached. Few resolvers send most queries, so the cache is small.
    fn network(&mut self, bits: u128) -> &Network {
        // Networks differ mostly in these bytes: the last of an IPv4 prefix, or the last of the upper half in IPv6.
        let folded = (bits ^ bits >> 56) as usize;
        let index = (folded >> 8 ^ folded >> 16) % RATE_LIMIT_NETWORKS;
        let network = &mut self.networks[index];
        if network.bits != bits {
            *network = Network::new(self.seed_hasher, bits);
        }
        network
    }

    /// Checks and counts a response without a name, if its network is not exempt.
    pub(crate) fn check_error(&mut self, address: IpAddr, kind: AnswerKind, now_us: u64) -> Verdict {
        if self.is_exempt(address) {
            return Verdict::Send;
        }
        let keys = self.keys_of(address, kind, None);
        self.check(keys, now_us)
    }

    /// Checks and counts a response, at a time in microseconds.
    pub(crate) fn check(&mut self, keys: Keys, now_us: u64) -> Verdict {
        let is_within = self.buckets.take(keys.alike, self.alike, now_us)
            // A response over the limit of its bucket or address does not count for its networks, so a forged address
            // takes little from its neighbours.
            && self.all.take(&mut self.buckets, keys.prefixes, keys.is_ipv6, now_us);
        if is_within {
            return Verdict::Send;
        }
        self.over_limit_count = self.over_limit_count.wrapping_add(1);
        if self.slip > 0 && self.over_limit_count.is_multiple_of(self.slip) { Verdict::Slip } else { Verdict::Drop }
    }

    /// Adds a response to the batch, to be checked later.
    pub(crate) fn add_to_batch(&mut self, index: usize, keys: Keys, answered: ResponseInfo) {
        self.batch[index] = Some(BatchedResponse { keys, answered });
    }

    /// Prefetches the buckets of batched responses.
    pub(crate) fn prefetch_batch(&self, indexes: IndexSet) {
        let batch = indexes.into_iter().filter_map(|index| self.batch[index]);
        // Buckets of wide networks are few and always in the cache.
        self.buckets.prefetch(batch.flat_map(|response| [response.keys.alike, response.keys.prefixes[0]]));
    }

    /// Checks a response of the batch, and removes it.
    pub(crate) fn check_batched(&mut self, index: usize, now_us: u64) -> Option<(Verdict, ResponseInfo)> {
        let BatchedResponse { keys, answered } = self.batch[index].take()?;
        Some((self.check(keys, now_us), answered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(per_second: u32, burst: u32, slip: u32) -> Limiter {
        let config = RateLimit { per_second, burst, slip, ..RateLimit::default() };
        Limiter::new(&config, 1, [7; 16]).unwrap()
    }

    fn check(limiter: &mut Limiter, address: &str, kind: AnswerKind, name: &str, now_us: u64) -> Verdict {
        let name: wire::Name = name.parse().unwrap();
        let keys = limiter.keys_of(address.parse().unwrap(), kind, Some(name.as_ref()));
        limiter.check(keys, now_us)
    }

    #[test]
    fn every_byte_of_a_name_counts_and_its_case_does_not() {
        let mut limiter = limiter(1, 1, 1);
        let address = "192.0.2.1".parse().unwrap();
        let mut alike = |name: &wire::Name| limiter.keys_of(address, AnswerKind::Positive, Some(name.as_ref())).alike;
        let name = |labels: &str| labels.parse::<wire::Name>().unwrap();
        let mut keys = vec![alike(&wire::Name::root())];
        for len in 1..=40 {
            let label = "x".repeat(len);
            keys.push(alike(&name(&label)));
            assert_eq!(keys.last(), Some(&alike(&name(&label.to_uppercase()))));
            for at in 0..len {
                let mut other = label.clone();
                other.replace_range(at..=at, "[");
                keys.push(alike(&name(&other)));
            }
            keys.extend((len > 2).then(|| alike(&name(&format!("x.{}", &label[2..])))));
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "two names have one key");
    }

    #[test]
    fn keys_of_a_network_do_not_depend_on_other_queries() {
        let mut limiter = limiter(1, 1, 1);
        let addresses: Vec<IpAddr> = (0..=u8::MAX)
            .flat_map(|byte| {
                [
                    IpAddr::from([192, 0, byte, 1]),
                    IpAddr::from([byte, 0, 2, 1]),
                    IpAddr::from([0x2001, 0xDB8, 0, u16::from(byte) << 8, 0, 0, 0, 1]),
                    IpAddr::from([0x2001, u16::from(byte), 0, 0, 0, 0, 0, 1]),
                ]
            })
            .collect();
        let mut all = |_| -> Vec<u64> {
            let keys = addresses.iter().map(|address| limiter.keys_of(*address, AnswerKind::NoData, None));
            // The key of the network. In IPv6 it follows that of the /64.
            keys.map(|keys| keys.prefixes[1 + usize::from(keys.is_ipv6)]).collect()
        };
        let (first, again) = (all(0), all(1));
        assert_eq!(first, again);
        // Two addresses of the four times 256 are in 192.0.2.0/24.
        assert_eq!(first.iter().collect::<std::collections::HashSet<_>>().len(), 4 * 256 - 1);
    }

    #[test]
    fn similar_responses_share_a_bucket() {
        let mut limiter = limiter(1, 1, 1);
        let mut is_new = |address, kind, name| check(&mut limiter, address, kind, name, 0) == Verdict::Send;
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
    fn a_network_gets_no_more_by_querying_many_names() {
        let config =
            RateLimit { per_second: 10, burst: 10, all_per_second: 100, all_burst: 250, ..RateLimit::default() };
        let sent = |config: &RateLimit, workers: usize, names: usize| {
            let mut limiter = Limiter::new(config, workers, [3; 16]).unwrap();
            // Ten queries per millisecond for ten seconds, from all addresses of a network.
            let steps = (0..100_000).filter(|step| {
                let address = format!("192.0.2.{}", step % 256);
                let name = format!("n{}.test.", step % names);
                let now_us = *step as u64 * 100;
                check(&mut limiter, &address, AnswerKind::Positive, &name, now_us) == Verdict::Send
            });
            steps.count()
        };
        // 100 per second, and a burst of 250.
        assert!((1_248..=1_252).contains(&sent(&config, 1, 1_000)), "{}", sent(&config, 1, 1_000));
        // There are more names than buckets, but the bucket of the network is never replaced.
        assert!((1_248..=1_300).contains(&sent(&config, 1, 99_991)), "{}", sent(&config, 1, 99_991));
        assert!((305..=316).contains(&sent(&config, 4, 1_000)), "{}", sent(&config, 4, 1_000));
        // Responses over the limit of their bucket take nothing from the network: 10 per second of each of five.
        assert!((540..=552).contains(&sent(&config, 1, 5)), "{}", sent(&config, 1, 5));
        let none = RateLimit { all_per_second: 0, ..config };
        assert_eq!(sent(&none, 1, 99_991), 100_000);
        // Another network has its own bucket.
        let mut limiter = Limiter::new(&RateLimit { all_per_second: 1, all_burst: 1, ..none }, 1, [3; 16]).unwrap();
        let mut is_sent = |address, name| check(&mut limiter, address, AnswerKind::Positive, name, 0) == Verdict::Send;
        assert!(is_sent("192.0.2.1", "a.test.") && !is_sent("192.0.2.2", "b.test.") && is_sent("192.0.3.1", "b.test."));
    }

    #[test]
    fn every_nth_response_slips() {
        for (slip, expected) in [
            (0, [Verdict::Drop; 4]),
            (1, [Verdict::Slip; 4]),
            (2, [Verdict::Drop, Verdict::Slip, Verdict::Drop, Verdict::Slip]),
        ] {
            let mut limiter = limiter(1, 1, slip);
            let mut next = || check(&mut limiter, "192.0.2.1", AnswerKind::Positive, "a.test.", 0);
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
                .filter(|&now| check(&mut limiter, "192.0.2.1", AnswerKind::Positive, "a.test.", now) == Verdict::Send)
                .count()
        };
        // Ten seconds: 400 from the rate, 80 from the burst.
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
