//! Address prefixes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A prefix: an address and its length in bits. The remaining bits are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// The prefix of an address with this length. `None` if the address is shorter.
    #[must_use]
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let (bits, width) = bits_of(address);
        let host = width.checked_sub(length)?;
        Some(Self { address: address_of(bits & mask(host), width), length })
    }

    /// The lowest address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        self.address
    }

    /// The length in bits.
    #[must_use]
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether it contains an address. Never true for the other family.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        Self::new(address, self.length) == Some(self)
    }

    /// The bytes that contain its bits, as in EDNS (RFC 7871 6).
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        bytes.truncate(usize::from(self.length).div_ceil(8));
        bytes
    }

    /// Number of host addresses: without the first and the last one, if there are others.
    pub(crate) fn host_count(self) -> u128 {
        let (_, width) = bits_of(self.address);
        match 1_u128.checked_shl(u32::from(width - self.length)) {
            Some(all @ 1..=2) => all,
            Some(all) => all - 2,
            None => u128::MAX - 1,
        }
    }

    /// The host with this number, which is less than [`Prefix::host_count`].
    pub(crate) fn host(self, number: u128) -> IpAddr {
        let (bits, width) = bits_of(self.address);
        let first = u128::from(width - self.length > 1);
        address_of(bits | (number + first), width)
    }
}

/// The bits of an address, and their number.
pub(crate) fn bits_of(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// The address with these bits.
pub(crate) fn address_of(bits: u128, width: u8) -> IpAddr {
    if width == 32 { Ipv4Addr::from_bits(bits as u32).into() } else { Ipv6Addr::from_bits(bits).into() }
}

/// A mask without the last `host` bits.
pub(crate) fn mask(host: u8) -> u128 {
    u128::MAX.checked_shl(host.into()).unwrap_or(0)
}

impl FromStr for Prefix {
    type Err = ();

    /// Parses `192.0.2.0/24`, or a single address.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| ())?;
        let length = match length {
            Some(length) => length.parse().map_err(|_| ())?,
            None => bits_of(address).1,
        };
        Self::new(address, length).ok_or(())
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn bits_after_the_prefix_are_ignored() {
        assert_eq!(prefix("192.0.2.77/24").to_string(), "192.0.2.0/24");
        assert_eq!(prefix("2001:db8:ffff::1/33").to_string(), "2001:db8:8000::/33");
        assert!(prefix("192.0.2.0/25").contains("192.0.2.127".parse().unwrap()));
        assert!(!prefix("192.0.2.0/25").contains("192.0.2.128".parse().unwrap()));
        assert!(prefix("::/0").contains("2001:db8::1".parse().unwrap()));
        assert!(!prefix("::/0").contains("192.0.2.1".parse().unwrap()));
        assert_eq!(prefix("192.0.2.7/12").to_bytes(), [192, 0]);
        for wrong in ["", "192.0.2.0/33", "::/129", "192.0.2.0/", "192.0.2/24", "/24"] {
            assert_eq!(wrong.parse::<Prefix>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn hosts_are_inside() {
        for text in ["10.0.0.0/8", "192.0.2.7/32", "192.0.2.6/31", "192.0.2.4/30", "::/0", "2001:db8::/127"] {
            let prefix = prefix(text);
            for number in [0, 1, prefix.host_count() - 1].into_iter().filter(|&number| number < prefix.host_count()) {
                assert!(prefix.contains(prefix.host(number)), "{text} {number}");
            }
        }
        assert_eq!(prefix("10.0.0.0/8").host(0).to_string(), "10.0.0.1");
        assert_eq!(prefix("10.0.0.0/30").host_count(), 2);
        assert_eq!(prefix("10.0.0.7/32").host(0).to_string(), "10.0.0.7");
    }
}
