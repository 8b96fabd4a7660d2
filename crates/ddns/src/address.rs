//! Addresses of both families, and which of them may be published.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Index, IndexMut};
use wire::number::Rtype;

/// The addresses of one RRset.
pub type Addresses = BTreeSet<IpAddr>;

/// IPv4 or IPv6: A or AAAA.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Family {
    /// A (RFC 1035 3.4.1).
    V4,
    /// AAAA (RFC 3596 2.1).
    V6,
}

impl Family {
    /// Both families.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address.
    #[must_use]
    pub const fn of(address: &IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The type of its RRset.
    #[must_use]
    pub const fn rtype(self) -> Rtype {
        match self {
            Self::V4 => Rtype::A,
            Self::V6 => Rtype::AAAA,
        }
    }

    /// Its name in files, metrics and messages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }
}

/// A value for each family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PerFamily<T> {
    /// For A.
    pub ipv4: T,
    /// For AAAA.
    pub ipv6: T,
}

impl<T> Index<Family> for PerFamily<T> {
    type Output = T;

    fn index(&self, family: Family) -> &T {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }
}

impl<T> IndexMut<Family> for PerFamily<T> {
    fn index_mut(&mut self, family: Family) -> &mut T {
        match family {
            Family::V4 => &mut self.ipv4,
            Family::V6 => &mut self.ipv6,
        }
    }
}

/// An address of an interface of this machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InterfaceAddress {
    /// The name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// It is a temporary address for privacy (RFC 8981).
    pub is_temporary: bool,
    /// New connections should no longer use it (RFC 4862 5.5.4).
    pub is_deprecated: bool,
}

/// The rdata of an address.
#[must_use]
pub fn rdata(address: &IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// The address in rdata of this family.
#[must_use]
pub fn from_rdata(family: Family, rdata: &[u8]) -> Option<IpAddr> {
    match family {
        Family::V4 => <[u8; 4]>::try_from(rdata).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
        Family::V6 => <[u8; 16]>::try_from(rdata).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))),
    }
}

/// Whether another machine could reach it.
#[must_use]
pub fn is_usable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let first = v4.octets()[0];
            first != 0 && first != 127 && first < 224 && !v4.is_link_local()
        }
        IpAddr::V6(v6) => {
            // RFC 4291 2.5.5: addresses with an embedded IPv4 address are never on the wire.
            let is_link_local = v6.segments()[0] & 0xffc0 == 0xfe80;
            !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast() || is_link_local)
                && v6.to_ipv4_mapped().is_none()
                && v6.segments()[..6] != [0; 6]
        }
    }
}

/// Whether it is globally reachable, according to the registries of special-purpose addresses (RFC 6890).
#[must_use]
pub fn is_public(address: &IpAddr) -> bool {
    is_usable(address)
        && match address {
            IpAddr::V4(v4) => !SPECIAL_V4.iter().any(|(block, length)| {
                let mask = u32::MAX << (32 - length);
                u32::from(*v4) & mask == u32::from_be_bytes(*block)
            }),
            IpAddr::V6(v6) => {
                let [first, second, ..] = v6.segments();
                let is_global_unicast = first & 0xe000 == 0x2000;
                // RFC 2928: 2001::/23 is for protocols (Teredo, benchmarks, ORCHID), not for machines.
                let is_protocol = first == 0x2001 && second < 0x200;
                let is_documentation = first == 0x2001 && second == 0xdb8 || first == 0x3fff && second < 0x1000;
                // RFC 7526: 6to4 is deprecated.
                is_global_unicast && !is_protocol && !is_documentation && first != 0x2002
            }
        }
}

/// Private (RFC 1918), shared (RFC 6598), protocols (RFC 6890 2.1), documentation (RFC 5737), benchmarks (RFC 2544).
const SPECIAL_V4: [([u8; 4], u32); 9] = [
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_and_special_purpose_addresses_are_distinguished() {
        for public in ["1.1.1.1", "100.128.0.1", "172.32.0.1", "192.0.1.1", "198.20.0.1", "2600::1", "2a00::1"] {
            assert!(is_public(&public.parse().unwrap()), "{public}");
        }
        for private in [
            "10.1.2.3",
            "100.64.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "192.0.2.1",
            "198.19.1.1",
            "203.0.113.9",
            "fd00::1",
            "fec0::1",
            "2001:db8::1",
            "2001::1",
            "2001:2::1",
            "3fff:fff::1",
            "2002::1",
        ] {
            let address = private.parse().unwrap();
            assert!(!is_public(&address) && is_usable(&address), "{private}");
        }
        for useless in
            ["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "ff02::1"]
        {
            let address = useless.parse().unwrap();
            assert!(!is_usable(&address) && !is_public(&address), "{useless}");
        }
        assert!(!is_usable(&"::ffff:1.1.1.1".parse().unwrap()) && !is_usable(&"::1.1.1.1".parse().unwrap()));
    }

    #[test]
    fn rdata_is_read_as_written() {
        for text in ["192.0.2.1", "2001:db8::1"] {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(from_rdata(Family::of(&address), &rdata(&address)), Some(address));
        }
        assert_eq!(from_rdata(Family::V4, &[0; 16]), None);
    }
}
