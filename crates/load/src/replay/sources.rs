//! Maps the sources of a trace to local addresses or sockets.

use super::error::ReplayError;
use super::prefix::Prefix;
use super::survey::Survey;
use crate::limits::REPLAY_ADDRESSES_CHECKED;
use crate::workload::read_subnet;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

/// Open files reserved for everything else.
const FILES_BESIDES: u64 = 256;

/// How sources are mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sources {
    /// Each source keeps its address. Answers only arrive if all addresses are local.
    Addresses,
    /// Each source has its own socket, with the same address and another port.
    Sockets,
    /// Each source has an address of a local network.
    Prefix(Prefix),
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses => f.write_str("addresses"),
            Self::Sockets => f.write_str("sockets"),
            Self::Prefix(prefix) => write!(f, "prefix={prefix}"),
        }
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("prefix=").and_then(read_subnet)) {
            ("addresses", _) => Ok(Self::Addresses),
            ("sockets", _) => Ok(Self::Sockets),
            ("prefix", _) => Ok(Self::Prefix(Prefix::LOOPBACK)),
            (_, Some((address, length))) => Ok(Self::Prefix(Prefix { network: network(address, length), length })),
            _ => Err(format!("{text}: write addresses, sockets, prefix (127.0.0.0/8) or prefix=10.0.0.0/8")),
        }
    }
}

/// Clears the bits after the prefix length.
fn network(address: IpAddr, length: u8) -> IpAddr {
    let mask = |width: u32| if length == 0 { 0 } else { u128::MAX << (width - u32::from(length)) };
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & mask(32) as u32).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & mask(128)).into(),
    }
}

impl Sources {
    /// Checks the requested mapping, or chooses the best one: original addresses if they are local, loopback addresses
    /// for a server on loopback, otherwise sockets.
    ///
    /// # Errors
    /// If the mapping is not possible here.
    pub(super) fn choose(
        requested: Option<Self>,
        survey: &Survey,
        servers: &[SocketAddr],
        open_files_max: u64,
    ) -> Result<Self, ReplayError> {
        let has_family = |is_ipv4: bool| servers.iter().any(|server| server.is_ipv4() == is_ipv4);
        let client_without_server = || survey.clients.iter().find(|client| !has_family(client.address.is_ipv4()));
        let foreign_address = || first_foreign_address(survey);
        match requested {
            Some(Self::Addresses) => match (client_without_server(), foreign_address()) {
                (Some(client), _) => Err(ReplayError::Family(client.address)),
                (None, Some(address)) => Err(ReplayError::ForeignSource(address)),
                (None, None) => Ok(Self::Addresses),
            },
            Some(Self::Sockets) => check_sockets(survey, open_files_max),
            Some(Self::Prefix(prefix)) if !has_family(prefix.network.is_ipv4()) => {
                Err(ReplayError::Family(prefix.network))
            }
            Some(Self::Prefix(prefix)) => match is_local(prefix.address(0)) {
                true => Ok(Self::Prefix(prefix)),
                false => Err(ReplayError::PrefixNotLocal(prefix)),
            },
            None if client_without_server().is_none() && foreign_address().is_none() => Ok(Self::Addresses),
            None if servers.iter().all(|server| server.is_ipv4() && server.ip().is_loopback()) => {
                Ok(Self::Prefix(Prefix::LOOPBACK))
            }
            None => check_sockets(survey, open_files_max),
        }
    }

    /// The source address, or `None` if the kernel chooses.
    pub(super) fn address(self, original: IpAddr, number: u32) -> Option<IpAddr> {
        match self {
            Self::Addresses => Some(original),
            Self::Sockets => None,
            Self::Prefix(prefix) => Some(prefix.address(number)),
        }
    }

    /// Whether a source of this address family sends over IPv4.
    pub(super) fn family(self, is_ipv4: bool) -> bool {
        match self {
            Self::Addresses | Self::Sockets => is_ipv4,
            Self::Prefix(prefix) => prefix.network.is_ipv4(),
        }
    }
}

fn check_sockets(survey: &Survey, open_files_max: u64) -> Result<Sources, ReplayError> {
    let needed = survey.client_count() as u64 + FILES_BESIDES;
    if needed > open_files_max {
        return Err(ReplayError::OpenFiles { needed, open_files_max });
    }
    Ok(Sources::Sockets)
}

/// The first source that is not a local address, among a sample of all sources.
fn first_foreign_address(survey: &Survey) -> Option<IpAddr> {
    let step = survey.clients.len().div_ceil(REPLAY_ADDRESSES_CHECKED).max(1);
    survey.clients.iter().step_by(step).map(|client| client.address).find(|&address| !is_local(address))
}

/// Whether an address is local. Sends nothing.
fn is_local(address: IpAddr) -> bool {
    if address.is_unspecified() || address.is_multicast() {
        return false;
    }
    // IPv4: a socket can bind to every address that is routed as local (ip-route(8)).
    if UdpSocket::bind((address, 0)).is_ok() {
        return true;
    }
    // IPv6: only to addresses of an interface. For other local addresses, the kernel chooses the destination as the
    // source.
    let IpAddr::V6(_) = address else { return false };
    let local_address = || {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).ok()?;
        socket.connect(&SocketAddr::new(address, 53).into()).ok()?;
        socket.local_addr().ok()?.as_socket()
    };
    local_address().is_some_and(|local| local.ip().is_loopback() || local.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn prefix(text: &str) -> Prefix {
        match format!("prefix={text}").parse() {
            Ok(Sources::Prefix(prefix)) => prefix,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn sources_get_distinct_addresses_while_the_prefix_lasts() {
        let small = prefix("10.1.2.77/28");
        assert_eq!((small.to_string(), small.address_count()), ("10.1.2.64/28".into(), 14));
        let given: BTreeSet<IpAddr> = (0..14).map(|number| small.address(number)).collect();
        assert_eq!((given.len(), small.address(14)), (14, small.address(0)));
        assert_eq!(given.first().unwrap().to_string(), "10.1.2.65");
        assert_eq!(given.last().unwrap().to_string(), "10.1.2.78");
        assert!(small.has_room_for(14) && !small.has_room_for(15));
        assert_eq!(Prefix::LOOPBACK.address(255).to_string(), "127.0.1.0");
        assert_eq!(prefix("fd00::/64").address(0x1_0000).to_string(), "fd00::1:1");
        assert_eq!(prefix("192.0.2.9/32").address(5).to_string(), "192.0.2.9");
        assert!(prefix("::/0").has_room_for(usize::MAX) && prefix("0.0.0.0/0").address_count() == (1 << 32) - 2);
    }

    #[test]
    fn local_addresses_are_recognized_without_sending() {
        let local = |text: &str| is_local(text.parse().unwrap());
        assert!(local("127.0.0.1") && local("127.200.3.4"));
        assert!(!local("192.0.2.1") && !local("0.0.0.0") && !local("224.0.0.1") && !local("2001:db8::1"));
    }

    #[test]
    fn sources_survive_parse_and_display() {
        for text in ["addresses", "sockets", "prefix=127.0.0.0/8", "prefix=fd00::/64"] {
            assert_eq!(text.parse::<Sources>().unwrap().to_string(), text);
        }
        assert_eq!("prefix".parse::<Sources>(), Ok(Sources::Prefix(Prefix::LOOPBACK)));
        for text in ["", "address", "prefix=", "prefix=10.0.0.0/33", "prefix:10.0.0.0/8"] {
            assert!(text.parse::<Sources>().is_err(), "{text}");
        }
    }
}
