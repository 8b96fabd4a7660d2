//! Options for the servers to load and the source addresses.

use super::connections::Connections;
use super::expectations::Expectations;
use super::parse::{parse_sockets, parse_subnet, parse_timeout, parse_workers};
use clap::Args;
use load::engine::{HttpPlan, Pace, Plan, TlsPlan};
use load::population::{PopulationTraffic, Server};
use load::workload::Workload;
use measure::Transport;
use report::parse_duration;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::str::FromStr;
use std::time::Duration;

/// Variable with additional addresses and subnets that may be loaded, separated by commas.
const ALLOW_VARIABLE: &str = "CATLAB_ALLOW";

#[derive(Args)]
pub(crate) struct Target {
    /// Servers to query in turns: addresses or host names with an optional port. A link-local address needs %INTERFACE.
    /// An https:// URL selects DNS over HTTPS with this name and path.
    #[arg(long, required = true, value_delimiter = ',')]
    server: Vec<NamedServer>,
    /// Transport of the queries: udp, tcp, dot (or tls), doh or doq. The default is udp, or doh if the server is a URL.
    #[arg(long)]
    transport: Option<Transport>,
    /// Timeout of a query.
    #[arg(long, default_value = "2s", value_parser = parse_timeout)]
    timeout: Duration,
    /// Sending threads. The default is one for every two cores.
    #[arg(long, value_parser = parse_workers)]
    workers: Option<usize>,
    /// UDP sockets per thread and server. Each has its own port.
    #[arg(long, default_value_t = 8, value_parser = parse_sockets)]
    sockets: usize,
    /// Source addresses to use in turn.
    #[arg(long, value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Largest p99 send lag of a valid run.
    #[arg(long, default_value = "1ms", value_parser = parse_duration)]
    pub(crate) lag_limit: Duration,
    #[command(flatten)]
    ownership: Ownership,
    #[command(flatten)]
    expectations: Expectations,
    #[command(flatten)]
    connections: Connections,
}

impl Target {
    /// The plan that sends this workload at this pace.
    ///
    /// # Errors
    /// The target is not allowed, a source is not an address of this machine, or the file of answers is invalid.
    pub(crate) fn plan(&self, workload: Workload, pace: Pace, seed: u64) -> Result<Plan, String> {
        let (transport, path) = self.service()?;
        let port = transport.default_port();
        let servers: Vec<SocketAddr> = self.server.iter().map(|named| named.server.at_or(port)).collect();
        self.allow(servers.iter().copied())?;
        if let Some(population) = pace.traffic::<PopulationTraffic>() {
            self.allow(population.clients.members().iter().map(|(_, endpoint, _)| endpoint.server))?;
        }
        for &source in &self.source {
            // Binding any port shows whether the address belongs to this machine.
            UdpSocket::bind((source, 0)).map_err(|error| format!("--source {source}: {error}"))?;
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let http = self.connections.usage.http();
        Ok(Plan {
            transport,
            timeout: self.timeout,
            worker_count: self.workers.unwrap_or(cores.div_ceil(2)),
            socket_count: self.sockets,
            connection_count: self.connections.connections,
            connection_policy: self.connections.usage.connection_policy(),
            handshake_timeout: self.connections.usage.handshake_timeout,
            tls: self.tls(),
            http: HttpPlan { path: path.unwrap_or(http.path), ..http },
            sources: self.source.clone(),
            expected_rcodes: self.expectations.rcodes.clone(),
            checking: self.expectations.checking()?,
            seed,
            ..Plan::new(servers, workload, pace)
        })
    }

    /// The share of answers to check.
    pub(crate) fn check_share(&self) -> f64 {
        self.expectations.share
    }

    /// The servers. A population gives each transport its own port.
    pub(crate) fn servers(&self) -> Vec<Server> {
        self.server.iter().map(|named| named.server).collect()
    }

    /// The transport, and the path if the servers are URLs.
    fn service(&self) -> Result<(Transport, Option<String>), String> {
        let mut paths = self.server.iter().map(|named| named.path.as_ref());
        let Some(Some(path)) = paths.next() else {
            return match paths.flatten().next() {
                Some(_) => Err("cannot mix URLs and addresses in --server: write URLs only or addresses only".into()),
                None => Ok((self.transport.unwrap_or(Transport::Udp), None)),
            };
        };
        if paths.any(|other| other != Some(path)) {
            return Err("cannot use different paths in --server: write the same path in each URL".into());
        }
        match self.transport {
            None | Some(Transport::Doh) => Ok((Transport::Doh, Some(path.clone()))),
            Some(other) => Err(format!("cannot use --transport {other} with a URL: write an address")),
        }
    }

    /// The name that certificates must have: --tls-name, otherwise the host if all servers have the same host.
    fn tls(&self) -> TlsPlan {
        let plan = self.connections.usage.tls();
        let first = self.server.first().and_then(|named| named.host.clone());
        let is_common = self.server.iter().all(|named| named.host == first);
        TlsPlan { name: plan.name.or(first.filter(|_| is_common)), ..plan }
    }

    /// Checks the targets as [`Ownership::allow`] does.
    ///
    /// # Errors
    /// Names the first server that is not allowed.
    pub(crate) fn allow(&self, servers: impl Iterator<Item = SocketAddr>) -> Result<(), String> {
        self.ownership.allow(servers)
    }
}

/// A server as written on the command line.
#[derive(Clone, Debug)]
struct NamedServer {
    server: Server,
    /// Host name, unless the server is an address.
    host: Option<String>,
    /// Path of the URL, if the server is a URL (RFC 8484 4.1).
    path: Option<String>,
}

impl FromStr for NamedServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (authority, path) = match text.strip_prefix("https://") {
            None => (text, None),
            Some(rest) => match rest.find('/') {
                Some(at) => (&rest[..at], Some(rest[at..].split('{').next().unwrap_or_default())),
                None => (rest, Some("/dns-query")),
            },
        };
        let server: Server = authority.parse()?;
        Ok(Self { server, host: Server::host_name(authority).map(str::to_owned), path: path.map(str::to_owned) })
    }
}

