//! The servers that take turns, each with one thread on one core, and the transports that each has.

use super::catamaran_server::CatamaranServer;
use super::machine::{self, SERVER_CORE, bind_process, family, on_cores, role};
use super::zones::{APEX, Zone};
use lab::engine::Transport;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Every server, in the order of their turns; ours is first, since the others take its certificate.
pub(crate) const NAMES: [&str; 6] = [OURS, ECHO, "knot", "nsd", "bind", "unbound"];
/// Ours.
pub(crate) const OURS: &str = "catamaran";
/// What the kernel's TCP asks of any server, and nothing else.
pub(crate) const ECHO: &str = "echo";
/// How long one may take to answer, and to end.
const READY_MAX: Duration = Duration::from_secs(120);
/// Connections that each lets in, which is more than any cell has.
const CONNECTIONS_MAX: usize = 16_000;
/// Files of a server that are no connections.
const FILES_OTHER: usize = 1_000;

/// A running server; it ends with this value.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    process: Process,
    ports: Ports,
}

enum Process {
    CatamaranServer(CatamaranServer),
    Echo(machine::Server),
    Peer(Child),
}

/// Where it answers.
#[derive(Clone, Copy, Default)]
struct Ports {
    udp: Option<SocketAddr>,
    tcp: Option<SocketAddr>,
    dot: Option<SocketAddr>,
    doh: Option<SocketAddr>,
    doq: Option<SocketAddr>,
}

/// A chain and its key, PEM.
pub(crate) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
}

impl Server {
    /// Ours, with room for all connections, and the certificate that it made.
    pub(crate) fn ours(zone: &Zone, folder: &Path) -> Result<(Self, Certificate), String> {
        let own = CatamaranServer::start(
            &folder.join("catamaran"),
            &[(APEX, &zone.file)],
            &[SERVER_CORE],
            &[
                ("connections_max = 16384", "connections_max = 65536"),
                ("connections_per_client_max = 2048", "connections_per_client_max = 65536"),
                ("idle_ms = 10000", "idle_ms = 60000"),
                ("memory_bytes_max = 1073741824", "memory_bytes_max = 4294967296"),
            ],
        )?;
        let node = own.cluster().join("node-1");
        let certificate = Certificate { chain: node.join("dns.pem"), key: node.join("dns.key") };
        let (dot, doh) = (own.dot(), own.doh());
        let dns = Some(own.dns());
        let ports = Ports { udp: dns, tcp: dns, dot: Some(dot), doh: Some(doh), doq: Some(dot) };
        Ok((Self { name: OURS, process: Process::CatamaranServer(own), ports }, certificate))
    }

    /// One of the others; none, said plainly, when it is not installed. Unbound is one for each transport: it counts
    /// files for as many connections as are let in on each of its ports.
    pub(crate) fn peer(
        name: &'static str,
        zone: &Zone,
        folder: &Path,
        certificate: &Certificate,
    ) -> Result<Vec<Self>, String> {
        if name == ECHO {
            return Ok(vec![Self::echo()?]);
        }
        let (program, arguments): (&str, &[&str]) = match name {
            "knot" => ("knotd", &["-c"]),
            "nsd" => ("nsd", &["-d", "-c"]),
            "bind" => ("named", &["-g", "-n", "1", "-c"]),
            _ => ("unbound", &["-d", "-c"]),
        };
        let path = std::env::var("PATH").unwrap_or_default();
        let mut folders = path.split(':').chain(["/usr/sbin"]);
        if !folders.any(|folder| Path::new(folder).join(program).is_file()) {
            eprintln!("skipped: {name} is not installed");
            return Ok(Vec::new());
        }
        let [dns, dot, doh] = free_addresses()?;
        let here = Here { folder: &folder.join(name), zone, certificate, dns, dot, doh };
        let plain = Ports { udp: Some(dns), tcp: Some(dns), ..Ports::default() };
        let (dot, doh) = (Some(dot), Some(doh));
        let parts = match name {
            "knot" => vec![(here.knot(), plain)],
            "nsd" => vec![(here.nsd(), Ports { dot, ..plain })],
            "bind" => vec![(here.bind(), Ports { dot, doh, ..plain })],
            _ => vec![
                (here.unbound(here.dns), plain),
                // It answers over UDP there, too.
                (here.unbound(here.dot), Ports { udp: dot, dot, ..Ports::default() }),
                (here.unbound(here.doh), Ports { udp: doh, doh, ..Ports::default() }),
            ],
        };
        std::fs::create_dir_all(here.folder).map_err(|error| format!("{}: {error}", here.folder.display()))?;
        let system = ["/usr/sbin", &path].join(":");
        let start = |(index, (text, ports)): (usize, (String, Ports))| {
            let config = here.folder.join(format!("config-{index}"));
            std::fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
            let mut command = Command::new(program);
            command.args(arguments).arg(&config).current_dir(here.folder).env("PATH", &system);
            Self::start(name, command, &here.folder.join(format!("output-{index}")), ports)
        };
        parts.into_iter().enumerate().map(start).collect()
    }

