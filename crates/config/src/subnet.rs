//! Networks: an address and a prefix length.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network such as `192.0.2.0/24`. Without a length, it is a single address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet {
    address: IpAddr,
    length: u8,
}

impl Subnet {
    /// Whether an address is in the network. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.length) == self.address
    }
}

/// The network address for an address and a prefix length.
pub fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32))).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a network; use 192.0.2.0/24, 2001:db8::/32 or an address, for example");
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(most);
        if length > most {
            return Err(wrong());
        }
        if masked(address, length) != address {
            return Err(format!("`{text}` is not a network: bits after its prefix are set"));
        }
        Ok(Self { address, length })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Serialize for Subnet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subnet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_of_its_prefix() {
        for (subnet, inside, outside) in [
            ("127.0.0.0/8", "127.255.0.1", "128.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("::1/128", "::1", "::2"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("::/0", "ff00::", "10.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
        ] {
            let network: Subnet = subnet.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{inside} in {subnet}");
            assert!(!network.contains(outside.parse().unwrap()), "{outside} not in {subnet}");
            assert!(network.to_string().starts_with(subnet.split('/').next().unwrap()));
        }
        for text in ["", "1.2.3", "1.2.3.4/33", "1.2.3.4/24", "::/129", "a/8", "1.2.3.0/x"] {
            assert!(text.parse::<Subnet>().is_err(), "{text}");
        }
    }
}