/// Prevents accidental load on other people's servers: they need an explicit option.
#[derive(Args)]
pub(crate) struct Ownership {
    /// Allow a target outside loopback, private and link-local ranges. Only use this for a server that you own.
    #[arg(long)]
    i_own_this_target: bool,
}

impl Ownership {
    /// Checks that these servers may be loaded.
    ///
    /// # Errors
    /// Names the first server that is not allowed.
    pub(crate) fn allow(&self, servers: impl Iterator<Item = SocketAddr>) -> Result<(), String> {
        allow_listed(self.i_own_this_target, servers, &std::env::var(ALLOW_VARIABLE).unwrap_or_default())
    }
}

/// The same with the value of the variable.
fn allow_listed(is_owned: bool, mut servers: impl Iterator<Item = SocketAddr>, listed: &str) -> Result<(), String> {
    let is_own = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local(),
    };
    let allowed = listed.split(',').filter(|word| !word.trim().is_empty()).map(|word| parse_subnet(word.trim()));
    let allowed = allowed.collect::<Result<Vec<_>, _>>().map_err(|error| format!("{ALLOW_VARIABLE}: {error}"))?;
    let is_allowed = |address: IpAddr| is_own(address) || allowed.iter().any(|&subnet| is_in(address, subnet));
    match servers.find(|server| !is_allowed(server.ip())) {
        Some(server) if !is_owned => Err(format!(
            "cannot send to {server}: it is not on loopback, in a private range or link-local. If it is your server, \
             add --i-own-this-target or name it in {ALLOW_VARIABLE}"
        )),
        _ => Ok(()),
    }
}

