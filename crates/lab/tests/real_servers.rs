//! Runs against real servers: what was measured agrees with what they counted themselves.
use lab::echo::Certificate;
use lab::engine::{Outcome, Pace, Plan, TlsPlan, Transport, run};
use lab::schedule::{Arrivals, Schedule};
use lab::workload::{Extras, Generator, NameDistribution, Popularity, Workload};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wire::number::Rtype;

/// Names that exist; as many more are asked for that do not.
const NAMES: u64 = 1_000;
const QUERIES: u64 = 4_000;

/// One server at a time.
static TURN: Mutex<()> = Mutex::new(());

/// What a server counted: queries by transport, and responses by RCODE.
type Counts = BTreeMap<&'static str, u64>;

/// A server of this test, with a folder and ports of its own.
struct Server {
    child: Child,
    folder: PathBuf,
    ports: BTreeMap<Transport, u16>,
    /// Of its own statistics, where they have one.
    statistics: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has answered all that it was asked, and nothing of it is kept.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
        let _removed = std::fs::remove_dir_all(&self.folder);
    }
}

/// A port that was free for TCP and UDP a moment ago.
fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn installed(program: &str) -> Option<PathBuf> {
    let folders = ["/usr/sbin", "/usr/bin", "/usr/local/sbin"];
    let found = folders.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: {program} is not installed");
    }
    found
}

