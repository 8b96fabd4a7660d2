//! A catamaran cluster with each node in its own network namespace.

use super::net::{Cut, Net};
use super::zone::APEX;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testbed::Kind;

const DNS_PORT: u16 = 53;
const PEER_PORT: u16 = 5380;
const API_PORT: u16 = 8053;
/// How long nodes with full zones may take to agree.
const AGREE_MAX: Duration = Duration::from_secs(900);
/// Timeout of an API request.
const API_MAX: Duration = Duration::from_secs(5);
/// Interval between two checks of the nodes.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The leader and its term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leadership {
    pub(crate) node: u64,
    pub(crate) term: u64,
}

/// The nodes and their network. Both are removed on drop.
pub(crate) struct Hosts {
    nodes: Vec<Node>,
    program: PathBuf,
    token: String,
    /// A key file in the format of `dig -k`, with permission for updates and transfers of all zones.
    pub(crate) key: PathBuf,
    net: Net,
}

/// One node.
struct Node {
    dir: PathBuf,
    config: PathBuf,
    /// None while the node is killed.
    child: Option<Child>,
}

impl Hosts {
    /// Starts this many nodes with the zone of this file. `folder` is that of the bench: the signal handler finds there
    /// what removes the network. The cluster has the folder `name` in it for itself.
    ///
    /// # Errors
    /// If namespaces cannot be created, or if the nodes do not form a cluster.
    pub(crate) fn start(folder: &Path, name: &str, zone: &Path, count: u64) -> Result<Self, String> {
        let program = Kind::Catamaran.program().ok_or("catamaran is neither beside this program nor in the path")?;
        let net = Net::make(folder, count)?;
        let folder = &folder.join(name);
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let node = |id: u64| {
            let dir = folder.join(format!("host-{id}"));
            Node { config: dir.join(format!("node-{id}/catamaran.toml")), dir, child: None }
        };
        let nodes = (1..=count).map(node).collect();
        let mut hosts = Self { nodes, program, token: String::new(), key: folder.join("bench.key"), net };
        let first = hosts.nodes[0].dir.clone();
        hosts.make(1, &["init"])?;
        let token = std::fs::read_to_string(first.join("api.token")).map_err(|error| format!("api.token: {error}"))?;
        hosts.token = token.trim().to_owned();
        hosts.serve(1)?;
        hosts.settle_of(1)?;
        let key = hosts.command(&["key", "add", "bench", "--update", "--transfer"])?;
        std::fs::write(&hosts.key, key).map_err(|error| format!("{}: {error}", hosts.key.display()))?;
        hosts.command(&["zone", "add", &format!("{APEX}={}", zone.display())])?;
        for id in 2..=count {
            let token = hosts.command(&["cluster", "add"])?;
            hosts.make(id, &["join", "--token", token.trim()])?;
            hosts.serve(id)?;
            hosts.settle_of(id)?;
        }
        hosts.settle()?;
        Ok(hosts)
    }

    /// Creates the files of a node.
    fn make(&self, id: u64, words: &[&str]) -> Result<(), String> {
        let mut command = self.net.command(id, &self.program);
        command.args(words).arg("--dir").arg(&self.nodes[id as usize - 1].dir);
        for (option, port) in [("--dns", DNS_PORT), ("--peer", PEER_PORT), ("--api", API_PORT)] {
            command.arg(option).arg(self.at(id, port).to_string());
        }
        output(&mut command).map(|_| ())
    }

