//! A cluster of real nodes. Each node has its own network namespace and disk.

use crate::api;
use crate::disk::Disk;
use crate::history::is_all_live;
use crate::interrupt;
use crate::limits::{COMMAND_S, SETTLE};
use crate::net::{Network, PEER_PORT, address};
use crate::node::Node;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tsig::KeyAlgorithm;
use tsig::client::ClientKey;

/// The configuration of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) program: PathBuf,
    /// Whether logs are so small that nodes write checkpoints all the time.
    pub(crate) has_tiny_logs: bool,
    /// The folder of the nodes' logs and the clients' files.
    pub(crate) work: PathBuf,
    /// The folder of the disk images.
    pub(crate) images: PathBuf,
    /// The number of a planted bug.
    pub(crate) planted: Option<u32>,
}

/// A running cluster. Dropping it stops all nodes.
#[derive(Debug)]
pub(crate) struct Cluster<'n> {
    pub(crate) plan: Plan,
    pub(crate) net: &'n Network,
    /// The nodes, by slot.
    pub(crate) nodes: BTreeMap<usize, Node>,
    pub(crate) disks: BTreeMap<usize, Disk>,
    pub(crate) token: String,
    pub(crate) key: ClientKey,
    /// Number of directories made so far. Each member gets a new one.
    generation: usize,
}

impl<'n> Cluster<'n> {
    /// Creates a cluster and waits until all nodes serve.
    pub(crate) fn start(plan: Plan, net: &'n Network) -> Result<Self, String> {
        for dir in [&plan.work, &plan.images] {
            fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        }
        let no_key = ClientKey::new(name(".").as_ref(), KeyAlgorithm::HmacSha256, &[0; 32]);
        let key = no_key.map_err(|error| format!("{error:?}"))?;
        let (nodes, disks, token) = (BTreeMap::new(), BTreeMap::new(), String::new());
        let mut cluster = Self { plan, net, nodes, disks, token, key, generation: 0 };
        cluster.found()?;
        for slot in 2..=cluster.plan.nodes {
            cluster.join(slot)?;
        }
        cluster.settle(SETTLE)?;
        let text = cluster.command(&["key", "add", "torture", "--update"])?;
        cluster.key = key_of(&text).ok_or("the key file has no key")?;
        Ok(cluster)
    }

    fn found(&mut self) -> Result<(), String> {
        let dir = self.directory(1)?;
        let words = ["--dns", "53", "--peer", "5380", "--api", "8053"].map(str::to_owned);
        let mut arguments = vec!["init".to_owned(), "--dir".to_owned(), dir.to_string_lossy().into_owned()];
        arguments.extend(words.into_iter().map(|argument| addressed(1, argument)));
        self.raw_command(&arguments, None)?;
        let token = fs::read_to_string(dir.join("api.token")).map_err(|error| error.to_string())?;
        self.token = token.trim().to_owned();
        self.run_new(1, 1, dir)?;
        self.wait("node 1 to lead", SETTLE, |cluster| (cluster.leader()? == 1).then_some(()))
    }

    /// Returns a new directory for a member in a slot, on the slot's disk. It does not exist yet.
    pub(crate) fn directory(&mut self, slot: usize) -> Result<PathBuf, String> {
        if !self.disks.contains_key(&slot) {
            let image = self.plan.images.join(format!("disk-{slot}"));
            self.disks.insert(slot, Disk::make(image, self.plan.images.join(format!("at-{slot}")))?);
        }
        self.generation += 1;
        Ok(self.disks[&slot].path().join(format!("m{}", self.generation)))
    }

    fn run_new(&mut self, slot: usize, id: u64, dir: PathBuf) -> Result<(), String> {
        let log = self.plan.work.join(format!("node-{slot}.log"));
        let mut node = Node::new(slot, id, dir, self.plan.program.clone(), log, self.net.node(slot).name());
        let config = node.config();
        let text = fs::read_to_string(&config).map_err(|error| error.to_string())?;
        let mut text = text.replace("exempt = [", "exempt = [\"10.77.0.0/16\", ");
        if self.plan.has_tiny_logs {
            text.push_str("\n[log]\ncheckpoint_bytes = 65536\nkeep_entries = 50\nkeep_bytes = 65536\n");
        }
        fs::write(&config, text).map_err(|error| error.to_string())?;
        node.planted = self.plan.planted;
        node.start()?;
        self.nodes.insert(slot, node);
        Ok(())
    }

