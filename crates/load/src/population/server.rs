//! A server on the command line or in a population: an address, or a host name that is looked up once.

use std::net::{IpAddr, SocketAddr, SocketAddrV6, ToSocketAddrs};

/// Longest host name in characters (RFC 1035 2.3.4).
const HOST_LETTERS_MAX: usize = 253;
/// Longest interface name in characters.
const INTERFACE_LETTERS_MAX: usize = 15;

/// A server address with an optional port. Without one, the port of the transport applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// Address.
    pub address: IpAddr,
    /// Port, if one is given.
    pub port: Option<u16>,
    /// Interface index of a link-local address (RFC 4007 6), otherwise zero.
    pub scope: u32,
}

impl Server {
    /// A server whose address is not link-local.
    #[must_use]
    pub const fn new(address: IpAddr, port: Option<u16>) -> Self {
        Self { address, port, scope: 0 }
    }

    /// Host name of a server, unless the server is an address.
    #[must_use]
    pub fn host_name(text: &str) -> Option<&str> {
        let (host, _) = split(text)?;
        let is_address = host.parse::<IpAddr>().is_ok() || host.contains('%');
        (!is_address).then_some(host)
    }

    /// Socket address with this port.
    #[must_use]
    pub fn at(&self, port: u16) -> SocketAddr {
        match self.address {
            IpAddr::V4(address) => (address, port).into(),
            IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, self.scope).into(),
        }
    }

    /// Socket address with the port of the server, otherwise with this one.
    #[must_use]
    pub fn at_or(&self, port: u16) -> SocketAddr {
        self.at(self.port.unwrap_or(port))
    }
}

impl std::str::FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_server = || {
            format!(
                "{text} is not a server; write 127.0.0.1, [::1]:5300, [fe80::1%eth0]:53, ns1.example.com or name:5300"
            )
        };
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::new(address, None));
        }
        let (host, port) = split(text).ok_or_else(no_server)?;
        let port = port.map(|port| port.parse().map_err(|_| no_server())).transpose()?;
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Self::new(address, port));
        }
        if let Some((address, zone)) = host.split_once('%') {
            let address = IpAddr::V6(address.parse().map_err(|_| no_server())?);
            return Ok(Self { address, port, scope: scope_of(zone)? });
        }
        let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
        // A name of only digits and dots is a mistyped address.
        let is_name = host.bytes().any(|letter| letter.is_ascii_alphabetic());
        if !is_name || host.len() > HOST_LETTERS_MAX || !host.bytes().all(is_letter) {
            return Err(no_server());
        }
        let mut found = (host, 0).to_socket_addrs().map_err(|error| format!("cannot look up {host}: {error}"))?;
        let found = found.next().ok_or_else(|| format!("cannot look up {host}: it has no address"))?;
        Ok(Self { address: found.ip(), port, scope: 0 })
    }
}

/// Splits the host and the optional port.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        return if rest.is_empty() { Some((host, None)) } else { Some((host, Some(rest.strip_prefix(':')?))) };
    }
    match text.split_once(':') {
        // An IPv6 address without a port.
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

/// Index of an interface, given as a number or a name.
fn scope_of(zone: &str) -> Result<u32, String> {
    if let Ok(number) = zone.parse() {
        return Ok(number);
    }
    let is_name = !zone.is_empty() && zone.len() <= INTERFACE_LETTERS_MAX && !zone.starts_with('.');
    let number = Some(zone).filter(|zone| is_name && !zone.contains('/'));
    let number = number.and_then(|zone| std::fs::read_to_string(format!("/sys/class/net/{zone}/ifindex")).ok());
    number
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| format!("{zone} is not a network interface here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_address_name_and_interface() {
        let read = |text: &str| text.parse::<Server>().map(|server| server.at_or(53).to_string());
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:53"),
            ("127.0.0.1:5300", "127.0.0.1:5300"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
            ("fe80::1%3", "[fe80::1%3]:53"),
            ("[fe80::1%lo]:5300", "[fe80::1%1]:5300"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
        let local = read("localhost:5300").unwrap();
        assert!(["127.0.0.1:5300", "[::1]:5300"].contains(&local.as_str()), "{local}");
        for text in ["", "127.0.0.1:x", "127.0.0", "[::1", "[::1]x", "a b", "fe80::1%nothere0", "fe80::1%../lo", ":53"]
        {
            assert!(read(text).is_err(), "{text}");
        }
        let error = "127.0.0.300".parse::<Server>().unwrap_err();
        assert!(error.starts_with("127.0.0.300 is not a server; write"), "{error}");
    }
}
