//! The root servers.

use std::net::IpAddr;

/// A root server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootServer {
    /// Its letter: its name is `LETTER.root-servers.net.`
    pub letter: char,
    /// Its current addresses, IPv4 and IPv6.
    pub addresses: [&'static str; 2],
    /// Its former addresses, which old captures and old hints contain.
    pub past: &'static [&'static str],
}

impl RootServer {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.root-servers.net.", self.letter)
    }
}

/// All thirteen root servers.
pub const ROOT_SERVERS: [RootServer; 13] = [
    server('a', ["198.41.0.4", "2001:503:ba3e::2:30"], &[]),
    server(
        'b',
        ["170.247.170.2", "2801:1b8:10::b"],
        &["199.9.14.201", "2001:500:200::b", "192.228.79.201", "2001:500:84::b", "128.9.0.107"],
    ),
    server('c', ["192.33.4.12", "2001:500:2::c"], &[]),
    server('d', ["199.7.91.13", "2001:500:2d::d"], &["128.8.10.90"]),
    server('e', ["192.203.230.10", "2001:500:a8::e"], &[]),
    server('f', ["192.5.5.241", "2001:500:2f::f"], &[]),
    server('g', ["192.112.36.4", "2001:500:12::d0d"], &[]),
    server('h', ["198.97.190.53", "2001:500:1::53"], &["128.63.2.53", "2001:500:1::803f:235"]),
    server('i', ["192.36.148.17", "2001:7fe::53"], &[]),
    server('j', ["192.58.128.30", "2001:503:c27::2:30"], &["198.41.0.10"]),
    server('k', ["193.0.14.129", "2001:7fd::1"], &[]),
    server('l', ["199.7.83.42", "2001:500:9f::42"], &["198.32.64.12", "2001:500:3::42"]),
    server('m', ["202.12.27.33", "2001:dc3::35"], &[]),
];

/// All current addresses.
pub fn addresses() -> impl Iterator<Item = IpAddr> {
    ROOT_SERVERS.into_iter().flat_map(|server| server.addresses).filter_map(|text| text.parse().ok())
}

/// Whether a root server has or had this address.
#[must_use]
pub fn is_root_server(address: IpAddr) -> bool {
    let past = ROOT_SERVERS.into_iter().flat_map(|server| server.past.iter().copied());
    addresses().chain(past.filter_map(|text| text.parse().ok())).any(|known| known == address)
}

const fn server(letter: char, addresses: [&'static str; 2], past: &'static [&'static str]) -> RootServer {
    RootServer { letter, addresses, past }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_server_addresses_are_valid_and_distinct() {
        let texts = || {
            let of = |server: RootServer| server.addresses.into_iter().chain(server.past.iter().copied());
            ROOT_SERVERS.into_iter().flat_map(of)
        };
        let mut parsed: Vec<IpAddr> = texts().map(|text| text.parse().unwrap()).collect();
        assert!(parsed.iter().all(|address| is_root_server(*address)));
        parsed.sort_unstable();
        parsed.dedup();
        assert_eq!(parsed.len(), texts().count());
        assert_eq!(addresses().count(), 26);
        assert!(!is_root_server("192.0.2.1".parse().unwrap()));
    }
}
