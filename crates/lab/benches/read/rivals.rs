//! The servers that take turns, each with one thread for packets on one core.

use super::machine::{self, SERVER_CORE, bind_process, family, on_cores, role};
use super::zones::{APEX, Zone};
use lab::peers::{self, Kind, Peer, ServedZone, Setup};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::name::Name;

/// Every server, in the order of their turns.
pub(crate) const NAMES: [&str; 7] = ["echo", "catamaran", "knot", "nsd", "bind", "powerdns", "coredns"];
/// How long one may take to answer, and to end.
const READY_MAX: Duration = Duration::from_secs(120);

/// A running server; it ends with this value.
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    process: Process,
    /// From its start to its first answer.
    pub(crate) ready_after: Duration,
}

enum Process {
    Peer(Peer),
    CatamaranServer(Child),
}

impl Rival {
    /// The processes that serve: the one that was started and its children.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.process {
            Process::Peer(peer) => family(peer.pid()),
            Process::CatamaranServer(child) => family(child.id()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let Self::CatamaranServer(child) = self else { return };
        // Standard input is what an echo waits for; the others want a signal.
        drop(child.stdin.take());
        machine::end(child);
    }
}

/// Starts a server with the zone; `None`, said plainly, when it is not installed.
pub(crate) fn start(name: &'static str, zone: &Zone, folder: &Path) -> Result<Option<Rival>, String> {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let address = free_address()?;
    let began = Instant::now();
    let kind = match name {
        "catamaran" => Some(Kind::Catamaran),
        "knot" => Some(Kind::Knot),
        "nsd" => Some(Kind::Nsd),
        "bind" => Some(Kind::Bind),
        _ => None,
    };
    let (process, address) = match kind {
        Some(kind) => {
            if kind.program().is_none() {
                eprintln!("skipped: {name} is not installed");
                return Ok(None);
            }
            let zones = vec![ServedZone { apex: APEX.into(), file: zone.file.clone() }];
            let setup = Setup { zones, key: None, address, folder };
            let peer = on_cores(&[SERVER_CORE], || peers::start(kind, &setup)).map_err(|error| error.to_string())?;
            (Process::Peer(peer), address)
        }
        None => {
            let command = match name {
                "echo" => Some(role(None, &["echo"])),
                "powerdns" => powerdns(&folder, zone, address)?,
                _ => coredns(&folder, zone, address)?,
            };
            let Some(command) = command else {
                eprintln!("skipped: {name} is not installed");
                return Ok(None);
            };
            spawn(name, command, &folder, address)?
        }
    };
    let rival = Rival { name, address, process, ready_after: began.elapsed() };
    // Some bind their threads to cores of their own choice.
    rival.pids().into_iter().for_each(|pid| bind_process(pid, SERVER_CORE));
    Ok(Some(rival))
}

fn spawn(
    name: &str,
    mut command: Command,
    folder: &Path,
    address: SocketAddr,
) -> Result<(Process, SocketAddr), String> {
    let output = folder.join("output");
    let log = File::create(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    let is_echo = name == "echo";
    command.current_dir(folder).stdin(Stdio::piped()).stderr(log.try_clone().map_err(|error| error.to_string())?);
    command.stdout(if is_echo { Stdio::piped() } else { log.into() });
    let child = on_cores(&[SERVER_CORE], || command.spawn()).map_err(|error| format!("{name}: {error}"))?;
    let mut process = Process::CatamaranServer(child);
    let Process::CatamaranServer(child) = &mut process else { unreachable!("made just above") };
    if is_echo {
        let mut line = String::new();
        let stdout = child.stdout.take().expect("standard output is piped");
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        let address = line.trim().parse().map_err(|_| format!("the echo printed {line}"))?;
        return Ok((process, address));
    }
    let until = Instant::now() + READY_MAX;
    while !answers(address) {
        let has_ended = !matches!(child.try_wait(), Ok(None));
        if has_ended || Instant::now() > until {
            let text = std::fs::read_to_string(&output).unwrap_or_default();
            return Err(format!("{name} does not answer; its output ends:\n{}", tail(&text)));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((process, address))
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(2_000);
    text.get(start..).unwrap_or(text)
}

/// Whether a query for the apex's SOA gets one.
fn answers(server: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        let apex: Name = APEX.parse().expect("a name");
        let mut query = vec![0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend_from_slice(apex.as_bytes());
        query.extend_from_slice(&[0, 6, 0, 1]);
        socket.send_to(&query, server)?;
        let mut response = [0; 512];
        let (length, _) = socket.recv_from(&mut response)?;
        Ok(length >= 12 && response[3] & 0x0F == 0 && response[7] != 0)
    };
    ask().unwrap_or(false)
}

/// Free over UDP and TCP a moment ago, its successor too: ours has a second address there.
fn free_address() -> Result<SocketAddr, String> {
    let free = || -> std::io::Result<SocketAddr> {
        let address = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let _tcp = std::net::TcpListener::bind(address)?;
        let _before = UdpSocket::bind((address.ip(), address.port() - 1))?;
        Ok(address)
    };
    (0..100).find_map(|_| free().ok()).ok_or_else(|| "no free port on loopback".into())
}

/// PowerDNS with the BIND backend, its caches as they come.
fn powerdns(folder: &Path, zone: &Zone, address: SocketAddr) -> Result<Option<Command>, String> {
    let Some(program) = installed("pdns_server") else { return Ok(None) };
    let named = folder.join("named.conf");
    let text = format!("zone \"{APEX}\" {{ type master; file \"{}\"; }};\n", zone.file.display());
    std::fs::write(&named, text).map_err(|error| format!("{}: {error}", named.display()))?;
    // None of the system's is to be read.
    std::fs::write(folder.join("pdns.conf"), "").map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new(program);
    command.arg(format!("--config-dir={}", folder.display()));
    command.args(["--launch=bind", "--daemon=no", "--guardian=no", "--disable-syslog", "--receiver-threads=1"]);
    command.args(["--distributor-threads=1", "--loglevel=3", "--webserver=no"]);
    command.arg(format!("--bind-config={}", named.display()));
    command.arg(format!("--socket-dir={}", folder.display()));
    command.arg(format!("--local-address={}", address.ip())).arg(format!("--local-port={}", address.port()));
    Ok(Some(command))
}

/// CoreDNS with its file plugin, one processor; `cargo xtask bench read` builds it where it is missing and Go is there.
fn coredns(folder: &Path, zone: &Zone, address: SocketAddr) -> Result<Option<Command>, String> {
    let told = std::env::var_os("CATAMARAN_COREDNS").map(PathBuf::from);
    let Some(program) = told.or_else(|| installed("coredns")) else { return Ok(None) };
    let config = folder.join("Corefile");
    let text = format!(
        "{APEX}:{} {{\n bind {}\n file {} {{\n reload 0\n }}\n}}\n",
        address.port(),
        address.ip(),
        zone.file.display()
    );
    std::fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let mut command = Command::new(program);
    command.arg("-conf").arg(config).env("GOMAXPROCS", "1");
    Ok(Some(command))
}

/// On PATH, where Go puts what it installs, or among the system's programs.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let home = std::env::var("HOME").unwrap_or_default();
    path.split(':')
        .map(PathBuf::from)
        .chain([PathBuf::from("/usr/sbin"), Path::new(&home).join("go/bin")])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
