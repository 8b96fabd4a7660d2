//! Real servers with their counters: each serves `example.test.` over the transports that it has, refuses all else, and
//! can be asked how many queries came over a transport and which RCODEs it gave.

use lab::echo::Certificate;
use lab::engine::Transport;
use lab::peers::Kind;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use wire::Rcode;

/// How long a server may take to answer, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Brand {
    Catamaran,
    Bind,
    Knot,
    Nsd,
    Unbound,
}

impl Brand {
    /// The transports that it speaks in the versions of the distribution.
    pub(crate) const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Catamaran => &Transport::ALL,
            Self::Knot => &[Transport::Udp, Transport::Tcp],
            Self::Nsd => &[Transport::Udp, Transport::Tcp, Transport::Dot],
            Self::Bind | Self::Unbound => &[Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doh],
        }
    }

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Catamaran => "catamaran",
            Self::Bind => "bind",
            Self::Knot => "knot",
            Self::Nsd => "nsd",
            Self::Unbound => "unbound",
        }
    }

    fn program(self) -> Option<PathBuf> {
        match self {
            Self::Catamaran => Kind::Catamaran.program(),
            Self::Bind => Kind::Bind.program(),
            Self::Knot => Kind::Knot.program(),
            Self::Nsd => Kind::Nsd.program(),
            Self::Unbound => Some(PathBuf::from("/usr/sbin/unbound")).filter(|path| path.is_file()),
        }
    }
}

/// What a server has counted since it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Queries over the transport that was asked about; none from a server that does not tell them apart.
    pub(crate) queries: Option<u64>,
    /// Responses over all transports.
    pub(crate) rcodes: BTreeMap<String, u64>,
}

impl Counted {
    /// What was added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let less = |(rcode, count): (&String, &u64)| {
            let added = count - before.rcodes.get(rcode).copied().unwrap_or_default();
            (added > 0).then(|| (rcode.clone(), added))
        };
        Self {
            queries: self.queries.zip(before.queries).map(|(after, before)| after - before),
            rcodes: self.rcodes.iter().filter_map(less).collect(),
        }
    }
}

/// A running server; it ends with this value.
pub(crate) struct Running {
    brand: Brand,
    child: Child,
    folder: PathBuf,
    ports: Ports,
}

/// Free a moment ago. Two for each of ours: its first node listens on the one after the shared one.
#[derive(Clone, Copy, Debug)]
struct Ports {
    dns: u16,
    dot: u16,
    doh: u16,
    control: u16,
}

/// Where ports are looked for: below those that the kernel gives to clients, of which a run of thousands may leave
/// none.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

impl Ports {
    fn free() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let mut ports = [0u16; 4].map(|_| {
            loop {
                // Two processes that test at once begin in different places.
                let step = u32::from(NEXT.fetch_add(2, Ordering::Relaxed)) + std::process::id() % 1_000 * 12;
                let port = PORTS.start + (step % u32::from(PORTS.end - PORTS.start)) as u16;
                let is_free = |port| {
                    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port));
                    tcp.is_ok() && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
                };
                if is_free(port) && is_free(port + 1) {
                    return port;
                }
            }
        });
        ports.sort_unstable();
        let [dns, dot, doh, control] = ports;
        Self { dns, dot, doh, control }
    }
}

impl Running {
    /// Starts it; `None`, said plainly, when it is not installed.
    pub(crate) fn start(brand: Brand, folder: &Path) -> Option<Self> {
        Self::start_with(brand, folder, "")
    }

