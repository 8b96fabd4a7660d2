//! Catamaran as a cluster whose nodes run one by one, so that each can have its own core, limits and faults.
//!
//! ```text
//!   init --> serve (node 1) --> for each other node: cluster add --> join --> serve --> zone add, key add
//! ```

use super::catalog::ZoneChange;
use super::error::PeerError;
use super::kind::Kind;
use super::launch::Launch;
use super::probe::answers_for;
use super::process::{output_end, spawn_into, stop};
use super::setup::{ServedZone, Setup, create_folder, replace_in_file};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wire::name::Name;

/// Time limit for each step of starting a cluster.
const STEP_MAX: Duration = Duration::from_secs(120);
/// Time limit for a request to the API.
const REQUEST_MAX: Duration = Duration::from_secs(900);
/// Time limit for a connection to the API.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Interval of the checks whether a step is done.
const INTERVAL: Duration = Duration::from_millis(20);

/// The addresses of a node.
#[derive(Clone, Debug)]
pub struct NodeAddresses {
    /// UDP and TCP.
    pub dns: SocketAddr,
    /// DNS over TLS, and over QUIC.
    pub dot: Option<SocketAddr>,
    /// DNS over HTTPS.
    pub doh: Option<SocketAddr>,
    /// For the other nodes.
    pub peer: SocketAddr,
    /// The API.
    pub api: SocketAddr,
    /// The network namespace in which it runs.
    pub namespace: Option<String>,
}

/// A running cluster. Its nodes are stopped on drop.
pub struct Nodes {
    program: PathBuf,
    folder: PathBuf,
    /// The environment of commands, so that their processes are found too.
    environment: Vec<(String, String)>,
    nodes: Vec<Node>,
    setup: Setup,
    /// The addresses of nodes that join later.
    joining: VecDeque<NodeAddresses>,
}

/// A node.
struct Node {
    addresses: NodeAddresses,
    launch: Launch,
    config: PathBuf,
    output: PathBuf,
    words: Vec<String>,
    command: Box<Command>,
    child: Child,
}

impl Nodes {
    /// Creates a cluster with a node for each of the addresses except the last ones, which [`Self::join`] later. Waits
    /// until each answers for all zones. Uses of `setup`: `threads`, `idle_s`, the first of `keys`, `zones`, `launch`,
    /// the certificate of `encryption`, and `connections_max`.
    ///
    /// # Errors
    /// [`PeerError`] if the program is missing, if a node does not start, or if `setup` has a primary.
    pub fn start(setup: &Setup, addresses: &[NodeAddresses], joining: usize) -> Result<Self, PeerError> {
        if setup.primary.is_some() {
            return Err(PeerError::Unsupported(Kind::Catamaran, "primary"));
        }
        let program = setup.programs.find(Kind::Catamaran).ok_or(PeerError::Missing(Kind::Catamaran))?;
        create_folder(&setup.folder)?;
        let (folder, environment) = (setup.folder.join("cluster"), setup.launch.environment.clone());
        let (first, joining) = addresses.split_at(addresses.len().saturating_sub(joining));
        let joining = joining.to_vec().into();
        let mut nodes = Self { program, folder, environment, nodes: Vec::new(), setup: setup.clone(), joining };
        first.iter().try_for_each(|addresses| nodes.add(addresses, 0))?;
        nodes.add_data()?;
        nodes.wait_for_answers(0)?;
        Ok(nodes)
    }

    /// Starts the next node of those that join later. Waits until it votes, and answers for all zones.
    ///
    /// # Errors
    /// [`PeerError`] if it does not start, or if there is no node left.
    pub fn join(&mut self) -> Result<(), PeerError> {
        let addresses = self.joining.pop_front().ok_or(PeerError::NoneLeft(Kind::Catamaran))?;
        // Others may have been killed.
        let from = self.nodes.len();
        self.add(&addresses, from)?;
        self.wait_for_answers(from)
    }

