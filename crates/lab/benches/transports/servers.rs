//! The servers under test, each with one thread on one core, and the transports of each.

use super::machine::{self, SERVER_CORE, bind_process, family, on_cores, role};
use super::zones::{APEX, Zone};
use measure::Transport;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use testbed::{Cluster, Encryption, Kind, Peer, ServedZone, Setup};

/// All servers, in the order of their turns. Catamaran is first, because the others use its certificate.
pub(crate) const NAMES: [&str; 6] = [OURS, ECHO, "knot", "nsd", "bind", "unbound"];
/// The server of this project.
pub(crate) const OURS: &str = "catamaran";
/// The upper bound for any server over the kernel's TCP.
pub(crate) const ECHO: &str = "echo";
/// Seconds until a server closes an idle connection: longer than a turn.
const IDLE_S: u32 = 120;
/// Connection limit of each server: more than any cell uses.
const CONNECTIONS_MAX: usize = 16_000;
/// Open files of a server besides its connections.
const FILES_OTHER: usize = 1_000;

/// A running server. It is stopped on drop.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    process: Process,
    ports: Ports,
}

enum Process {
    Catamaran(Cluster),
    Echo(machine::Server),
    Peer(Peer),
}

/// The ports of a server.
#[derive(Clone, Copy, Default)]
struct Ports {
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    dot: Option<SocketAddr>,
    doh: Option<SocketAddr>,
    doq: Option<SocketAddr>,
}

/// A certificate chain and its key, in PEM.
pub(crate) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
}

impl Server {
    /// Starts catamaran with room for all connections. Also returns its certificate.
    pub(crate) fn ours(zone: &Zone, folder: &Path) -> Result<(Self, Certificate), String> {
        let zones = [ServedZone::new(APEX, &zone.file)];
        let edits = [
            ("connections_max = 16384", "connections_max = 65536"),
            ("connections_per_client_max = 2048", "connections_per_client_max = 65536"),
            ("idle_ms = 10000", "idle_ms = 60000"),
            ("memory_bytes_max = 1073741824", "memory_bytes_max = 4294967296"),
        ];
        let started = on_cores(&[SERVER_CORE], || Cluster::start(&folder.join("catamaran"), &zones, &edits));
        let own = started.map_err(|error| error.to_string())?;
        let node = own.cluster_folder().join("node-1");
        let certificate = Certificate { chain: node.join("dns.pem"), key: node.join("dns.key") };
        let (dot, doh) = (own.dot(), own.doh());
        let dns = Some(own.dns());
        let ports = Ports { udp: dns, tcp: dns, dot: Some(dot), doh: Some(doh), doq: Some(dot) };
        Ok((Self { name: OURS, process: Process::Catamaran(own), ports }, certificate))
    }

    /// Starts another server, and says so if it is not installed. Unbound runs once per transport, because it reserves
    /// files for the maximum number of connections on each of its ports.
    pub(crate) fn peer(
        name: &'static str,
        zone: &Zone,
        folder: &Path,
        certificate: &Certificate,
    ) -> Result<Vec<Self>, String> {
        let kind = match name {
            ECHO => return Ok(vec![Self::echo()?]),
            "knot" => Kind::Knot,
            "nsd" => Kind::Nsd,
            "bind" => Kind::Bind,
            _ => Kind::Unbound,
        };
        if kind.program().is_none() {
            eprintln!("skipped: {name} is not installed");
            return Ok(Vec::new());
        }
        let dns = free_address()?;
        let [dot, doh] = [free_address()?.port(), free_address()?.port()];
        let at = |port| Some(SocketAddr::new(dns.ip(), port));
        let plain = Ports { udp: Some(dns), tcp: Some(dns), ..Ports::default() };
        let parts = match kind {
            Kind::Nsd => vec![Ports { dot: at(dot), ..plain }],
            Kind::Bind => vec![Ports { dot: at(dot), doh: at(doh), ..plain }],
            Kind::Unbound => vec![
                plain,
                // This instance also answers over UDP.
                Ports { udp: at(dot), dot: at(dot), ..Ports::default() },
                Ports { udp: at(doh), doh: at(doh), ..Ports::default() },
            ],
            _ => vec![plain],
        };
        let start = |(index, ports): (usize, Ports)| {
            Self::start(name, kind, &folder.join(format!("{name}-{index}")), zone, certificate, ports)
        };
        parts.into_iter().enumerate().map(start).collect()
    }