    fn start(name: &'static str, mut command: Command, output: &Path, ports: Ports) -> Result<Self, String> {
        let log = File::create(output).map_err(|error| format!("{}: {error}", output.display()))?;
        let twin = log.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(log).stderr(twin);
        let child = on_cores(&[SERVER_CORE], || command.spawn()).map_err(|error| format!("{name}: {error}"))?;
        let mut server = Self { name, process: Process::Peer(child), ports };
        server.wait(output)?;
        // Some bind their threads to cores of their own choice.
        server.pids().into_iter().for_each(|pid| bind_process(pid, SERVER_CORE));
        Ok(server)
    }

    /// The bare loop over TCP, on the same core.
    fn echo() -> Result<Self, String> {
        let server = machine::Server::start(role(Some(SERVER_CORE), &["echo"]))?;
        let tcp = server.address.parse().map_err(|_| format!("the echo printed {}", server.address))?;
        let ports = Ports { tcp: Some(tcp), ..Ports::default() };
        Ok(Self { name: ECHO, process: Process::Echo(server), ports })
    }

    /// Where it answers over this; `None` when it does not.
    pub(crate) fn address(&self, transport: Transport) -> Option<SocketAddr> {
        match transport {
            Transport::Udp => self.ports.udp,
            Transport::Tcp => self.ports.tcp,
            Transport::Dot => self.ports.dot,
            Transport::Doh => self.ports.doh,
            Transport::Doq => self.ports.doq,
        }
    }

    /// Its processes, the first being the one that started the others.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.process {
            Process::CatamaranServer(own) => own.pids(),
            Process::Echo(server) => family(server.pid()),
            Process::Peer(child) => family(child.id()),
        }
    }

    /// What `--monitor` is told: it counts a process with all that descend from it.
    pub(crate) fn monitored(&self) -> String {
        let first = self.pids().first().copied().unwrap_or_default();
        format!("pid:{first}")
    }

    /// Until it listens on each of its ports, and answers.
    fn wait(&mut self, output: &Path) -> Result<(), String> {
        let ports = self.ports;
        let streams = [ports.tcp, ports.dot, ports.doh];
        let listens = || streams.into_iter().flatten().all(|address| TcpStream::connect(address).is_ok());
        let until = Instant::now() + READY_MAX;
        while !(listens() && ports.udp.is_none_or(answers)) {
            let has_ended = match &mut self.process {
                Process::Peer(child) => !matches!(child.try_wait(), Ok(None)),
                Process::CatamaranServer(_) | Process::Echo(_) => false,
            };
            if has_ended || Instant::now() > until {
                let said = std::fs::read_to_string(output).unwrap_or_default();
                return Err(format!("{} does not answer; it said:\n{said}", self.name));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Process::Peer(child) = &mut self.process else { return };
        machine::end(child);
    }
}

/// Whether a query for the apex's SOA gets one.
fn answers(server: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        let apex: wire::name::Name = APEX.parse().expect("a name");
        let query = [&[0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0], apex.as_bytes(), &[0, 6, 0, 1]].concat();
        socket.send_to(&query, server)?;
        let mut response = [0; 512];
        let (length, _) = socket.recv_from(&mut response)?;
        Ok(length >= 12 && response[3] & 0x0F == 0 && response[7] != 0)
    };
    ask().unwrap_or(false)
}

/// Free over UDP and TCP a moment ago.
fn free_addresses<const N: usize>() -> Result<[SocketAddr; N], String> {
    let wrong = |error: std::io::Error| error.to_string();
    let held: Vec<TcpListener> =
        (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<_, _>>().map_err(wrong)?;
    let all: Vec<SocketAddr> = held.iter().map(TcpListener::local_addr).collect::<Result<_, _>>().map_err(wrong)?;
    all.try_into().map_err(|_| "as many as were asked for".into())
}

/// How many files a process may have open, at most.
fn files_max() -> usize {
    let text = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    line.split_whitespace().nth(4).and_then(|word| word.parse().ok()).unwrap_or(usize::MAX)
}

/// What a configuration is made of.
struct Here<'s> {
    folder: &'s Path,
    zone: &'s Zone,
    certificate: &'s Certificate,
    dns: SocketAddr,
    dot: SocketAddr,
    doh: SocketAddr,
}