    /// Starts a node, and waits until it votes. The nodes from this index on must run meanwhile.
    fn add(&mut self, addresses: &NodeAddresses, from: usize) -> Result<(), PeerError> {
        let index = self.nodes.len();
        let folder = self.create(index, addresses)?;
        let config = folder.join("catamaran.toml");
        configure(&config, &self.setup, addresses)?;
        let node = self.serve(index, config, addresses)?;
        self.nodes.push(node);
        self.wait_for("the node to vote", from, |nodes| nodes.voters() == Some(index + 1))
    }

    /// Waits until each node from this index on answers for all zones.
    fn wait_for_answers(&mut self, from: usize) -> Result<(), PeerError> {
        let apexes: Vec<Option<Name>> = self.setup.zones.iter().map(|zone| zone.apex.parse().ok()).collect();
        for apex in apexes {
            let does_answer = |node: &Node| {
                let asked =
                    node.launch.inside(|| Ok(apex.as_ref().is_some_and(|apex| answers_for(node.addresses.dns, apex))));
                asked.unwrap_or(false)
            };
            self.wait_for("every node to answer", from, |nodes| nodes.nodes[from..].iter().all(does_answer))?;
        }
        Ok(())
    }

    /// Creates the files of a node. Returns its folder.
    fn create(&self, index: usize, addresses: &NodeAddresses) -> Result<PathBuf, PeerError> {
        let number = index + 1;
        let [dns, peer, api] = [addresses.dns, addresses.peer, addresses.api].map(|address| address.to_string());
        let words = ["--dns", &dns, "--peer", &peer, "--api", &api];
        let namespace = addresses.namespace.as_deref();
        if index == 0 {
            self.run_in(namespace, &self.folder, &[&["init"], &words[..]].concat(), "")?;
            return Ok(self.folder.join("node-1"));
        }
        let token = self.run(&self.folder, &["cluster", "add"], "")?;
        let folder = self.folder.join(format!("joined-{number}"));
        self.run_in(namespace, &folder, &[&["join", "--token-file", "-"], &words[..]].concat(), &token)?;
        Ok(folder.join(format!("node-{number}")))
    }

    fn serve(&self, index: usize, config: PathBuf, addresses: &NodeAddresses) -> Result<Node, PeerError> {
        let mut inner = Command::new(&self.program);
        inner.args(["serve", "--config"]).arg(&config);
        let words = std::iter::once(inner.get_program()).chain(inner.get_args());
        let words = words.map(|word| word.to_string_lossy().into_owned()).collect();
        let launch = Launch { namespace: addresses.namespace.clone(), ..self.setup.launch.clone() };
        let mut command = Box::new(launch.command(&inner));
        let output = self.setup.folder.join(format!("output-{}", index + 1));
        let child = spawn_into(&mut command, &output).map_err(|error| PeerError::Start(Kind::Catamaran, error))?;
        Ok(Node { addresses: addresses.clone(), launch, config, output, words, command, child })
    }

    /// Adds the zones, and a key that may update and transfer them.
    fn add_data(&self) -> Result<(), PeerError> {
        let setup = &self.setup;
        self.change_zones(&setup.zones, ZoneChange::Add).map_err(|error| PeerError::Start(Kind::Catamaran, error))?;
        if let Some(key) = setup.keys.first() {
            let file = setup.write("cluster/update.key", &key.bind_text())?;
            let words = ["key", "add", "--update", "--transfer", "--file", &file.display().to_string()];
            self.run(&self.folder, &words, "")?;
        }
        Ok(())
    }

