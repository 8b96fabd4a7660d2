//! The address that other nodes connect to: a host name or an IP address, and a port.

use crate::limits::ADDRESS_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// `HOST:PORT`. A name is resolved at each connection; the result is never cached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PeerAddress(Host, u16);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Host {
    Ip(SocketAddr),
    Name(String),
}

/// RFC 1035 2.3.4: 255 bytes on the wire are 253 characters.
const NAME_BYTES_MAX: usize = 253;
/// RFC 1035 2.3.4.
const LABEL_BYTES_MAX: usize = 63;

impl PeerAddress {
    /// The IP address and port; `None` for a host name.
    pub const fn socket(&self) -> Option<SocketAddr> {
        match self.0 {
            Host::Ip(address) => Some(address),
            Host::Name(_) => None,
        }
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.1
    }

    /// Whether other nodes can connect to it. The unspecified address and port 0 are only for listening.
    pub fn is_reachable(&self) -> bool {
        self.1 != 0 && self.socket().is_none_or(|address| !address.ip().is_unspecified())
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self(Host::Ip(address), address.port())
    }
}

impl FromStr for PeerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(address.into());
        }
        let wrong = || "not HOST:PORT, where HOST is a name or an IP address".to_owned();
        let (name, port) = text.rsplit_once(':').filter(|_| text.len() <= ADDRESS_BYTES_MAX).ok_or_else(wrong)?;
        let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        if is_host_name(name) { Ok(Self(Host::Name(name.to_ascii_lowercase()), port)) } else { Err(wrong()) }
    }
}

/// RFC 1123 2.1, plus underscores, which container platforms use. A last label of digits only is most likely a mistyped
/// IPv4 address (RFC 3696 2).
fn is_host_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let is_known = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=LABEL_BYTES_MAX).contains(&bytes.len())
            && bytes.iter().all(is_known)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Host::Ip(address) => address.fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.1),
        }
    }
}

impl TryFrom<String> for PeerAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PeerAddress> for String {
    fn from(address: PeerAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_read_and_written() {
        for text in ["10.0.0.1:5380", "[2001:db8::1]:5380", "node-1:5380", "ns1.example.net:1", "a_b.example.:65535"] {
            let address: PeerAddress = text.parse().unwrap();
            assert_eq!((address.to_string(), address.is_reachable()), (text.to_owned(), true));
        }
        assert_eq!("NS1.Example.net:5".parse::<PeerAddress>().unwrap().to_string(), "ns1.example.net:5");
        assert_eq!("[::1]:7".parse::<PeerAddress>().unwrap().socket(), Some("[::1]:7".parse().unwrap()));
        for any in ["0.0.0.0:5380", "[::]:5380", "10.0.0.1:0"] {
            assert!(!any.parse::<PeerAddress>().unwrap().is_reachable(), "{any}");
        }
        let long = format!("{}:1", "a.".repeat(128));
        for wrong in ["", "node", "node:", ":5", "node:0", "node:65536", "10.0.0.256:5", "1.2.3:4", "::1:5", "a..b:1"]
            .into_iter()
            .chain(["-a:1", "a-:1", "a b:1", "a/b:1", "[x]:1", "node:5:6", "\u{e4}:1", long.as_str()])
        {
            assert!(wrong.parse::<PeerAddress>().is_err(), "{wrong}");
        }
    }
}