    /// The same with more options, of BIND's options statement.
    pub(crate) fn start_with(brand: Brand, folder: &Path, options: &str) -> Option<Self> {
        let Some(program) = brand.program() else {
            println!("skipped: {} is not installed", brand.label());
            return None;
        };
        let folder = folder.join(brand.label());
        std::fs::create_dir_all(&folder).unwrap();
        let ports = Ports::free();
        std::fs::write(folder.join("zone"), zone()).unwrap();
        let certificate = Certificate::new().unwrap();
        std::fs::write(folder.join("cert.pem"), certificate.certificate_pem()).unwrap();
        std::fs::write(folder.join("key.pem"), certificate.key_pem()).unwrap();
        std::fs::write(folder.join("ca.pem"), certificate.authority_pem()).unwrap();
        let log = File::create(folder.join("output")).unwrap();
        let mut command = command(brand, &program, &folder, ports, options);
        command.current_dir(&folder).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap();
        let mut running = Self { brand, child, folder, ports };
        running.wait_until_ready();
        Some(running)
    }

    pub(crate) fn address(&self, transport: Transport) -> SocketAddr {
        let port = match transport {
            Transport::Udp | Transport::Tcp => self.ports.dns,
            // DoT over TCP, DoQ over UDP.
            Transport::Dot | Transport::Doq => self.ports.dot,
            Transport::Doh => self.ports.doh,
        };
        (Ipv4Addr::LOCALHOST, port + u16::from(self.brand == Brand::Catamaran)).into()
    }

    /// Who signed its certificate; ours has an authority of its own.
    pub(crate) fn authority(&self) -> PathBuf {
        let folder = if self.brand == Brand::Catamaran { self.folder.join("data") } else { self.folder.clone() };
        folder.join("ca.pem")
    }