fn is_in(address: IpAddr, (subnet, length): (IpAddr, u8)) -> bool {
    let (one, other, width) = match (address, subnet) {
        (IpAddr::V4(one), IpAddr::V4(other)) => (u128::from(u32::from(one)), u128::from(u32::from(other)), 32),
        (IpAddr::V6(one), IpAddr::V6(other)) => (u128::from(one), u128::from(other), 128),
        _ => return false,
    };
    length == 0 || (one ^ other) >> (width - u32::from(length)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse::parse_server;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        target: Target,
    }

    /// Checks whether a command with these arguments may load the server, given the value of the variable.
    fn allowed(words: &[&str], server: &str, listed: &str) -> Result<(), String> {
        let line = [&["catlab", "--server", "127.0.0.1"][..], words].concat();
        let Command { target } = Command::try_parse_from(line).map_err(|error| error.to_string())?;
        allow_listed(target.ownership.i_own_this_target, [parse_server(server).unwrap()].into_iter(), listed)
    }

    #[test]
    fn only_own_or_listed_servers_may_be_loaded() {
        let own =
            ["127.0.0.1", "10.1.2.3:5300", "172.16.0.1", "192.168.1.1", "169.254.1.1", "::1", "fd00::1", "fe80::1"];
        for server in own {
            assert_eq!(allowed(&[], server, ""), Ok(()), "{server}");
        }
        for stranger in ["192.0.2.1", "198.51.100.7:5300", "172.32.0.1", "2001:db8::1", "0.0.0.0"] {
            let refused = allowed(&[], stranger, "").unwrap_err();
            assert!(refused.contains("add --i-own-this-target"), "{refused}");
            assert_eq!(allowed(&["--i-own-this-target"], stranger, ""), Ok(()), "{stranger}");
        }
        assert_eq!(allowed(&[], "192.0.2.1", "198.51.100.0/24, 192.0.2.0/24,"), Ok(()));
        assert!(allowed(&[], "192.0.3.1", "198.51.100.0/24,192.0.2.0/24").is_err());
        assert_eq!(allowed(&[], "2001:db8::1", "2001:db8::1"), Ok(()));
        // An invalid list allows nothing.
        let refused = allowed(&[], "127.0.0.1", "192.0.2.0/99").unwrap_err();
        assert!(refused.starts_with("CATLAB_ALLOW: "), "{refused}");
    }

    #[test]
    fn a_url_sets_transport_path_and_name() {
        let target = |words: &[&str]| {
            Command::try_parse_from([&["catlab"][..], words].concat()).map(|command| command.target).unwrap()
        };
        let url = target(&["--server", "https://localhost:8443/q{?dns}"]);
        assert_eq!(url.service(), Ok((Transport::Doh, Some("/q".to_owned()))));
        assert_eq!((url.server[0].server.port, url.tls().name.as_deref()), (Some(8_443), Some("localhost")));
        assert_eq!(target(&["--server", "https://127.0.0.1"]).service().unwrap().1.as_deref(), Some("/dns-query"));
        assert_eq!(target(&["--server", "[::1]:53,127.0.0.1"]).tls().name, None);
        assert_eq!(target(&["--server", "localhost", "--tls-name", "a.b"]).tls().name.as_deref(), Some("a.b"));
        assert_eq!(target(&["--server", "127.0.0.1"]).service(), Ok((Transport::Udp, None)));
        assert!(target(&["--server", "https://127.0.0.1", "--transport", "dot"]).service().is_err());
        assert!(target(&["--server", "https://127.0.0.1,127.0.0.2"]).service().is_err());
        assert!(target(&["--server", "127.0.0.2,https://127.0.0.1"]).service().is_err());
    }

    #[test]
    fn subnets_contain_only_their_addresses() {
        let is_in = |address: &str, subnet: &str| is_in(address.parse().unwrap(), parse_subnet(subnet).unwrap());
        assert!(is_in("198.51.100.7", "198.51.100.0/24") && !is_in("198.51.101.7", "198.51.100.0/24"));
        assert!(is_in("198.51.100.7", "198.51.100.7") && !is_in("198.51.100.8", "198.51.100.7"));
        assert!(is_in("2001:db8::1", "2001:db8::/32") && !is_in("2001:db9::1", "2001:db8::/32"));
        assert!(!is_in("198.51.100.7", "::/0") && is_in("198.51.100.7", "0.0.0.0/0"));
    }
}