impl Server {
    /// Starts a program; `config` writes its files and gives its arguments.
    fn start(
        name: &str,
        program: &Path,
        transports: &[Transport],
        config: impl FnOnce(&Path, &BTreeMap<Transport, u16>, u16) -> Vec<String>,
    ) -> Self {
        let folder = std::env::temp_dir().join(format!("catlab-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let plain = free_port();
        let port = |transport: &Transport| if transport.is_encrypted() { free_port() } else { plain };
        let ports = transports.iter().map(|transport| (*transport, port(transport))).collect();
        let certificate = Certificate::new().unwrap();
        std::fs::write(folder.join("ca.pem"), certificate.authority_pem()).unwrap();
        std::fs::write(folder.join("cert.pem"), certificate.certificate_pem()).unwrap();
        std::fs::write(folder.join("key.pem"), certificate.key_pem()).unwrap();
        std::fs::write(folder.join("zone"), zone()).unwrap();
        let statistics = free_port();
        let arguments = config(&folder, &ports, statistics);
        let output = std::fs::File::create(folder.join("output")).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&folder).stdin(Stdio::null());
        let child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let mut server = Self { child, folder, ports, statistics };
        server.wait_until_ready(plain);
        server
    }

    fn wait_until_ready(&mut self, port: u16) {
        let until = Instant::now() + Duration::from_secs(30);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let query = b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x02q1\x07example\0\0\x01\0\x01";
        let mut answer = [0; 512];
        loop {
            // Nobody may listen yet.
            let _sent = socket.send_to(query, (Ipv4Addr::LOCALHOST, port));
            if socket.recv(&mut answer).is_ok_and(|_| answer[3] & 0x0F == 0) {
                return;
            }
            let is_over = Instant::now() > until || self.child.try_wait().unwrap().is_some();
            let output = || std::fs::read_to_string(self.folder.join("output")).unwrap_or_default();
            assert!(!is_over, "it does not answer: {}", output());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn measure(&self, transport: Transport) -> Outcome {
        let names = NameDistribution {
            pattern: "q{n}.example".into(),
            count: 2 * NAMES,
            popularity: Popularity::Sequential,
            nxdomain_share: 0.0,
        };
        let generator = Generator::new(names, &[(Rtype::A, 1.0)], Extras::default(), 1).unwrap();
        let seconds = Duration::from_secs(4);
        let pace = Pace::Open(Schedule::constant(QUERIES as f64 / 4.0, seconds, Arrivals::Even).unwrap());
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, self.ports[&transport]));
        let plan = Plan {
            transport,
            connection_count: 10,
            tls: TlsPlan { authorities: Some(self.folder.join("ca.pem")), ..TlsPlan::default() },
            ..Plan::new(vec![server], Workload::Generated(Box::new(generator)), pace)
        };
        run(&plan, |_| 0).unwrap()
    }

    /// Measures over each transport, and holds what was measured to what the server counted meanwhile.
    fn compare(&self, name: &str, counts: impl Fn(&Self) -> Counts) {
        for &transport in self.ports.keys() {
            let before = counts(self);
            let outcome = self.measure(transport);
            let after = counts(self);
            let counted = |what: &str| after[what].saturating_sub(*before.get(what).unwrap_or(&0));
            let total = &outcome.total;
            assert_eq!(outcome.failure, None, "{name} {transport}");
            assert_eq!(total.sent, QUERIES, "{name} {transport}");
            assert_eq!(total.answered + total.timed_out + total.connection_lost, QUERIES, "{name} {transport}");
            assert_eq!(total.connection_lost, 0, "{name} {transport}");
            let near = |measured: u64, counted: u64| measured.abs_diff(counted) <= QUERIES / 1_000;
            let seen = [("queries", total.sent), ("NOERROR", total.rcodes[0]), ("NXDOMAIN", total.rcodes[3])];
            for (what, measured) in seen {
                assert!(near(measured, counted(what)), "{name} {transport} {what}: {measured} {}", counted(what));
            }
            // Drops are shown apart: what the server answered and did not reach us.
            assert!(near(total.answered, QUERIES), "{name} {transport}: {} timed out", total.timed_out);
            assert!(near(total.rcodes[0], QUERIES / 2), "{name} {transport}: {}", total.rcodes[0]);
            if transport != Transport::Udp {
                assert_eq!(outcome.transports[&transport].connection_total.opened, 10, "{name} {transport}");
            }
            println!("{name} {transport}: {} answered, {} counted by the server", total.answered, counted("queries"));
        }
    }
}

fn zone() -> String {
    let mut text =
        "$ORIGIN example.\n$TTL 300\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.1\n".to_owned();
    for number in 0..NAMES {
        writeln!(text, "q{number} A 192.0.2.7").unwrap();
    }
    text
}

/// What a control program says.
fn ask(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The sum of `key=value` or `key = value` lines whose key `which` accepts.
fn sum(text: &str, which: impl Fn(&str) -> bool) -> u64 {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.filter(|(key, _)| which(key.trim())).filter_map(|(_, value)| value.trim().parse::<u64>().ok()).sum()
}

#[test]
fn unbound_agrees() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(program), Some(control)) = (installed("unbound"), installed("unbound-control")) else { return };
    let transports = [Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doh];
    let server = Server::start("unbound", &program, &transports, |folder, ports, _| {
        let path = folder.display();
        let mut text = format!(
            "server:\n directory: \"{path}\"\n chroot: \"\"\n username: \"\"\n pidfile: \"\"\n do-daemonize: no\n \
             use-syslog: no\n num-threads: 1\n extended-statistics: yes\n incoming-num-tcp: 100\n \
             interface: 127.0.0.1@{udp}\n interface: 127.0.0.1@{dot}\n interface: 127.0.0.1@{doh}\n tls-port: {dot}\n \
             https-port: {doh}\n tls-service-key: \"{path}/key.pem\"\n tls-service-pem: \"{path}/cert.pem\"\n \
             access-control: 127.0.0.0/8 allow\n module-config: \"iterator\"\n local-zone: \"example.\" static\n",
            udp = ports[&Transport::Udp],
            dot = ports[&Transport::Dot],
            doh = ports[&Transport::Doh],
        );
        for number in 0..NAMES {
            writeln!(text, " local-data: \"q{number}.example. A 192.0.2.7\"").unwrap();
        }
        write!(text, "remote-control:\n control-enable: yes\n control-use-cert: no\n control-interface: {path}/c\n")
            .unwrap();
        std::fs::write(folder.join("conf"), text).unwrap();
        vec!["-d".into(), "-c".into(), format!("{path}/conf")]
    });
    let conf = server.folder.join("conf").display().to_string();
    server.compare("unbound", |_| {
        let text = ask(&control.display().to_string(), &["-c", &conf, "stats_noreset"]);
        Counts::from([
            ("queries", sum(&text, |key| key == "total.num.queries")),
            ("NOERROR", sum(&text, |key| key == "num.answer.rcode.NOERROR")),
            ("NXDOMAIN", sum(&text, |key| key == "num.answer.rcode.NXDOMAIN")),
        ])
    });
}

