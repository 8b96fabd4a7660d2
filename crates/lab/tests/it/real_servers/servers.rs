//! Real servers with counters. Each serves `example.test.` over its transports and refuses everything else. It can be
//! queried for its counts of queries per transport and of RCODEs.

use measure::Transport;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testbed::echo::Certificate;
use testbed::{Encryption, Kind, Peer, ServedZone, Setup, free_address, start};
use wire::Rcode;

/// Time limit for a page of counters.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a server has counted since it started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    /// Queries over the given transport; `None` if the server does not count per transport.
    pub(crate) queries: Option<u64>,
    /// Responses over all transports.
    pub(crate) rcodes: BTreeMap<String, u64>,
}

impl Counted {
    /// The counts since `before`.
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

/// A running server. It is stopped when this is dropped.
pub(crate) struct RunningServer {
    peer: Peer,
    encryption: Encryption,
    /// The port of its counters.
    control: u16,
    authority: PathBuf,
}

impl RunningServer {
    /// Starts a server; `None`, and a message, if it is not installed.
    pub(crate) fn start(kind: Kind, folder: &Path) -> Option<Self> {
        Self::start_with(kind, folder, "")
    }

    /// The same with more lines in its configuration.
    pub(crate) fn start_with(kind: Kind, folder: &Path, lines: &str) -> Option<Self> {
        if kind.program().is_none() {
            skip::peer(kind.label());
            return None;
        }
        let folder = folder.join(kind.label());
        std::fs::create_dir_all(&folder).unwrap();
        let zone_file = folder.join("zone");
        std::fs::write(&zone_file, zone()).unwrap();
        let mut lines = lines.to_owned();
        if kind == Kind::Unbound {
            // As a resolver, it would ask other servers.
            lines += "server:\n  local-zone: \"outside.\" always_refuse\n";
        }
        let has = |transport| kind.transports().contains(&transport);
        let port = |transport| has(transport).then(|| free_address().unwrap().port());
        let encryption = Encryption {
            certificate: folder.join("cert.pem"),
            key: folder.join("key.pem"),
            dot: port(Transport::Dot),
            doh: port(Transport::Doh),
        };
        let certificate = Certificate::new().unwrap();
        std::fs::write(&encryption.certificate, certificate.certificate_pem()).unwrap();
        std::fs::write(&encryption.key, certificate.key_pem()).unwrap();
        let authority = match kind {
            Kind::Catamaran => folder.join("data/ca.pem"),
            _ => {
                let path = folder.join("ca.pem");
                std::fs::write(&path, certificate.authority_pem()).unwrap();
                path
            }
        };
        let control = free_address().unwrap().port();
        let zones = vec![ServedZone::new("example.test.", zone_file)];
        let setup = Setup {
            encryption: has(Transport::Dot).then(|| encryption.clone()),
            statistics: Some(control),
            lines,
            ..Setup::new(folder, free_address().unwrap(), zones)
        };
        Some(Self { peer: start(kind, &setup).unwrap(), encryption, control, authority })
    }

    pub(crate) fn address(&self, transport: Transport) -> SocketAddr {
        let port = match transport {
            Transport::Udp | Transport::Tcp => Some(self.peer.address.port()),
            // DoT over TCP, DoQ over UDP.
            Transport::Dot | Transport::Doq => self.encryption.dot,
            Transport::Doh => self.encryption.doh,
        };
        (Ipv4Addr::LOCALHOST, port.unwrap()).into()
    }

    /// The CA certificate. Catamaran has its own CA.
    pub(crate) fn authority(&self) -> &Path {
        &self.authority
    }

    /// The counts so far.
    pub(crate) fn counted(&self, transport: Transport) -> Counted {
        match self.peer.kind {
            Kind::Catamaran => self.catamaran(transport),
            Kind::Bind => self.bind(transport),
            Kind::Knot => {
                let text = self.ask("knotc", &["-c", "knot.conf", "stats"]);
                let pairs = pairs(&text);
                let name = if transport == Transport::Udp { "udp4" } else { "tcp4" };
                counted(&pairs, &[&format!("mod-stats.request-protocol[{name}]")], "mod-stats.response-code[", "]")
            }
            Kind::Nsd => {
                let pairs = pairs(&self.ask("nsd-control", &["-c", "nsd.conf", "stats_noreset"]));
                let key = match transport {
                    Transport::Dot => "num.tls",
                    Transport::Tcp => "num.tcp",
                    _ => "num.udp",
                };
                counted(&pairs, &[key], "num.rcode.", "")
            }
            _ => {
                let pairs = pairs(&self.ask("unbound-control", &["-c", "unbound.conf", "stats_noreset"]));
                // TCP queries are the sum of all transports with connections.
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
        let output = Command::new(path).args(arguments).current_dir(self.peer.folder()).output().unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// `catamaran_responses_total{transport="udp",rcode="noerror"} 12`: catamaran counts responses.
    fn catamaran(&self, transport: Transport) -> Counted {
        let mut counted = Counted { queries: Some(0), ..Counted::default() };
        for line in get(self.control, "/metrics").lines() {
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

    /// BIND counts requests over TLS and HTTPS as TCP. Its query counters leave out refused queries.
    fn bind(&self, transport: Transport) -> Counted {
        let json: serde_json::Value = serde_json::from_str(&get(self.control, "/json/v1/server")).unwrap();
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

/// `name=123` and `name = 123`, each on a line.
fn pairs(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// The sum of some pairs (minus those that start with `-`), and every RCODE between a prefix and a suffix.
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
    stream.set_read_timeout(Some(PAGE_TIMEOUT)).unwrap();
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
