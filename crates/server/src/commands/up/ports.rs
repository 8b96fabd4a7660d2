//! The ports of the nodes. Each transport has a shared port, followed by one port for each node. The API has no shared
//! port.

use cli::limits::UP_NODES_MAX;
use cli::node::up::UpArgs;
use process::problem::{Exit, Problem};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One node of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedNode {
    pub(crate) id: u64,
    /// Over UDP and TCP.
    pub(crate) dns: SocketAddr,
    /// Over TLS, HTTPS and QUIC, where the ports are open.
    pub(crate) dot: Option<SocketAddr>,
    pub(crate) doh: Option<SocketAddr>,
    pub(crate) doq: Option<SocketAddr>,
    pub(crate) api: SocketAddr,
}

/// The ports of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ports {
    /// UDP and TCP.
    pub(crate) dns: u16,
    /// TLS, HTTPS and QUIC, if open.
    pub(crate) dot: Option<u16>,
    pub(crate) doh: Option<u16>,
    pub(crate) doq: Option<u16>,
    pub(crate) api: u16,
}

impl Ports {
    pub(crate) const fn of(args: &UpArgs) -> Self {
        Self { dns: args.port, dot: args.dot_port, doh: args.doh_port, doq: args.doq_port, api: args.api_port }
    }

    /// Whether any transport needs a certificate.
    pub(crate) const fn any_encrypted(&self) -> bool {
        self.dot.is_some() || self.doh.is_some() || self.doq.is_some()
    }

    /// The addresses of `count` nodes. Refuses ports that are too high or overlap.
    pub(crate) fn nodes(&self, count: u64) -> Result<Vec<PlannedNode>, Problem> {
        const { assert!(UP_NODES_MAX < 100) };
        self.check_overlap(count)?;
        let address = |option: &str, port: u16, offset: u16| {
            let why = format!("{option} {port} leaves no room for {count} nodes");
            let own = port.checked_add(offset).filter(|_| port > 0 || option == "--api-port");
            let own = own.ok_or_else(|| Problem::new(Exit::Usage, why, "ports end at 65535"))?;
            Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), own))
        };
        let node = |id: u64| {
            let optional = |option, port: Option<u16>| port.map(|port| address(option, port, id as u16)).transpose();
            Ok(PlannedNode {
                id,
                dns: address("--port", self.dns, id as u16)?,
                dot: optional("--dot-port", self.dot)?,
                doh: optional("--doh-port", self.doh)?,
                doq: optional("--doq-port", self.doq)?,
                api: address("--api-port", self.api, id as u16)?,
            })
        };
        (1..=count).map(node).collect()
    }

    fn check_overlap(&self, count: u64) -> Result<(), Problem> {
        let tcp = [
            ("--port", Some(self.dns), 0),
            ("--dot-port", self.dot, 0),
            ("--doh-port", self.doh, 0),
            ("--api-port", Some(self.api), 1),
        ];
        let udp = [("--port", Some(self.dns), 0), ("--doq-port", self.doq, 0)];
        for options in [&tcp[..], &udp] {
            for (index, (one, port, skipped)) in options.iter().enumerate() {
                let Some(used) = port.map(|port| range(port, *skipped, count)) else { continue };
                for (other, port, skipped) in &options[..index] {
                    let taken = port.map(|port| range(port, *skipped, count));
                    let both = taken.and_then(|taken| used.clone().find(|port| taken.contains(port)));
                    if let Some(both) = both {
                        return Err(Problem::new(
                            Exit::Usage,
                            format!("{other} and {one} overlap"),
                            format!("both would use {both}"),
                        )
                        .hint("choose ports that are further apart"));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The ports in use from `port` on, without the shared one if it is skipped.
fn range(port: u16, skipped: u64, count: u64) -> std::ops::RangeInclusive<u64> {
    u64::from(port) + skipped..=u64::from(port) + count
}

/// A port on both loopback addresses, where there are two.
pub(crate) fn on_loopback(port: u16, has_ipv6: bool) -> Vec<SocketAddr> {
    let mut addresses = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
    if has_ipv6 {
        addresses.push(SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(dns: u16, api: u16, [dot, doh, doq]: [u16; 3]) -> Result<Vec<PlannedNode>, String> {
        let [dot, doh, doq] = [dot, doh, doq].map(|port| Some(port).filter(|port| *port > 0));
        Ports { dns, dot, doh, doq, api }.nodes(3).map_err(|problem| problem.to_string())
    }

    #[test]
    fn ports_must_fit_and_not_overlap() {
        assert!(nodes(65_533, 8_053, [0; 3]).is_err());
        assert!(nodes(5_300, 5_299, [0; 3]).is_err());
        assert!(nodes(5_300, 5_301, [0; 3]).is_err());
        assert!(nodes(5_300, 65_533, [0; 3]).is_err());
        assert!(nodes(0, 8_053, [0; 3]).is_err());
        assert!(nodes(5_300, 5_303, [0; 3]).is_ok());
        let error = nodes(5_300, 8_053, [5_303, 0, 0]).unwrap_err();
        assert!(error.contains("--port and --dot-port overlap") && error.contains("5303"), "{error}");
        assert!(nodes(5_300, 8_053, [8_530, 8_533, 0]).is_err());
        assert!(nodes(5_300, 8_053, [0, 8_054, 0]).is_err());
        assert!(nodes(5_300, 8_053, [0, 0, 5_297]).is_err());
        assert!(nodes(5_300, 8_053, [0, 0, 65_533]).is_err());
        // One is on TCP, the other on UDP.
        let made = nodes(5_300, 8_053, [8_530, 8_440, 8_530]).unwrap();
        let third = made.last().unwrap();
        let ports = [Some(third.dns), third.dot, third.doh, third.doq, Some(third.api)];
        assert_eq!(ports.map(|address| address.unwrap().port()), [5_303, 8_533, 8_443, 8_533, 8_056]);
    }
}