    fn wait_until_ready(&mut self) {
        let until = Instant::now() + PATIENCE;
        while !self.answers() {
            let output = || std::fs::read_to_string(self.folder.join("output")).unwrap_or_default();
            let has_ended = !matches!(self.child.try_wait(), Ok(None));
            assert!(!has_ended && Instant::now() < until, "{} does not answer: {}", self.brand.label(), output());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn answers(&self) -> bool {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let query = b"\x4a\x11\0\0\0\x01\0\0\0\0\0\0\x02h0\x07example\x04test\0\0\x01\0\x01";
        let mut response = [0u8; 512];
        let asked = socket.send_to(query, self.address(Transport::Udp)).and_then(|_| socket.recv(&mut response));
        asked.is_ok() && response[3] & 0x0F == 0 && response[7] > 0
    }

    /// What it has counted.
    pub(crate) fn counted(&self, transport: Transport) -> Counted {
        match self.brand {
            Brand::Catamaran => self.catamaran(transport),
            Brand::Bind => self.bind(transport),
            Brand::Knot => {
                let text = self.ask("knotc", &["-c", "knot.conf", "stats"]);
                let pairs = pairs(&text);
                let name = if transport == Transport::Udp { "udp4" } else { "tcp4" };
                counted(&pairs, &[&format!("mod-stats.request-protocol[{name}]")], "mod-stats.response-code[", "]")
            }
            Brand::Nsd => {
                let pairs = pairs(&self.ask("nsd-control", &["-c", "nsd.conf", "stats_noreset"]));
                let key = match transport {
                    Transport::Dot => "num.tls",
                    Transport::Tcp => "num.tcp",
                    _ => "num.udp",
                };
                counted(&pairs, &[key], "num.rcode.", "")
            }
            Brand::Unbound => {
                let pairs = pairs(&self.ask("unbound-control", &["-c", "unbound.conf", "stats_noreset"]));
                // Queries over TCP are all of those with a connection.
                let keys: &[&str] = match transport {
                    Transport::Udp => &["total.num.queries", "-num.query.tcp"],
                    Transport::Tcp => &["num.query.tcp", "-num.query.tls"],
                    Transport::Dot => &["num.query.tls", "-num.query.https"],
                    Transport::Doh | Transport::Doq => &["num.query.https"],
                };
                counted(&pairs, keys, "num.answer.rcode.", "")
            }
        }
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let path = Path::new("/usr/sbin").join(program);
        let output = Command::new(path).args(arguments).current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// `catamaran_responses_total{transport="udp",rcode="noerror"} 12`: it counts what it sends.
    fn catamaran(&self, transport: Transport) -> Counted {
        let mut counted = Counted { queries: Some(0), ..Counted::default() };
        for line in get(self.ports.control + 1, "/metrics").lines() {
            let Some(rest) = line.strip_prefix("catamaran_responses_total{transport=\"") else { continue };
            let (labels, count) = rest.split_once("\"} ").unwrap();
            let (own, rcode) = labels.split_once("\",rcode=\"").unwrap();
            let count: u64 = count.parse().unwrap();
            *counted.rcodes.entry(rcode.to_uppercase()).or_default() += count;
            if own == transport.to_string() {
                *counted.queries.as_mut().unwrap() += count;
            }
        }
        counted
    }

    /// BIND counts requests over TLS and HTTPS as requests over TCP; what it calls queries leaves refused ones out.
    fn bind(&self, transport: Transport) -> Counted {
        let json: serde_json::Value = serde_json::from_str(&get(self.ports.control, "/json/v1/server")).unwrap();
        let of = |key: &str| json["nsstats"][key].as_u64().unwrap_or_default();
        let (all, connected) = (of("Requestv4"), of("ReqTCP"));
        let queries = if transport == Transport::Udp { all - connected } else { connected };
        let rcodes = json["rcodes"].as_object().unwrap();
        Counted {
            queries: Some(queries),
            rcodes: rcodes.iter().map(|(rcode, count)| (rcode.clone(), count.as_u64().unwrap())).collect(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM first: ours stops its node, and only then itself.
        let _sent = Command::new("kill").arg(self.child.id().to_string()).status();
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// `name=123` and `name = 123`, each on a line.
fn pairs(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// The sum of some pairs, `-` before those to take off, and every RCODE between a prefix and a suffix.
fn counted(pairs: &BTreeMap<String, u64>, queries: &[&str], prefix: &str, suffix: &str) -> Counted {
    let of = |key: &str| pairs.get(key).copied().unwrap_or_default() as i64;
    let sum: i64 = queries.iter().map(|key| key.strip_prefix('-').map_or_else(|| of(key), |key| -of(key))).sum();
    let rcode = |name: &str| Some(name.strip_prefix(prefix)?.strip_suffix(suffix)?.to_owned());
    let known = |name: &String| (0..16).any(|code| format!("{:?}", Rcode(code)) == *name);
    let rcodes = pairs.iter().filter_map(|(name, &count)| Some((rcode(name).filter(known)?, count)));
    Counted { queries: u64::try_from(sum).ok(), rcodes: rcodes.collect() }
}

/// The body of a page on loopback.
fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A thousand names with an A record.
fn zone() -> String {
    let head = "$TTL 60\n$ORIGIN example.test.\n@ SOA ns h 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n";
    (0..1_000).fold(head.to_owned(), |zone, number| zone + &format!("h{number} A 192.0.2.{}\n", number % 250))
}

fn command(brand: Brand, program: &Path, folder: &Path, ports: Ports, options: &str) -> Command {
    let mut command = Command::new(program);
    let configure = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    match brand {
        Brand::Catamaran => {
            command.args(["up", "--nodes", "1", "--dir", "data", "--zone", "example.test.=zone"]);
            let ports = [("--port", ports.dns), ("--api-port", ports.control), ("--dot-port", ports.dot)]
                .into_iter()
                .chain([("--doq-port", ports.dot), ("--doh-port", ports.doh)]);
            ports.for_each(|(option, port)| _ = command.args([option, &port.to_string()]));
        }
        Brand::Bind => {
            configure("named.conf", bind_config(folder, ports, options));
            command.args(["-g", "-n", "1", "-c", "named.conf"]);
        }
        Brand::Knot => {
            configure("knot.conf", knot_config(folder, ports));
            command.args(["-c", "knot.conf"]);
        }
        Brand::Nsd => {
            configure("nsd.conf", nsd_config(folder, ports));
            command.args(["-d", "-c", "nsd.conf"]);
        }
        Brand::Unbound => {
            configure("unbound.conf", unbound_config(folder, ports));
            command.args(["-d", "-c", "unbound.conf"]);
        }
    }
    command
}

fn bind_config(folder: &Path, Ports { dns, dot, doh, control }: Ports, options: &str) -> String {
    let folder = folder.display();
    format!(
        "tls own {{ cert-file \"{folder}/cert.pem\"; key-file \"{folder}/key.pem\"; }};
options {{ directory \"{folder}\"; pid-file \"{folder}/pid\"; session-keyfile \"{folder}/session\";
 listen-on port {dns} {{ 127.0.0.1; }};
 listen-on port {dot} tls own {{ 127.0.0.1; }};
 listen-on port {doh} tls own http default {{ 127.0.0.1; }};
 listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; notify no; tcp-clients 500;
 empty-zones-enable no; {options} }};
statistics-channels {{ inet 127.0.0.1 port {control} allow {{ 127.0.0.1; }}; }};
controls {{ }};
zone \"example.test\" {{ type primary; file \"{folder}/zone\"; }};\n"
    )
}

fn knot_config(folder: &Path, Ports { dns, .. }: Ports) -> String {
    let folder = folder.display();
    format!(
        "server:
    rundir: \"{folder}\"
    listen: 127.0.0.1@{dns}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: \"{folder}/db\"
mod-stats:
  - id: all
    request-protocol: on
    response-code: on
template:
  - id: default
    global-module: mod-stats/all
zone:
  - domain: example.test
    file: \"{folder}/zone\"
log:
  - target: stderr
    any: warning\n"
    )
}

fn nsd_config(folder: &Path, Ports { dns, dot, .. }: Ports) -> String {
    let folder = folder.display();
    format!(
        "server:
  ip-address: 127.0.0.1@{dns}
  ip-address: 127.0.0.1@{dot}
  tls-port: {dot}
  tls-service-key: \"{folder}/key.pem\"
  tls-service-pem: \"{folder}/cert.pem\"
  server-count: 1
  username: \"\"
  chroot: \"\"
  zonesdir: \"{folder}\"
  database: \"\"
  zonelistfile: \"{folder}/zone.list\"
  xfrdfile: \"{folder}/xfrd.state\"
  xfrdir: \"{folder}\"
  pidfile: \"{folder}/pid\"
  rrl-ratelimit: 0
  tcp-count: 500
remote-control:
  control-enable: yes
  control-interface: \"{folder}/control\"
zone:
  name: example.test
  zonefile: zone\n"
    )
}

fn unbound_config(folder: &Path, Ports { dns, dot, doh, .. }: Ports) -> String {
    let folder = folder.display();
    let hosts = (0..1_000).map(|number| format!("  local-data: \"h{number}.example.test. A 192.0.2.1\"\n"));
    format!(
        "server:
  interface: 127.0.0.1@{dns}
  interface: 127.0.0.1@{dot}
  interface: 127.0.0.1@{doh}
  tls-port: {dot}
  https-port: {doh}
  tls-service-key: \"{folder}/key.pem\"
  tls-service-pem: \"{folder}/cert.pem\"
  do-daemonize: no
  username: \"\"
  chroot: \"\"
  directory: \"{folder}\"
  pidfile: \"{folder}/pid\"
  use-syslog: no
  num-threads: 1
  incoming-num-tcp: 500
  module-config: iterator
  extended-statistics: yes
  statistics-cumulative: yes
  local-zone: \"outside.\" always_refuse
  local-zone: \"example.test.\" static
{}remote-control:
  control-enable: yes
  control-interface: \"{folder}/control\"
  control-use-cert: no\n",
        hosts.collect::<String>()
    )
}