impl Here<'_> {
    fn knot(&self) -> String {
        let (folder, file) = (self.folder.display(), self.zone.file.display());
        format!(
            "server:\n  rundir: \"{folder}\"\n  listen: {}@{}\n  udp-workers: 1\n  tcp-workers: 1\n\
             \x20 background-workers: 1\n  tcp-max-clients: {CONNECTIONS_MAX}\n  tcp-idle-timeout: 60\n\
             database:\n  storage: \"{folder}/db\"\nlog:\n  - target: stderr\n    any: warning\n\
             template:\n  - id: default\n    semantic-checks: off\n    journal-content: none\n\
             \x20   zonefile-sync: -1\n    zonefile-load: whole\nzone:\n  - domain: \"{APEX}\"\n    file: \"{file}\"\n",
            self.dns.ip(),
            self.dns.port()
        )
    }

    fn nsd(&self) -> String {
        let (folder, ip) = (self.folder.display(), self.dns.ip());
        // Of 15,000 it kept 10,948 with as many places as the others have.
        let places = 2 * CONNECTIONS_MAX;
        let Certificate { chain, key } = self.certificate;
        format!(
            "server:\n  ip-address: {ip}@{}\n  ip-address: {ip}@{dot}\n  server-count: 1\n  username: \"\"\n\
             \x20 chroot: \"\"\n  zonesdir: \"{folder}\"\n  database: \"\"\n  zonelistfile: \"{folder}/zone.list\"\n\
             \x20 xfrdfile: \"{folder}/xfrd.state\"\n  xfrdir: \"{folder}\"\n  pidfile: \"{folder}/nsd.pid\"\n\
             \x20 minimal-responses: yes\n  rrl-ratelimit: 0\n  tcp-count: {places}\n  tcp-timeout: 120\n\
             \x20 tls-port: {dot}\n  tls-service-key: \"{}\"\n  tls-service-pem: \"{}\"\n\
             remote-control:\n  control-enable: no\nzone:\n  name: \"{APEX}\"\n  zonefile: \"{}\"\n",
            self.dns.port(),
            key.display(),
            chain.display(),
            self.zone.file.display(),
            dot = self.dot.port(),
        )
    }

    fn bind(&self) -> String {
        let (folder, ip) = (self.folder.display(), self.dns.ip());
        let Certificate { chain, key } = self.certificate;
        format!(
            "tls local {{ cert-file \"{}\"; key-file \"{}\"; }};\n\
             http local {{ endpoints {{ \"/dns-query\"; }}; listener-clients {CONNECTIONS_MAX}; \
             streams-per-connection 100; }};\n\
             options {{ directory \"{folder}\"; pid-file \"{folder}/named.pid\";\n\
             session-keyfile \"{folder}/session.key\";\n\
             listen-on port {} {{ {ip}; }}; listen-on port {} tls local {{ {ip}; }};\n\
             listen-on port {} tls local http local {{ {ip}; }}; listen-on-v6 {{ none; }};\n\
             recursion no; dnssec-validation no; notify no; minimal-responses yes; empty-zones-enable no;\n\
             zone-statistics no; querylog no; tcp-clients {CONNECTIONS_MAX}; tcp-initial-timeout 1200;\n\
             tcp-idle-timeout 1200;\n\
             check-names primary ignore; check-integrity no; }};\ncontrols {{ }};\n\
             zone \"{APEX}\" {{ type primary; file \"{}\"; }};\n",
            chain.display(),
            key.display(),
            self.dns.port(),
            self.dot.port(),
            self.doh.port(),
            self.zone.file.display(),
        )
    }

    /// No authoritative server, but it serves a zone that it holds (`auth-zone`) without asking anybody.
    fn unbound(&self, address: SocketAddr) -> String {
        let (folder, ip, port) = (self.folder.display(), address.ip(), address.port());
        let (dot, doh) = (self.dot.port(), self.doh.port());
        let Certificate { chain, key } = self.certificate;
        // A buffer for each connection is made at start, and a file counted. The more of them are taken the less
        // silence it bears, so where files end at 20,000 it does not keep 15,000.
        let connections = (2 * CONNECTIONS_MAX).min(files_max().saturating_sub(FILES_OTHER));
        format!(
            "server:\n  directory: \"{folder}\"\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  use-syslog: no\n\
             \x20 logfile: \"\"\n  verbosity: 0\n  num-threads: 1\n  module-config: \"iterator\"\n\
             \x20 interface: {ip}@{port}\n\
             \x20 tls-port: {dot}\n  https-port: {doh}\n  tls-service-key: \"{}\"\n  tls-service-pem: \"{}\"\n\
             \x20 incoming-num-tcp: {connections}\n  tcp-idle-timeout: 60000\n  msg-buffer-size: 4096\n\
             \x20 outgoing-range: 64\n  num-queries-per-thread: 16000\n  http-max-streams: 100\n\
             \x20 access-control: 127.0.0.0/8 allow\n\
             remote-control:\n  control-enable: no\n\
             auth-zone:\n  name: \"{APEX}\"\n  zonefile: \"{}\"\n  for-downstream: yes\n  for-upstream: no\n",
            key.display(),
            chain.display(),
            self.zone.file.display(),
        )
    }
}