#[test]
fn nsd_agrees() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(program), Some(control)) = (installed("nsd"), installed("nsd-control")) else { return };
    let transports = [Transport::Udp, Transport::Tcp, Transport::Dot];
    let server = Server::start("nsd", &program, &transports, |folder, ports, _| {
        let path = folder.display();
        let text = format!(
            "server:\n ip-address: 127.0.0.1@{plain}\n ip-address: 127.0.0.1@{dot}\n tls-port: {dot}\n \
             tls-service-key: \"{path}/key.pem\"\n tls-service-pem: \"{path}/cert.pem\"\n server-count: 1\n \
             username: \"\"\n chroot: \"\"\n zonesdir: \"{path}\"\n database: \"\"\n zonelistfile: \"{path}/list\"\n \
             xfrdfile: \"{path}/xfrd\"\n xfrdir: \"{path}\"\n pidfile: \"{path}/pid\"\n rrl-ratelimit: 0\n \
             tcp-count: 100\nremote-control:\n control-enable: yes\n control-interface: \"{path}/c\"\n\
             zone:\n name: example.\n zonefile: zone\n",
            plain = ports[&Transport::Udp],
            dot = ports[&Transport::Dot],
        );
        std::fs::write(folder.join("conf"), text).unwrap();
        vec!["-d".into(), "-c".into(), format!("{path}/conf")]
    });
    let conf = server.folder.join("conf").display().to_string();
    server.compare("nsd", |_| {
        let text = ask(&control.display().to_string(), &["-c", &conf, "stats_noreset"]);
        Counts::from([
            ("queries", sum(&text, |key| key == "num.queries")),
            ("NOERROR", sum(&text, |key| key == "num.rcode.NOERROR")),
            ("NXDOMAIN", sum(&text, |key| key == "num.rcode.NXDOMAIN")),
        ])
    });
}

#[test]
fn knot_agrees() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(program), Some(control)) = (installed("knotd"), installed("knotc")) else { return };
    let server = Server::start("knot", &program, &[Transport::Udp, Transport::Tcp], |folder, ports, _| {
        let path = folder.display();
        let text = format!(
            "server:\n  rundir: \"{path}\"\n  listen: 127.0.0.1@{plain}\n  udp-workers: 1\n  tcp-workers: 1\n\
             control:\n  listen: \"{path}/c\"\ndatabase:\n  storage: \"{path}\"\n\
             mod-stats:\n  - id: all\n    request-protocol: on\n    response-code: on\n\
             template:\n  - id: default\n    storage: \"{path}\"\n    global-module: mod-stats/all\n\
             zone:\n  - domain: example\n    file: zone\n    zonefile-load: whole\n",
            plain = ports[&Transport::Udp],
        );
        std::fs::write(folder.join("conf"), text).unwrap();
        vec!["-c".into(), format!("{path}/conf")]
    });
    let socket = server.folder.join("c").display().to_string();
    server.compare("knot", |_| {
        let text = ask(&control.display().to_string(), &["-s", &socket, "stats"]);
        Counts::from([
            ("queries", sum(&text, |key| key.starts_with("mod-stats.request-protocol["))),
            ("NOERROR", sum(&text, |key| key == "mod-stats.response-code[NOERROR]")),
            ("NXDOMAIN", sum(&text, |key| key == "mod-stats.response-code[NXDOMAIN]")),
        ])
    });
}

#[test]
fn bind_agrees() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(program) = installed("named") else { return };
    let transports = [Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doh];
    let server = Server::start("bind", &program, &transports, |folder, ports, statistics| {
        let path = folder.display();
        let text = format!(
            "tls own {{ cert-file \"{path}/cert.pem\"; key-file \"{path}/key.pem\"; }};\n\
             http own {{ endpoints {{ \"/dns-query\"; }}; }};\n\
             options {{ directory \"{path}\"; pid-file \"{path}/pid\"; session-keyfile \"{path}/session\";\n\
              recursion no; dnssec-validation no; notify no; empty-zones-enable no; tcp-clients 500;\n\
              listen-on port {plain} {{ 127.0.0.1; }};\n\
              listen-on port {dot} tls own {{ 127.0.0.1; }};\n\
              listen-on port {doh} tls own http own {{ 127.0.0.1; }};\n\
              listen-on-v6 {{ none; }}; }};\n\
             controls {{ }};\nstatistics-channels {{ inet 127.0.0.1 port {statistics}; }};\n\
             zone \"example\" {{ type primary; file \"zone\"; }};\n",
            plain = ports[&Transport::Udp],
            dot = ports[&Transport::Dot],
            doh = ports[&Transport::Doh],
        );
        std::fs::write(folder.join("conf"), text).unwrap();
        vec!["-g".into(), "-n".into(), "1".into(), "-c".into(), format!("{path}/conf")]
    });
    server.compare("bind", |server| {
        let text = get(server.statistics, "/json/v1/server");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
        Counts::from([
            ("queries", number(&value["opcodes"]["QUERY"])),
            ("NOERROR", number(&value["rcodes"]["NOERROR"])),
            ("NXDOMAIN", number(&value["rcodes"]["NXDOMAIN"])),
        ])
    });
}

/// The body of a page.
fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}
