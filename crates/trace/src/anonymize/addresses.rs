//! Prefix-preserving pseudonyms of addresses: if two addresses share exactly their first n bits, so do their pseudonyms
//! (Xu, Fan, Ammar, Moon: Prefix-preserving IP address anonymization, ICNP 2002).

use super::key::{Block, Cipher, Key};
use crate::limits::PSEUDONYMS_MAX;
use crate::prefix::{Prefix, address_of, bits_of, mask};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug)]
pub(super) struct Addresses {
    cipher: Cipher,
    pad: u128,
    /// A bounded cache of pseudonyms.
    known: BTreeMap<IpAddr, IpAddr>,
}

/// Bits of a cipher block.
const BITS: u8 = 128;

impl Addresses {
    pub(super) fn new(key: &Key) -> Self {
        let cipher = key.cipher();
        let pad = u128::from_be_bytes(cipher.block(key.pad()));
        Self { cipher, pad, known: BTreeMap::new() }
    }

    /// Returns the pseudonym of an address.
    pub(super) fn address(&mut self, address: IpAddr) -> IpAddr {
        if let Some(&known) = self.known.get(&address) {
            return known;
        }
        let (bits, width) = bits_of(address);
        // The first bit of an address is the first bit of its block.
        let flips = self.flips(bits << (BITS - width), width) >> (BITS - width);
        let pseudonym = address_of(bits ^ flips, width);
        if self.known.len() >= PSEUDONYMS_MAX {
            self.known.clear();
        }
        self.known.insert(address, pseudonym);
        pseudonym
    }

    pub(super) fn v4(&mut self, bytes: [u8; 4]) -> [u8; 4] {
        match self.address(Ipv4Addr::from(bytes).into()) {
            IpAddr::V4(address) => address.octets(),
            IpAddr::V6(_) => unreachable!("the family stays"),
        }
    }

    pub(super) fn v6(&mut self, bytes: Block) -> Block {
        match self.address(Ipv6Addr::from(bytes).into()) {
            IpAddr::V6(address) => address.octets(),
            IpAddr::V4(_) => unreachable!("the family stays"),
        }
    }

    /// Returns the pseudonym of a prefix: the common prefix of its addresses' pseudonyms.
    pub(super) fn prefix(&mut self, prefix: Prefix) -> Prefix {
        let pseudonym = self.address(prefix.address());
        Prefix::new(pseudonym, prefix.length()).expect("the family stays")
    }

    /// The bits to flip. Bit i depends on the i bits before it; the pad fills the rest of the block.
    fn flips(&self, bits: u128, width: u8) -> u128 {
        let mut blocks = [aes::Block::from([0; 16]); BITS as usize];
        let blocks = &mut blocks[..usize::from(width)];
        for (before, block) in blocks.iter_mut().enumerate() {
            let network_mask = mask(BITS - before as u8);
            block.copy_from_slice(&((bits & network_mask) | (self.pad & !network_mask)).to_be_bytes());
        }
        self.cipher.blocks(blocks);
        blocks.iter().enumerate().fold(0, |flips, (at, block)| flips | u128::from(block[0] >> 7) << (127 - at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The key of the sample data of the first implementation.
    const SAMPLE_KEY: [u8; 32] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131, 121, 121, 101, 39,
        98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn pseudonyms_match_the_published_vectors() {
        let mut addresses = Addresses::new(&Key::new(SAMPLE_KEY));
        for (original, pseudonym) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("152.163.225.39", "151.140.114.167"),
            ("156.29.3.236", "147.225.12.42"),
            ("165.247.96.84", "162.9.99.234"),
            ("166.107.77.190", "160.132.178.185"),
            ("192.102.249.13", "252.138.62.131"),
            ("209.85.249.6", "226.170.70.6"),
            ("24.0.250.221", "100.15.198.226"),
            ("4.3.88.225", "124.60.155.63"),
            ("64.39.15.238", "0.219.7.41"),
            ("10.185.25.118", "117.161.29.118"),
            // The sample has no IPv6. Other implementations agree on these values.
            ("::1", "78ff:f001:9fc0:20df:8380:b1f1:704:ed"),
            ("::2", "78ff:f001:9fc0:20df:8380:b1f1:704:ef"),
            ("::ffff", "78ff:f001:9fc0:20df:8380:b1f1:704:f838"),
            ("2001:db8::1", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e"),
            ("2001:db8::2", "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c"),
        ] {
            let original: IpAddr = original.parse().unwrap();
            assert_eq!(addresses.address(original).to_string(), pseudonym, "{original}");
            assert_eq!(addresses.address(original).to_string(), pseudonym, "{original}, again");
        }
    }

    #[test]
    fn the_number_of_known_addresses_is_bounded() {
        let mut addresses = Addresses::new(&Key::new([7; 32]));
        let first = addresses.v4([10, 0, 0, 0]);
        addresses.known.extend((0..PSEUDONYMS_MAX as u32).map(|number| {
            let address = IpAddr::from(Ipv4Addr::from(0x0B00_0000 + number));
            (address, address)
        }));
        addresses.v4([9, 0, 0, 0]);
        assert_eq!(addresses.known.len(), 1);
        assert_eq!(addresses.v4([10, 0, 0, 0]), first);
    }

    fn common_bits(a: u128, b: u128) -> u32 {
        (a ^ b).leading_zeros()
    }

    proptest! {
        #[test]
        fn only_prefixes_are_kept(
            key in any::<[u8; 32]>(), a in any::<u128>(), shared in 0_u32..=128, b in any::<u128>(),
        ) {
            let mut addresses = Addresses::new(&Key::new(key));
            // An address that shares at least this many bits.
            let network_mask = u128::MAX.checked_shl(128 - shared).unwrap_or(0);
            let b = (a & network_mask) | (b & !network_mask);
            let pseudonyms = [a, b].map(|bits| u128::from_be_bytes(addresses.v6(bits.to_be_bytes())));
            prop_assert_eq!(common_bits(a, b), common_bits(pseudonyms[0], pseudonyms[1]));
            let [a, b] = [a, b].map(|bits| (bits >> 96) as u32);
            let pseudonyms = [a, b].map(|bits| u32::from_be_bytes(addresses.v4(bits.to_be_bytes())));
            prop_assert_eq!((a ^ b).leading_zeros(), (pseudonyms[0] ^ pseudonyms[1]).leading_zeros());
        }

        #[test]
        fn a_prefix_is_what_its_addresses_have_in_common(
            key in any::<[u8; 32]>(), bits in any::<u32>(), length in 0_u8..=32,
        ) {
            let mut addresses = Addresses::new(&Key::new(key));
            let address = IpAddr::from(Ipv4Addr::from(bits));
            let prefix = addresses.prefix(Prefix::new(address, length).unwrap());
            prop_assert!(prefix.contains(addresses.address(address)) && prefix.length() == length);
        }
    }
}
