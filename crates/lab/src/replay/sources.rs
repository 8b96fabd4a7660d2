//! Where the sources of a trace are on this machine: whether each has its own address, or at least one of its own.

use super::ReplayError;
use super::survey::Survey;
use crate::limits::REPLAY_ADDRESSES_CHECKED;
use crate::workload::read_subnet;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

/// Open files that are kept for all else than the sockets of sources.
const FILES_BESIDES: u64 = 256;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sources {
    /// Each sends from the address that it had; answers come back only where this machine has all of these addresses.
    Addresses,
    /// Each has a socket of its own, all at one address: ports tell them apart.
    Sockets,
    /// Each has an address of a network of this machine.
    Prefix(Prefix),
}

/// A network whose addresses are this machine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    network: IpAddr,
    length: u8,
}

impl Prefix {
    /// What Linux has on every machine.
    pub const LOOPBACK: Self = Self { network: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), length: 8 };

    /// Its addresses but the first and the last, which have other meanings in IPv4 (RFC 1122 3.2.1.3).
    fn room(self) -> u128 {
        let width = if self.network.is_ipv4() { 32 } else { 128 };
        let size = 1_u128 << u32::from(width - self.length).min(100);
        if size > 2 { size - 2 } else { size }
    }

    /// The address of source `number`; those beyond its room have that of another source.
    fn address(self, number: u32) -> IpAddr {
        let first = u128::from(self.room() > 2);
        let offset = first + u128::from(number) % self.room();
        match self.network {
            IpAddr::V4(network) => Ipv4Addr::from(u32::from(network).wrapping_add(offset as u32)).into(),
            IpAddr::V6(network) => Ipv6Addr::from(u128::from(network).wrapping_add(offset)).into(),
        }
    }

    /// Whether so many sources have an address each.
    pub(super) fn holds(self, sources: usize) -> bool {
        self.room() >= sources as u128
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.length)
    }
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

/// The address without what is beyond the length.
fn network(address: IpAddr, length: u8) -> IpAddr {
    let mask = |width: u32| if length == 0 { 0 } else { u128::MAX << (width - u32::from(length)) };
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & mask(32) as u32).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & mask(128)).into(),
    }
}

impl Sources {
    /// What is wanted, or without a wish what tells sources apart best and works here: their own addresses where they
    /// are this machine's, those of loopback towards a server there, otherwise a socket each.
    ///
    /// # Errors
    /// When it cannot be had here.
    pub(super) fn choose(
        wanted: Option<Self>,
        survey: &Survey,
        servers: &[SocketAddr],
        open_files_max: u64,
    ) -> Result<Self, ReplayError> {
        let has_family = |is_ipv4: bool| servers.iter().any(|server| server.is_ipv4() == is_ipv4);
        let apart = || survey.clients.iter().find(|client| !has_family(client.address.is_ipv4()));
        let stranger = || first_foreign_address(survey);
        match wanted {
            Some(Self::Addresses) => match (apart(), stranger()) {
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
            None if apart().is_none() && stranger().is_none() => Ok(Self::Addresses),
            None if servers.iter().all(|server| server.is_ipv4() && server.ip().is_loopback()) => {
                Ok(Self::Prefix(Prefix::LOOPBACK))
            }
            None => check_sockets(survey, open_files_max),
        }
    }

    /// From where a source sends; `None` where the kernel chooses.
    pub(super) fn address(self, own: IpAddr, number: u32) -> Option<IpAddr> {
        match self {
            Self::Addresses => Some(own),
            Self::Sockets => None,
            Self::Prefix(prefix) => Some(prefix.address(number)),
        }
    }

    /// The address family, IPv4 or not, in which a source of one sends.
    pub(super) fn family(self, is_ipv4: bool) -> bool {
        match self {
            Self::Addresses | Self::Sockets => is_ipv4,
            Self::Prefix(prefix) => prefix.network.is_ipv4(),
        }
    }
}

fn check_sockets(survey: &Survey, open_files_max: u64) -> Result<Sources, ReplayError> {
    let wanted = survey.client_count() as u64 + FILES_BESIDES;
    if wanted > open_files_max {
        return Err(ReplayError::OpenFiles { wanted, open_files_max });
    }
    Ok(Sources::Sockets)
}

/// A source that is no address of this machine, by a look at some of them all over the trace.
fn first_foreign_address(survey: &Survey) -> Option<IpAddr> {
    let step = survey.clients.len().div_ceil(REPLAY_ADDRESSES_CHECKED).max(1);
    survey.clients.iter().step_by(step).map(|client| client.address).find(|&address| !is_local(address))
}

/// Whether what is sent to an address comes to this machine. Nothing is sent.
fn is_local(address: IpAddr) -> bool {
    if address.is_unspecified() || address.is_multicast() {
        return false;
    }
    // IPv4: a socket may be bound to every address that a route calls local (ip-route(8)).
    if UdpSocket::bind((address, 0)).is_ok() {
        return true;
    }
    // IPv6: only to those of an interface. Towards one that a route calls local the kernel would send from itself.
    let IpAddr::V6(_) = address else { return false };
    let own = || {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP)).ok()?;
        socket.connect(&SocketAddr::new(address, 53).into()).ok()?;
        socket.local_addr().ok()?.as_socket()
    };
    own().is_some_and(|own| own.ip().is_loopback() || own.ip() == address)
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
        assert_eq!((small.to_string(), small.room()), ("10.1.2.64/28".into(), 14));
        let given: BTreeSet<IpAddr> = (0..14).map(|number| small.address(number)).collect();
        assert_eq!((given.len(), small.address(14)), (14, small.address(0)));
        assert_eq!(given.first().unwrap().to_string(), "10.1.2.65");
        assert_eq!(given.last().unwrap().to_string(), "10.1.2.78");
        assert!(small.holds(14) && !small.holds(15));
        assert_eq!(Prefix::LOOPBACK.address(255).to_string(), "127.0.1.0");
        assert_eq!(prefix("fd00::/64").address(0x1_0000).to_string(), "fd00::1:1");
        assert_eq!(prefix("192.0.2.9/32").address(5).to_string(), "192.0.2.9");
        assert!(prefix("::/0").holds(usize::MAX) && prefix("0.0.0.0/0").room() == (1 << 32) - 2);
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
