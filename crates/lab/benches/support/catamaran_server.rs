//! Our own server as a cluster of one or of some, with what is to be measured of its configuration changed.

use super::machine::{self, family, on_cores};
use lab::peers::Kind;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to answer, with its zones loaded.
const READY_MAX: Duration = Duration::from_secs(180);
/// Ports that it has, in a row; what is where is said below.
const PORTS: u16 = 40;

/// A running node; it ends with this value.
pub(crate) struct CatamaranServer {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
    base: u16,
    nodes: u64,
}

impl CatamaranServer {
    /// Makes a cluster with these zones, stops it, changes its configuration, and starts it again.
    ///
    /// # Errors
    /// When it does not start, or a text to change is not in its configuration.
    pub(crate) fn start(
        folder: &Path,
        zones: &[(&str, &Path)],
        cores: &[usize],
        edits: &[(&str, &str)],
    ) -> Result<Self, String> {
        let program = Kind::Catamaran.program().ok_or("catamaran is neither beside this program nor in the path")?;
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let base = free_ports()?;
        let mut first = Self::up((&program, folder, base, 1), zones, cores)?;
        if edits.is_empty() {
            return Ok(first);
        }
        first.end();
        let file = folder.join("cluster/node-1/catamaran.toml");
        let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
        let mut text = std::fs::read_to_string(&file).map_err(wrong)?;
        for (from, to) in edits {
            if !text.contains(from) {
                return Err(format!("{} has no `{from}`", file.display()));
            }
            text = text.replace(from, to);
        }
        std::fs::write(&file, text).map_err(wrong)?;
        Self::up((&program, folder, base, 1), &[], cores)
    }

    /// A cluster of so many nodes as it comes, on all cores.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start_nodes(folder: &Path, zones: &[(&str, &Path)], nodes: u64) -> Result<Self, String> {
        let program = Kind::Catamaran.program().ok_or("catamaran is neither beside this program nor in the path")?;
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::up((&program, folder, free_ports()?, nodes), zones, &(0..cores).collect::<Vec<_>>())
    }

    fn up(
        (program, folder, base, nodes): (&Path, &Path, u16, u64),
        zones: &[(&str, &Path)],
        cores: &[usize],
    ) -> Result<Self, String> {
        let output = folder.join("output");
        let log = File::create(&output).map_err(|error| format!("{}: {error}", output.display()))?;
        let twin = log.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["up", "--nodes", &nodes.to_string(), "--dir"]).arg(folder.join("cluster"));
        let ports = [("--port", 0), ("--dot-port", 10), ("--doq-port", 10), ("--api-port", 20), ("--doh-port", 30)];
        ports.iter().for_each(|(option, offset)| _ = command.args([*option, &(base + offset).to_string()]));
        zones.iter().for_each(|(apex, file)| _ = command.arg("--zone").arg(format!("{apex}={}", file.display())));
        command.stdin(Stdio::null()).stdout(log).stderr(twin);
        let child = on_cores(cores, || command.spawn()).map_err(|error| format!("{}: {error}", program.display()))?;
        let mut own = Self { child, program: program.to_owned(), folder: folder.to_owned(), base, nodes };
        let until = Instant::now() + READY_MAX;
        loop {
            let said = std::fs::read_to_string(&output).unwrap_or_default();
            if said.contains("ready: ") {
                return Ok(own);
            }
            if Instant::now() > until || !matches!(own.child.try_wait(), Ok(None)) {
                return Err(format!("catamaran is not ready: {said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it and starts it again, with all its data; gives the time until it answers.
    pub(crate) fn restart(&mut self, cores: &[usize]) -> Result<Duration, String> {
        self.end();
        let began = Instant::now();
        *self = Self::up((&self.program, &self.folder, self.base, self.nodes), &[], cores)?;
        Ok(began.elapsed())
    }

    fn end(&mut self) {
        machine::end(&mut self.child);
    }

    fn at(&self, offset: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.base + offset + 1).into()
    }

    /// Where node 1 answers over UDP and TCP.
    pub(crate) fn dns(&self) -> SocketAddr {
        self.at(0)
    }

    /// Where a node does, counted from one.
    pub(crate) fn dns_of(&self, node: u64) -> SocketAddr {
        self.at(node as u16 - 1)
    }

    /// Over TLS, and over QUIC.
    pub(crate) fn dot(&self) -> SocketAddr {
        self.at(10)
    }

    pub(crate) fn doh(&self) -> SocketAddr {
        self.at(30)
    }

    /// `up`, and the node.
    pub(crate) fn pids(&self) -> Vec<u32> {
        family(self.child.id())
    }

    /// The folder of the cluster: its keys, and node 1's certificate.
    pub(crate) fn cluster(&self) -> PathBuf {
        self.folder.join("cluster")
    }

    /// The sum of all series of the metrics that begin so.
    pub(crate) fn metric(&self, series: &str) -> Result<f64, String> {
        self.metric_of(1, series)
    }

    /// The same of a node, counted from one.
    pub(crate) fn metric_of(&self, node: u64, series: &str) -> Result<f64, String> {
        let wrong = |error: std::io::Error| format!("metrics: {error}");
        let address = self.at(20 + node as u16 - 1);
        let mut stream = TcpStream::connect(address).map_err(wrong)?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(wrong)?;
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(wrong)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(wrong)?;
        if !text.contains(series) {
            return Err(format!("no metric {series}"));
        }
        let of = text.lines().filter(|line| line.starts_with(series));
        Ok(of.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// A command of the program to this cluster.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--dir").arg(self.cluster()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

impl Drop for CatamaranServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// The first of some free ports in a row, below those that the kernel hands out itself.
fn free_ports() -> Result<u16, String> {
    let is_free = |port: u16| {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
    };
    let offset = (std::process::id() % 200) as u16 * PORTS;
    let bases = (0..200).map(|step| 20_000 + (offset + step * PORTS) % (200 * PORTS));
    let mut bases = bases.filter(|&base| (base..base + PORTS).all(is_free));
    bases.next().ok_or_else(|| "no free ports in a row".into())
}
