//! Assigns the sources of a trace to processes.
//!
//! Uses rendezvous hashing: each process has a weight for each source, and the largest weight wins. Every process
//! computes the same assignment from the names. When a process leaves, only its own sources move.

use crate::byte_hash;
use std::net::IpAddr;

/// Assigns sources to processes.
#[derive(Clone, Debug)]
pub struct RendezvousHash {
    seeds: Vec<u64>,
}

impl RendezvousHash {
    /// For processes with these distinct names.
    pub fn new<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        Self { seeds: names.into_iter().map(|name| mixed(byte_hash::of(name.as_ref().as_bytes()))).collect() }
    }

    /// The number of processes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.seeds.len()
    }

    /// The index of the process that owns a source. 0 without processes.
    #[must_use]
    pub fn owner(&self, source: IpAddr) -> usize {
        let source = match source.to_canonical() {
            IpAddr::V4(address) => byte_hash::of(&address.octets()),
            IpAddr::V6(address) => byte_hash::of(&address.octets()),
        };
        let weight = |seed: u64| mixed(seed ^ source);
        let all = self.seeds.iter().enumerate();
        all.max_by_key(|&(index, &seed)| (weight(seed), std::cmp::Reverse(index))).map_or(0, |(index, _)| index)
    }
}

/// Spreads similar hash values: the finalizer of SplitMix64.
const fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn sources() -> impl Iterator<Item = IpAddr> {
        let ipv4 = (0..20_000_u32).map(|number| Ipv4Addr::from(0x0A00_0000 + number).into());
        ipv4.chain((0..20_000_u128).map(|number| Ipv6Addr::from((0x2001_0db8 << 96) + number).into()))
    }

    #[test]
    fn sources_are_spread_evenly() {
        let hash = RendezvousHash::new(["a", "b", "c", "d"]);
        let mut counts = [0_usize; 4];
        sources().for_each(|source| counts[hash.owner(source)] += 1);
        // 10,000 each on average. Six standard deviations are 520.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 520), "{counts:?}");
    }

    #[test]
    fn only_the_sources_of_a_removed_process_move() {
        let [before, after] = [RendezvousHash::new(["a", "b", "c"]), RendezvousHash::new(["a", "c"])];
        let (mut moved, mut stayed) = (0, 0);
        for source in sources() {
            match (before.owner(source), after.owner(source)) {
                (1, _) => moved += 1,
                (0, 0) | (2, 1) => stayed += 1,
                other => panic!("{source}: {other:?}"),
            }
        }
        assert!(moved > 12_000 && stayed > 25_000, "{moved} {stayed}");
    }

    #[test]
    fn mapped_ipv4_addresses_hash_as_ipv4() {
        assert!(sources().all(|source| RendezvousHash::new(["only"]).owner(source) == 0));
        let hash = RendezvousHash::new(["a", "b", "c"]);
        for number in 0..200_u32 {
            let address = Ipv4Addr::from(0xC000_0200 + number);
            assert_eq!(hash.owner(address.into()), hash.owner(address.to_ipv6_mapped().into()));
        }
    }
}