    fn start(
        name: &'static str,
        kind: Kind,
        folder: &Path,
        zone: &Zone,
        certificate: &Certificate,
        ports: Ports,
    ) -> Result<Self, String> {
        let encryption = Encryption {
            certificate: certificate.chain.clone(),
            key: certificate.key.clone(),
            dot: ports.dot.map(|address| address.port()),
            doh: ports.doh.map(|address| address.port()),
        };
        let zones = vec![ServedZone::new(APEX, &zone.file)];
        let address = ports.udp.ok_or("every server answers over UDP")?;
        let setup = Setup {
            connections_max: Some(connections_max(kind)),
            idle_s: Some(IDLE_S),
            encryption: (ports.dot.is_some() || ports.doh.is_some()).then_some(encryption),
            ..Setup::new(folder, address, zones)
        };
        let peer = on_cores(&[SERVER_CORE], || testbed::start(kind, &setup)).map_err(|error| error.to_string())?;
        let server = Self { name, process: Process::Peer(peer), ports };
        // Some servers choose the cores of their threads themselves.
        server.pids().into_iter().for_each(|pid| bind_process(pid, SERVER_CORE));
        Ok(server)
    }

    /// Starts the TCP echo on the same core.
    fn echo() -> Result<Self, String> {
        let server = machine::Server::start(role(Some(SERVER_CORE), &["echo"]))?;
        let tcp = server.address.parse().map_err(|_| format!("the echo printed {}", server.address))?;
        let ports = Ports { tcp: Some(tcp), ..Ports::default() };
        Ok(Self { name: ECHO, process: Process::Echo(server), ports })
    }

    /// The address for this transport, or `None` if the server does not support it.
    pub(crate) fn address(&self, transport: Transport) -> Option<SocketAddr> {
        match transport {
            Transport::Udp => self.ports.udp,
            Transport::Tcp => self.ports.tcp,
            Transport::Dot => self.ports.dot,
            Transport::Doh => self.ports.doh,
            Transport::Doq => self.ports.doq,
        }
    }

    /// Its processes. The first one started the others.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.process {
            Process::Catamaran(own) => family(own.pid()),
            Process::Echo(server) => family(server.pid()),
            Process::Peer(peer) => family(peer.pid()),
        }
    }

    /// The value for `--monitor`, which counts a process with all its descendants.
    pub(crate) fn monitored(&self) -> String {
        let first = self.pids().first().copied().unwrap_or_default();
        format!("pid:{first}")
    }
}

fn free_address() -> Result<SocketAddr, String> {
    testbed::free_address().map_err(|error| error.to_string())
}

/// The connection limit of a server.
fn connections_max(kind: Kind) -> usize {
    match kind {
        // With the same limit as the other servers, it kept 10,948 of 15,000 connections.
        Kind::Nsd => 2 * CONNECTIONS_MAX,
        // Unbound allocates a buffer and reserves a file for each connection at start. It shortens its idle timeout as
        // they fill up, so with 20,000 files it does not keep 15,000 connections.
        Kind::Unbound => (2 * CONNECTIONS_MAX).min(files_max().saturating_sub(FILES_OTHER)),
        _ => CONNECTIONS_MAX,
    }
}

/// The maximum number of open files of a process.
fn files_max() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    line.split_whitespace().nth(4).and_then(|word| word.parse().ok()).unwrap_or(usize::MAX)
}
