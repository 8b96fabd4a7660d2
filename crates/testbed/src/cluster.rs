//! Catamaran as a cluster of one or more nodes, with a changed configuration.

use super::catamaran::program;
use super::error::PeerError;
use super::kind::Kind;
use super::ports::free_ports;
use super::process::stop;
use super::setup::{ServedZone, create_folder, replace_in_file};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a node to answer for its zones.
const READY_MAX: Duration = Duration::from_secs(180);
/// Interval of the checks whether it is ready.
const READY_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit to read the metrics.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of consecutive ports per cluster: each kind of port has [`PORT_STEP`] of them.
const PORTS: u16 = 40;
/// Maximum number of nodes of a cluster.
const PORT_STEP: u16 = 10;

/// A running cluster. It is stopped on drop.
pub struct Cluster {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
    base: u16,
    nodes: u64,
}

impl Cluster {
    /// Creates a cluster of one node with these zones, stops it, replaces texts in its configuration, and starts it
    /// again.
    ///
    /// # Errors
    /// If it does not start, or if a text to replace is not in its configuration.
    pub fn start(folder: &Path, zones: &[ServedZone], edits: &[(&str, &str)]) -> Result<Self, PeerError> {
        let mut cluster = Self::start_nodes(folder, zones, 1)?;
        if edits.is_empty() {
            return Ok(cluster);
        }
        stop(&mut cluster.child);
        replace_in_file(&cluster.cluster_folder().join("node-1/catamaran.toml"), edits)?;
        cluster.start_again()?;
        Ok(cluster)
    }

    /// Starts a cluster of this many nodes with its default configuration.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_nodes(folder: &Path, zones: &[ServedZone], nodes: u64) -> Result<Self, PeerError> {
        let program = program().ok_or(PeerError::Missing(Kind::Catamaran))?;
        create_folder(folder)?;
        let base = free_ports(PORTS).map_err(|error| PeerError::Start(Kind::Catamaran, error))?;
        let child = up(&program, folder, base, nodes, zones)?;
        Ok(Self { child, program, folder: folder.to_owned(), base, nodes })
    }

    /// Stops the cluster and starts it again with its data. Returns the time until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<Duration, PeerError> {
        stop(&mut self.child);
        let began = Instant::now();
        self.start_again()?;
        Ok(began.elapsed())
    }

    fn start_again(&mut self) -> Result<(), PeerError> {
        self.child = up(&self.program, &self.folder, self.base, self.nodes, &[])?;
        Ok(())
    }

    fn at(&self, offset: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.base + offset + 1).into()
    }

    /// The address of node 1 over UDP and TCP.
    #[must_use]
    pub fn dns(&self) -> SocketAddr {
        self.at(0)
    }

    /// The address of a node, counted from one.
    #[must_use]
    pub fn dns_of(&self, node: u64) -> SocketAddr {
        self.at(node as u16 - 1)
    }

    /// The address of node 1 over TLS and QUIC.
    #[must_use]
    pub fn dot(&self) -> SocketAddr {
        self.at(PORT_STEP)
    }

    /// The address of node 1 over HTTPS.
    #[must_use]
    pub fn doh(&self) -> SocketAddr {
        self.at(3 * PORT_STEP)
    }

    /// Process ID of `up`, the parent of all nodes.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The folder of the cluster, with its keys and the certificates of its nodes.
    #[must_use]
    pub fn cluster_folder(&self) -> PathBuf {
        cluster_folder(&self.folder)
    }

    /// The sum of all metric series with this prefix on a node, counted from one.
    ///
    /// # Errors
    /// If the node does not answer, or has no such series.
    pub fn metric(&self, node: u64, series: &str) -> io::Result<f64> {
        let address = self.at(2 * PORT_STEP + node as u16 - 1);
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PAGE_TIMEOUT))?;
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        if !text.contains(series) {
            return Err(io::Error::other(format!("the node has no metric {series}")));
        }
        let lines = text.lines().filter(|line| line.starts_with(series));
        Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// A command of the program for this cluster.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).arg("--dir").arg(self.cluster_folder()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn cluster_folder(folder: &Path) -> PathBuf {
    folder.join("cluster")
}

/// Starts all nodes and waits until they are ready.
fn up(program: &Path, folder: &Path, base: u16, nodes: u64, zones: &[ServedZone]) -> Result<Child, PeerError> {
    let output = folder.join("output");
    let log = File::create(&output).map_err(|error| PeerError::Folder(output.clone(), error))?;
    let wrong = |error: io::Error| PeerError::Start(Kind::Catamaran, error);
    let mut command = Command::new(program);
    command.args(["up", "--nodes", &nodes.to_string(), "--dir"]).arg(cluster_folder(folder));
    for (option, index) in [("--port", 0), ("--dot-port", 1), ("--doq-port", 1), ("--api-port", 2), ("--doh-port", 3)] {
        command.arg(option).arg((base + index * PORT_STEP).to_string());
    }
    for zone in zones {
        command.arg("--zone").arg(format!("{}={}", zone.apex, zone.file.display()));
    }
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(wrong)?).stderr(log);
    let mut child = command.spawn().map_err(wrong)?;
    let until = Instant::now() + READY_MAX;
    loop {
        let printed = std::fs::read_to_string(&output).unwrap_or_default();
        if printed.contains("ready: ") {
            return Ok(child);
        }
        if Instant::now() > until || !matches!(child.try_wait(), Ok(None)) {
            stop(&mut child);
            return Err(PeerError::NotReady(Kind::Catamaran, printed));
        }
        std::thread::sleep(READY_INTERVAL);
    }
}