    /// Adds zones or removes them, one request after the other, by the API of the first node that listens.
    ///
    /// # Errors
    /// A file cannot be read, or the API does not respond or refuses a request. Earlier requests were executed.
    pub fn change_zones(&self, zones: &[ServedZone], change: ZoneChange) -> io::Result<()> {
        let does_listen = |node: &&Node| {
            let api = node.addresses.api;
            node.launch.inside(|| TcpStream::connect_timeout(&api, CONNECT_MAX)).is_ok()
        };
        let node = self.nodes.iter().find(does_listen).ok_or_else(|| io::Error::other("no node has a running API"))?;
        let (api, token) = (node.addresses.api, std::fs::read_to_string(self.folder.join("api.token"))?);
        let bearer = format!("Bearer {}", token.trim());
        node.launch.inside(|| {
            // The body of an error has the reason.
            let config =
                ureq::Agent::config_builder().timeout_global(Some(REQUEST_MAX)).http_status_as_error(false).build();
            let agent = ureq::Agent::from(config);
            for zone in zones {
                let with_zone =
                    |error: &dyn std::fmt::Display| io::Error::other(format!("zone {}: {error}", zone.apex));
                let url = format!("http://{api}/v1/zone?zone={}", zone.apex);
                let done = match change {
                    ZoneChange::Add => {
                        let file = std::fs::read_to_string(&zone.file).map_err(|error| with_zone(&error))?;
                        let text = format!("$ORIGIN {}\n{file}", zone.apex);
                        agent.post(&url).header("authorization", &bearer).send(&text)
                    }
                    ZoneChange::Remove => agent.delete(&url).header("authorization", &bearer).call(),
                };
                let mut response = done.map_err(|error| with_zone(&error))?;
                let status = response.status();
                if !status.is_success() {
                    let text = response.body_mut().read_to_string().unwrap_or_default();
                    return Err(with_zone(&format_args!("{status}: {}", text.trim())));
                }
            }
            Ok(())
        })
    }

    /// Runs a command on the machine of node 1.
    fn run(&self, folder: &Path, words: &[&str], input: &str) -> Result<String, PeerError> {
        let namespace = self.nodes.first().and_then(|node| node.launch.namespace.as_deref());
        self.run_in(namespace, folder, words, input)
    }