    /// Adds a member in an empty slot.
    pub(crate) fn join(&mut self, slot: usize) -> Result<u64, String> {
        let token = self.command(&["cluster", "add"])?;
        let dir = self.directory(slot)?;
        let words = ["--dns", "53", "--peer", "5380", "--api", "8053"].map(str::to_owned);
        let dir_text = dir.to_string_lossy().into_owned();
        let mut arguments: Vec<String> =
            ["join", "--token", token.trim(), "--dir", &dir_text].map(str::to_owned).into();
        arguments.extend(words.into_iter().map(|argument| addressed(slot, argument)));
        let text = self.raw_command(&arguments, Some(self.net.node(slot).name()))?;
        let id =
            text.split("joined as node ").nth(1).and_then(|rest| rest.split([';', ' ', '\n']).next()?.parse().ok());
        let id = id.ok_or_else(|| format!("`join` names no node: {text}"))?;
        self.run_new(slot, id, dir)?;
        self.wait(&format!("node {id} to be a voter"), SETTLE, |cluster| {
            let status = cluster.status_of_any()?;
            let members = status["members"].as_array()?;
            let voter = members.iter().find(|member| member["node"] == id)?["voter"].as_bool()?;
            voter.then_some(())
        })?;
        Ok(id)
    }

    /// Removes a member for good. If its process is running, it is killed first.
    pub(crate) fn remove(&mut self, slot: usize) -> Result<(), String> {
        let Some(mut node) = self.nodes.remove(&slot) else { return Err(format!("slot {slot} has no node")) };
        node.ensure_dead();
        self.command(&["cluster", "remove", &node.id.to_string()])?;
        fs::remove_dir_all(&node.dir).map_err(|error| format!("{}: {error}", node.dir.display()))
    }

    /// Removes a member that lost its data, and lets a new one join in its slot.
    pub(crate) fn replace(&mut self, slot: usize) -> Result<(), String> {
        self.remove(slot)?;
        self.join(slot).map(drop)
    }

