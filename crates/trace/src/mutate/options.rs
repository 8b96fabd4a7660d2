//! EDNS options to add to queries.

use super::draw::{Draws, Purpose};
use crate::prefix::Prefix;
use data_encoding::HEXLOWER_PERMISSIVE;
use std::net::IpAddr;
use std::str::FromStr;
use wire::parse::edns::code;

/// An option to add.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OptionToAdd {
    /// Requests the server identifier (RFC 5001).
    Nsid,
    /// A client cookie (RFC 7873 4.1): this one, or one per client.
    Cookie(Option<[u8; 8]>),
    /// A client subnet (RFC 7871): this one, or that of the client.
    ClientSubnet(Option<Prefix>),
    /// Pads the message to a multiple of this size (RFC 7830, RFC 8467 4.1).
    Padding(u16),
    /// Any other option.
    Other {
        /// Its code.
        code: u16,
        /// Its contents.
        bytes: Vec<u8>,
    },
}

/// Length of a client subnet for IPv4 and IPv6 (RFC 7871 11.1).
const SUBNET_BITS: [u8; 2] = [24, 56];

impl OptionToAdd {
    /// Its code.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::Nsid => code::NSID,
            Self::Cookie(_) => code::COOKIE,
            Self::ClientSubnet(_) => code::CLIENT_SUBNET,
            Self::Padding(_) => code::PADDING,
            Self::Other { code, .. } => *code,
        }
    }

    /// Its largest size, including code and length.
    pub(super) fn bytes_max(&self) -> usize {
        4 + match self {
            Self::Nsid => 0,
            Self::Cookie(_) => 8,
            Self::ClientSubnet(_) => 20,
            Self::Padding(block) => usize::from(*block),
            Self::Other { bytes, .. } => bytes.len(),
        }
    }

    /// Its contents, for a message of this size without the option.
    pub(super) fn bytes(&self, draws: Draws, client: IpAddr, message_bytes: usize) -> Vec<u8> {
        match self {
            Self::Nsid => Vec::new(),
            Self::Cookie(Some(cookie)) => cookie.to_vec(),
            Self::Cookie(None) => draws.by_address(Purpose::Cookie, client).to_be_bytes().to_vec(),
            Self::ClientSubnet(subnet) => {
                let bits = SUBNET_BITS[usize::from(client.is_ipv6())];
                subnet.or_else(|| Prefix::new(client, bits)).map(subnet_bytes).unwrap_or_default()
            }
            Self::Padding(block) => {
                let unpadded = message_bytes + 4;
                vec![0; unpadded.next_multiple_of(usize::from(*block).max(1)) - unpadded]
            }
            Self::Other { bytes, .. } => bytes.clone(),
        }
    }
}

/// FAMILY, SOURCE PREFIX-LENGTH, SCOPE PREFIX-LENGTH 0, and ADDRESS (RFC 7871 6).
fn subnet_bytes(subnet: Prefix) -> Vec<u8> {
    let family = if subnet.address().is_ipv4() { 1 } else { 2 };
    [&[0, family, subnet.length(), 0], subnet.to_bytes().as_slice()].concat()
}

impl FromStr for OptionToAdd {
    /// What is expected instead.
    type Err = &'static str;

    /// Parses `nsid`, `cookie`, `cookie=HEX`, `ecs=client`, `ecs=PREFIX`, `padding=BYTES`, `CODE` or `CODE=HEX`.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let bytes = |text: &str| HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| "write bytes in hex");
        match (name, value) {
            ("nsid", None) => Ok(Self::Nsid),
            ("cookie", None) => Ok(Self::Cookie(None)),
            ("cookie", Some(value)) => {
                let cookie = bytes(value)?.try_into().map_err(|_| "a client cookie has 8 bytes")?;
                Ok(Self::Cookie(Some(cookie)))
            }
            ("ecs", None | Some("client")) => Ok(Self::ClientSubnet(None)),
            ("ecs", Some(value)) => {
                value.parse().map(|subnet| Self::ClientSubnet(Some(subnet))).map_err(|()| "write ecs=192.0.2.0/24")
            }
            ("padding", Some(value)) => {
                let block = value.parse::<u16>().ok().filter(|block| (1..=4_096).contains(block));
                block.map(Self::Padding).ok_or("padding must be 1 to 4096 bytes")
            }
            (name, value) => {
                let code = name.parse::<u16>().map_err(|_| "write nsid, cookie, ecs, padding=128 or CODE=HEX")?;
                Ok(Self::Other { code, bytes: value.map_or(Ok(Vec::new()), bytes)? })
            }
        }
    }
}

/// Parses the code of an option: a number, a name of [`OptionToAdd`], or `keepalive`.
#[must_use]
pub fn option_code(text: &str) -> Option<u16> {
    match text {
        "nsid" => Some(code::NSID),
        "ecs" => Some(code::CLIENT_SUBNET),
        "cookie" => Some(code::COOKIE),
        "keepalive" => Some(code::TCP_KEEPALIVE),
        "padding" => Some(code::PADDING),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        let client = "192.0.2.77".parse().unwrap();
        text.parse::<OptionToAdd>().unwrap().bytes(Draws::new(1, 0), client, 40)
    }

    #[test]
    fn options_are_parsed_and_built() {
        assert!(bytes("nsid").is_empty());
        assert_eq!(bytes("cookie=0011223344556677"), [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]);
        assert_eq!(bytes("cookie").len(), 8);
        assert_eq!(bytes("ecs=client"), [0, 1, 24, 0, 192, 0, 2]);
        assert_eq!(bytes("ecs=2001:db8:ff00::/33"), [0, 2, 33, 0, 0x20, 1, 0x0D, 0xB8, 0x80]);
        assert_eq!(bytes("padding=128").len(), 128 - 44);
        assert!(bytes("padding=44").is_empty());
        assert_eq!((bytes("65001=C0FFEE"), bytes("65001")), (vec![0xC0, 0xFF, 0xEE], vec![]));
    }

    #[test]
    fn invalid_options_are_refused() {
        for wrong in ["", "nsid=1", "cookie=00", "ecs=x", "padding", "padding=0", "padding=5000", "70000", "65001=0"] {
            assert!(wrong.parse::<OptionToAdd>().is_err(), "{wrong}");
        }
        assert_eq!((option_code("ecs"), option_code("65001"), option_code("nothing")), (Some(8), Some(65_001), None));
    }
}