    fn serve(&mut self, id: u64) -> Result<(), String> {
        let node = &self.nodes[id as usize - 1];
        let log = node.dir.join("log");
        let wrong = |error: std::io::Error| format!("{}: {error}", log.display());
        let log = File::options().create(true).append(true).open(&log).map_err(wrong)?;
        let mut command = self.net.command(id, &self.program);
        // Its standard input is a pipe of this program, so it never outlives it.
        command.arg("serve").arg("--config").arg(&node.config).arg("--stop-with-stdin").stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| format!("{}: {error}", self.program.display()))?;
        self.nodes[id as usize - 1].child = Some(child);
        Ok(())
    }

    /// Runs a command for the cluster. Returns its output.
    pub(crate) fn command(&self, words: &[&str]) -> Result<String, String> {
        let first = &self.nodes[0].dir;
        // Any running node can answer. The first node may be stopped.
        let api_node = self.ids().find(|&id| self.nodes[id as usize - 1].child.is_some()).unwrap_or(1);
        let mut command = Command::new(&self.program);
        command.args(words).arg("--dir").arg(first).arg("--api").arg(self.at(api_node, API_PORT).to_string());
        output(&mut command)
    }

    pub(crate) fn ids(&self) -> std::ops::RangeInclusive<u64> {
        1..=self.nodes.len() as u64
    }

    /// The address of a node for queries and updates.
    pub(crate) fn dns(&self, id: u64) -> SocketAddr {
        self.at(id, DNS_PORT)
    }

    fn at(&self, id: u64, port: u16) -> SocketAddr {
        (self.net.address_of(id), port).into()
    }

    /// Sends `kill -9` and waits for the node to exit.
    pub(crate) fn kill(&mut self, id: u64) -> Result<(), String> {
        let mut child = self.nodes[id as usize - 1].child.take().ok_or("it runs no more")?;
        child.kill().and_then(|()| child.wait()).map(|_| ()).map_err(|error| format!("kill: {error}"))
    }

    /// Restarts a killed node.
    pub(crate) fn restart(&mut self, id: u64) -> Result<(), String> {
        self.serve(id)
    }

    pub(crate) fn cut(&self, id: u64, cut: Cut) -> Result<(), String> {
        self.net.cut(id, cut)
    }

    pub(crate) fn heal(&self) -> Result<(), String> {
        self.net.heal()
    }

    /// The status of a node, or `None` if it does not answer.
    pub(crate) fn status(&self, id: u64) -> Option<Value> {
        let text = self.get(id, "/v1/status").ok()?;
        serde_json::from_str(&text).ok()
    }

    /// The value of a counter, or `None` if the node does not answer.
    pub(crate) fn counter(&self, id: u64, name: &str) -> Option<u64> {
        let text = self.get(id, "/metrics").ok()?;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    fn get(&self, id: u64, path: &str) -> std::io::Result<String> {
        let address = self.at(id, API_PORT);
        let mut stream = TcpStream::connect_timeout(&address, API_MAX)?;
        stream.set_read_timeout(Some(API_MAX))?;
        let token = &self.token;
        // HTTP/1.0 has no chunks, so the body follows the empty line (RFC 9112 6.1).
        let request = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::InvalidData)?;
        if head.split(' ').nth(1) == Some("200") { Ok(body.to_owned()) } else { Err(std::io::Error::other(head)) }
    }

    /// Waits until all nodes have the same data, are ready and follow one leader. Returns the leader.
    pub(crate) fn settle(&self) -> Result<Leadership, String> {
        let until = Instant::now() + AGREE_MAX;
        loop {
            let all: Vec<Value> = self.ids().filter_map(|id| self.status(id)).collect();
            let agree = |key: &str| all.iter().all(|status| status[key] == all[0][key]);
            let are_voters = |status: &Value| {
                let members = status["members"].as_array().map_or(&[][..], Vec::as_slice);
                members.len() == self.nodes.len() && members.iter().all(|member| member["voter"] == true)
            };
            let serve = |status: &Value| status["serving"] == "yes" && are_voters(status);
            if all.len() == self.nodes.len()
                && ["applied_index", "state_hash", "leader", "term"].into_iter().all(agree)
                && all.iter().all(serve)
                && let (Some(node), Some(term)) = (all[0]["leader"].as_u64(), all[0]["term"].as_u64())
            {
                return Ok(Leadership { node, term });
            }
            self.wait(until, "the nodes do not agree")?;
        }
    }

    /// Waits until a restarted node is ready.
    fn settle_of(&self, id: u64) -> Result<(), String> {
        let until = Instant::now() + AGREE_MAX;
        loop {
            let status = self.status(id).unwrap_or_default();
            let is_member = |member: &Value| member["node"] == id && member["voter"] == true;
            let members = status["members"].as_array().cloned().unwrap_or_default();
            if status["serving"] == "yes" && !status["leader"].is_null() && members.iter().any(is_member) {
                return Ok(());
            }
            self.wait(until, &format!("node {id} does not serve"))?;
        }
    }

    /// Waits until a node is ready and has applied everything that the leader had committed at the start of this call.
    /// Returns the duration.
    pub(crate) fn catch_up(&self, id: u64, leader: u64) -> Result<Duration, String> {
        let begin = Instant::now();
        let index = |status: &Value, key: &str| status[key].as_u64();
        let wanted = loop {
            if let Some(wanted) = self.status(leader).and_then(|status| index(&status, "commit_index")) {
                break wanted;
            }
            self.wait(begin + AGREE_MAX, &format!("node {leader} does not answer"))?;
        };
        loop {
            let status = self.status(id).unwrap_or_default();
            if status["serving"] == "yes" && index(&status, "applied_index").is_some_and(|applied| applied >= wanted) {
                return Ok(begin.elapsed());
            }
            self.wait(begin + AGREE_MAX, &format!("node {id} does not catch up"))?;
        }
    }

    /// Pauses briefly. Fails if the time is up or a node has exited.
    fn wait(&self, until: Instant, what: &str) -> Result<(), String> {
        std::thread::sleep(POLL_INTERVAL);
        if Instant::now() < until { Ok(()) } else { Err(format!("{what} within {AGREE_MAX:?}")) }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().filter_map(|node| node.child.as_mut()) {
            super::machine::end(child);
        }
    }
}

/// Runs a command to its end. Returns its output.
fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr)))
}