    /// Runs a command of the program through any running node.
    pub(crate) fn command(&self, words: &[&str]) -> Result<String, String> {
        let mut last = "no node is running".to_owned();
        for node in self.nodes.values().filter(|node| node.pid().is_some()) {
            let mut arguments: Vec<String> = words.iter().map(|argument| (*argument).to_owned()).collect();
            arguments.extend(["--dir".into(), node.dir.to_string_lossy().into_owned()]);
            match self.raw_command(&arguments, None) {
                Ok(output) => return Ok(output),
                // A command with an unknown outcome (exit code 11, or 1 in older programs) must not be repeated.
                Err(error) if error.contains("no node answers") || error.contains("no leader") => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn raw_command(&self, arguments: &[String], namespace: Option<&str>) -> Result<String, String> {
        let limit = COMMAND_S.to_string();
        let mut command = Command::new("timeout");
        command.arg(&limit);
        if let Some(namespace) = namespace {
            command.arg("nsenter").arg(format!("--net=/var/run/netns/{namespace}"));
        }
        let output = command.arg(&self.plan.program).args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(format!("catamaran {}: {}: {}", arguments.join(" "), output.status, stderr.trim()))
    }

    pub(crate) fn slots(&self) -> Vec<usize> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn status(&self, slot: usize) -> Option<Value> {
        api::status(address(slot), &self.token)
    }

    fn status_of_any(&self) -> Option<Value> {
        self.nodes.values().filter(|node| node.pid().is_some()).find_map(|node| self.status(node.slot))
    }

    /// The slot of the leader, as reported by the first node that knows one.
    pub(crate) fn leader(&self) -> Option<usize> {
        let running = self.nodes.values().filter(|node| node.pid().is_some());
        let id = running.filter_map(|node| self.status(node.slot)?["leader"].as_u64()).next()?;
        self.nodes.values().find(|node| node.id == id).map(|node| node.slot)
    }

    /// Waits until all nodes serve and have applied the same index. Returns applied index and state hash by slot.
    pub(crate) fn settle(&mut self, timeout: Duration) -> Result<Vec<(usize, u64, String)>, String> {
        let mut seen = String::new();
        let result = self.wait("all nodes to agree", timeout, |cluster| {
            let mut states = Vec::new();
            seen.clear();
            for slot in cluster.slots() {
                let status = cluster.status(slot);
                let field = |name: &str| status.as_ref().map_or(Value::Null, |status| status[name].clone());
                seen.push_str(&format!(
                    "slot {slot}: role {} serving {} applied {} leader {}; ",
                    field("role"),
                    field("serving"),
                    field("applied_index"),
                    field("leader")
                ));
                let applied = field("applied_index").as_u64();
                let serves = field("serving") == "yes" && field("leader").is_u64();
                states.push((slot, applied.filter(|_| serves), field("state_hash").as_str().unwrap_or("").to_owned()));
            }
            let first = states.first()?.1?;
            let agree = states.iter().all(|(_, applied, _)| *applied == Some(first));
            agree.then(|| states.into_iter().map(|(slot, _, hash)| (slot, first, hash)).collect())
        });
        result.map_err(|error| format!("{error}: {seen}"))
    }

    /// Polls until there is a result. A node that exits meanwhile is an error.
    pub(crate) fn wait<T>(
        &mut self,
        what: &str,
        timeout: Duration,
        mut attempt: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, String> {
        let deadline = Instant::now() + timeout;
        loop {
            interrupt::check()?;
            if let Some(result) = attempt(self) {
                return Ok(result);
            }
            if let Some(end) = self.unexpected_end() {
                return Err(format!("waited for {what}: {end}"));
            }
            if Instant::now() > deadline {
                return Err(format!("timed out after {} s: waited for {what}", timeout.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Describes a node that exited by itself.
    pub(crate) fn unexpected_end(&mut self) -> Option<String> {
        let ended = |node: &mut Node| {
            let status = node.has_ended()?;
            Some(format!(
                "node {} in slot {} exited with {status}; end of its log:\n{}",
                node.id,
                node.slot,
                node.tail(6)
            ))
        };
        self.nodes.values_mut().find_map(ended)
    }

    pub(crate) fn node(&mut self, slot: usize) -> Result<&mut Node, String> {
        self.nodes.get_mut(&slot).ok_or_else(|| format!("slot {slot} has no node"))
    }

    pub(crate) fn disk(&mut self, slot: usize) -> Result<&mut Disk, String> {
        self.disks.get_mut(&slot).ok_or_else(|| format!("slot {slot} has no disk"))
    }

    /// Adds two zones for one run and waits until all nodes have them.
    pub(crate) fn add_zones(&mut self, zones: &[String]) -> Result<(), String> {
        let file = self.plan.work.join("empty.zone");
        let text = "$TTL 60\n@ SOA ns h 1 3600 600 86400 60\n@ NS ns\nns A 192.0.2.53\n";
        fs::write(&file, text).map_err(|error| error.to_string())?;
        for zone in zones {
            let source = format!("{zone}={}", file.to_string_lossy());
            match is_all_live(zone) {
                true => self.add_all_live(&source)?,
                false => self.command(&["zone", "add", &source]).map(drop)?,
            }
        }
        self.settle(SETTLE).map(drop)
    }

    /// Adds a zone with `ack = all-live`. The cluster refuses it while a node is behind, for example after a fault.
    fn add_all_live(&self, source: &str) -> Result<(), String> {
        let deadline = Instant::now() + SETTLE;
        loop {
            match self.command(&["zone", "add", source, "--ack", "all-live"]) {
                Err(error) if error.contains("has not caught up") && Instant::now() < deadline => {
                    interrupt::sleep(Duration::from_millis(500))?;
                }
                done => return done.map(drop),
            }
        }
    }

    pub(crate) fn remove_zones(&mut self, zones: &[String]) -> Result<(), String> {
        zones.iter().try_for_each(|zone| self.command(&["zone", "remove", "--yes", zone]).map(drop))
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        for node in self.nodes.values_mut() {
            node.resume();
            node.ensure_dead();
        }
        let _ = self.net.heal();
    }
}

/// Returns an option as it is, and a port with the slot's address.
fn addressed(slot: usize, argument: String) -> String {
    debug_assert_eq!(PEER_PORT, 5380);
    if argument.starts_with("--") { argument } else { format!("{}:{argument}", address(slot)) }
}

/// Parses a name that is known to be valid.
pub(crate) fn name(text: &str) -> wire::Name {
    text.parse().expect("a valid name")
}

/// Reads the key from a file in the format of `nsupdate -k`.
fn key_of(text: &str) -> Option<ClientKey> {
    let quoted: Vec<&str> = text.split('"').collect();
    let name: wire::Name = quoted.get(1)?.parse().ok()?;
    let secret = data_encoding::BASE64.decode(quoted.get(3)?.as_bytes()).ok()?;
    ClientKey::new(name.as_ref(), KeyAlgorithm::HmacSha256, &secret).ok()
}