    /// Runs a command of the program with this input. Returns its output.
    fn run_in(&self, namespace: Option<&str>, folder: &Path, words: &[&str], input: &str) -> Result<String, PeerError> {
        let wrong = |error| PeerError::Start(Kind::Catamaran, error);
        let mut command = Command::new(&self.program);
        command.args(words).arg("--dir").arg(folder).envs(self.environment.iter().cloned());
        if let Some(namespace) = namespace {
            links::start_inside(&mut command, namespace);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(wrong)?;
        if let Some(mut stdin) = child.stdin.take() {
            // If it does not read its input, it exits with the reason.
            let _written = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(wrong)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(PeerError::Start(Kind::Catamaran, io::Error::other(format!("{}: {text}", words.join(" ")))));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Asks one node after the other for the status of the cluster, until one has the answer. Nodes may be gone, or cut
    /// off.
    fn ask<T>(&self, answer: impl Fn(&serde_json::Value) -> Option<T>) -> Option<T> {
        self.nodes.iter().find_map(|node| {
            let api = node.addresses.api.to_string();
            let words = ["cluster", "status", "--json", "--timeout", "2", "--api", &api];
            let text = self.run_in(node.launch.namespace.as_deref(), &self.folder, &words, "").ok()?;
            answer(&serde_json::from_str(&text).ok()?)
        })
    }

    fn voters(&self) -> Option<usize> {
        self.ask(|status| Some(status["members"].as_array()?.iter().filter(|member| member["voter"] == true).count()))
    }

    /// Waits while the nodes from this index on run.
    fn wait_for(&mut self, what: &str, from: usize, is_done: impl Fn(&Self) -> bool) -> Result<(), PeerError> {
        let until = Instant::now() + STEP_MAX;
        while !is_done(self) {
            let has_exited = (from..self.nodes.len()).any(|index| !self.is_running(index));
            if has_exited || Instant::now() > until {
                let ends = self.nodes.iter().map(|node| output_end(&node.output)).collect::<Vec<_>>().join("\n");
                return Err(PeerError::NotReady(Kind::Catamaran, format!("waiting for {what} failed\n{ends}")));
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(())
    }

    /// The index of the leader, from 0. `None` while there is none.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let leader = self.ask(|status| status["leader"].as_u64().filter(|leader| *leader > 0))?;
        usize::try_from(leader).ok()?.checked_sub(1)
    }

    /// The address of a node for UDP and TCP, from 0.
    #[must_use]
    pub fn dns_address(&self, index: usize) -> Option<SocketAddr> {
        self.nodes.get(index).map(|node| node.addresses.dns)
    }

    /// The number of nodes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The process ID of a node, from 0.
    #[must_use]
    pub fn pid(&self, index: usize) -> u32 {
        self.nodes[index].child.id()
    }

    /// Whether a node is running.
    pub fn is_running(&mut self, index: usize) -> bool {
        matches!(self.nodes[index].child.try_wait(), Ok(None))
    }

    /// Starts a node again after it exited. Does not wait until it answers.
    ///
    /// # Errors
    /// It is still running, or it does not start.
    pub fn start_again(&mut self, index: usize) -> io::Result<()> {
        if self.is_running(index) {
            return Err(io::Error::other("it is still running"));
        }
        let node = &mut self.nodes[index];
        node.child = spawn_into(&mut node.command, &node.output)?;
        Ok(())
    }

    /// The words of the command line of a node.
    #[must_use]
    pub fn words(&self, index: usize) -> &[String] {
        &self.nodes[index].words
    }

    /// The file with the output of a node.
    #[must_use]
    pub fn output(&self, index: usize) -> &Path {
        &self.nodes[index].output
    }

    /// The end of the output of a node.
    #[must_use]
    pub fn output_end(&self, index: usize) -> String {
        output_end(&self.nodes[index].output)
    }

    /// The configuration of node 1.
    #[must_use]
    pub fn configuration(&self) -> String {
        self.nodes.first().map_or_else(String::new, |node| std::fs::read_to_string(&node.config).unwrap_or_default())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.nodes.iter_mut().for_each(|node| stop(&mut node.child));
    }
}

/// Changes the configuration that `init` or `join` wrote.
fn configure(config: &Path, setup: &Setup, addresses: &NodeAddresses) -> Result<(), PeerError> {
    let mut edits = Vec::new();
    if let Some(threads) = setup.threads {
        edits.push(("udp_workers = 0", format!("udp_workers = {threads}")));
    }
    if let Some(seconds) = setup.idle_s {
        edits.push(("idle_ms = 10000", format!("idle_ms = {}", 1_000 * seconds)));
    }
    if let Some(max) = setup.connections_max {
        edits.push(("connections_per_client_max = 2048", format!("connections_per_client_max = {max}")));
        edits.push(("connections_max = 16384", format!("connections_max = {max}")));
    }
    if !addresses.dns.ip().is_loopback() {
        // As for loopback by default: the loads have one address each.
        let exempt = "exempt = [\"127.0.0.0/8\", \"::1/128\"]";
        edits.push((exempt, exempt.replace(']', ", \"0.0.0.0/0\"]")));
    }
    let edits: Vec<_> = edits.iter().map(|(from, to)| (*from, to.as_str())).collect();
    replace_in_file(config, &edits)?;
    let wrong = |error| PeerError::Folder(config.to_owned(), error);
    let mut file = File::options().append(true).open(config).map_err(wrong)?;
    let Some(encryption) = &setup.encryption else { return Ok(()) };
    let (certificate, key) = (encryption.certificate.display(), encryption.key.display());
    let mut text = format!("\n[dns.tls]\ncert_file = \"{certificate}\"\nkey_file = \"{key}\"\n");
    for (name, address) in [("dot", addresses.dot), ("doq", addresses.dot), ("doh", addresses.doh)] {
        text.extend(address.map(|address| format!("{name} = [\"{address}\"]\n")));
    }
    file.write_all(text.as_bytes()).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_cannot_be_a_secondary() {
        let address = ([127, 0, 0, 1], 53).into();
        let setup = Setup { primary: Some(address), ..Setup::new("/nowhere", address, Vec::new()) };
        let refused = Nodes::start(&setup, &[], 0).map(drop);
        assert!(matches!(refused, Err(PeerError::Unsupported(Kind::Catamaran, "primary"))));
    }
}
