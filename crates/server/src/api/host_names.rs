//! The host names that requests may use.

use std::net::IpAddr;

/// Host names that requests may use.
pub(crate) struct Hosts {
    /// `api.listen`.
    listen: IpAddr,
    /// `api.hosts`, in lower case.
    names: Vec<String>,
}

impl Hosts {
    pub(crate) fn new(listen: IpAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| bare(name).to_ascii_lowercase()).collect();
        Self { listen: listen.to_canonical(), names }
    }

    /// Whether a request to the address `local` may use this host.
    pub(super) fn allow(&self, host: &str, local: Option<IpAddr>) -> bool {
        let host = bare(host).to_ascii_lowercase();
        match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
            Ok(address) if address.is_loopback() => true,
            // If the API listens on all addresses, the address of the connection is allowed.
            Ok(address) if address == self.listen || Some(address) == local.map(|local| local.to_canonical()) => true,
            _ => host == "localhost" || self.names.contains(&host),
        }
    }
}

/// A name without its last dot, an address without brackets.
fn bare(host: &str) -> &str {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_listen_address_and_configured_hosts_are_allowed() {
        let hosts = Hosts::new("192.0.2.1".parse().unwrap(), &["Node-1.Example.".to_owned(), "[2001:db8::7]".into()]);
        let local = Some("192.0.2.2".parse().unwrap());
        for host in ["localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9", "[::1]", "192.0.2.1", "192.0.2.2"] {
            assert!(hosts.allow(host, local), "{host}");
        }
        for host in ["node-1.example", "NODE-1.example.", "[2001:db8::7]", "[::ffff:192.0.2.1]"] {
            assert!(hosts.allow(host, local), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "192.0.2.3", "", "example", "0.0.0.0"]
        {
            assert!(!hosts.allow(host, local), "{host}");
        }
    }
}
