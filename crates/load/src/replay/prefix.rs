//! A network of local addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network of local addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    pub(super) network: IpAddr,
    pub(super) length: u8,
}

impl Prefix {
    /// Local on every Linux machine.
    pub const LOOPBACK: Self = Self { network: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), length: 8 };

    /// Number of addresses without the first and the last, which are special in IPv4 (RFC 1122 3.2.1.3).
    pub(super) fn address_count(self) -> u128 {
        let width = if self.network.is_ipv4() { 32 } else { 128 };
        let size = 1_u128 << u32::from(width - self.length).min(100);
        if size > 2 { size - 2 } else { size }
    }

    /// The address of source `number`. Sources share addresses if there are too many.
    pub(super) fn address(self, number: u32) -> IpAddr {
        let first = u128::from(self.address_count() > 2);
        let offset = first + u128::from(number) % self.address_count();
        match self.network {
            IpAddr::V4(network) => Ipv4Addr::from(u32::from(network).wrapping_add(offset as u32)).into(),
            IpAddr::V6(network) => Ipv6Addr::from(u128::from(network).wrapping_add(offset)).into(),
        }
    }

    /// Whether each of this many sources gets its own address.
    pub(super) fn has_room_for(self, sources: usize) -> bool {
        self.address_count() >= sources as u128
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
}
