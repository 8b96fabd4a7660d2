//! The network of the bench: a namespace for each node, all on one bridge, and cuts between them.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that it needs.
const PROGRAMS: [&str; 2] = ["ip", "nft"];
/// Prefix of the names of its bridges, links and namespaces. The process ID follows.
const NAME: &str = "catw";
/// The address of the bridge in its /24 network.
const BRIDGE: u8 = 254;

/// Directions in which a node is cut off. Packets are dropped on arrival, so that no sender notices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Cut {
    /// Both directions.
    Both,
    /// The others do not hear it.
    Mute,
    /// It does not hear the others.
    Deaf,
}

/// The namespaces and the bridge. They are removed on drop.
pub(crate) struct Net {
    bridge: String,
    /// The third byte of its addresses.
    subnet: u8,
    nodes: u64,
}

impl Net {
    /// Creates the network with this many namespaces.
    ///
    /// # Errors
    /// If a program or permission is missing.
    pub(crate) fn make(folder: &Path, nodes: u64) -> Result<Self, String> {
        for program in PROGRAMS {
            if Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
                return Err(format!("{program} is not installed; apt-get install iproute2 nftables"));
            }
        }
        remove_those_of_the_dead();
        let pid = std::process::id();
        let net = Self { bridge: format!("{NAME}{pid}"), subnet: (pid % 256) as u8, nodes };
        // The signal handler runs these if a signal ends the bench.
        let lines: String = net.removal().iter().map(|words| format!("{}\n", words.join(" "))).collect();
        let file = folder.join("clean-up");
        std::fs::write(&file, lines).map_err(|error| format!("{}: {error}", file.display()))?;
        let (bridge, own) = (&net.bridge, format!("{}/24", net.address_of(u64::from(BRIDGE))));
        run(&["ip", "link", "add", bridge, "type", "bridge"])?;
        run(&["ip", "addr", "add", &own, "dev", bridge])?;
        run(&["ip", "link", "set", bridge, "up"])?;
        for node in 1..=nodes {
            let (name, own) = (net.namespace(node), format!("{}/24", net.address_of(node)));
            run(&["ip", "netns", "add", &name])?;
            run(&["ip", "link", "add", &name, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
            run(&["ip", "link", "set", &name, "master", bridge, "up"])?;
            run(&["ip", "-n", &name, "addr", "add", &own, "dev", "eth0"])?;
            run(&["ip", "-n", &name, "link", "set", "eth0", "up"])?;
            run(&["ip", "-n", &name, "link", "set", "lo", "up"])?;
        }
        Ok(net)
    }

    /// The address of a node, counted from one (RFC 2544: 198.18.0.0/15 is for measuring).
    pub(crate) fn address_of(&self, node: u64) -> Ipv4Addr {
        Ipv4Addr::new(198, 19, self.subnet, node as u8)
    }

    /// The namespace of a node. Its link has the same name.
    fn namespace(&self, node: u64) -> String {
        format!("{}-{node}", self.bridge)
    }

    /// A program in the namespace of a node. It replaces the started process, so the process ID is its own.
    pub(crate) fn command(&self, node: u64, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node)]).arg(program);
        command
    }

    /// Cuts a node off from the other nodes. Clients outside the cluster still reach all nodes.
    pub(crate) fn cut(&self, node: u64, cut: Cut) -> Result<(), String> {
        let others: Vec<u64> = (1..=self.nodes).filter(|&other| other != node).collect();
        if matches!(cut, Cut::Both | Cut::Deaf) {
            self.drop_from(node, &others)?;
        }
        if matches!(cut, Cut::Both | Cut::Mute) {
            others.iter().try_for_each(|&other| self.drop_from(other, &[node]))?;
        }
        Ok(())
    }

    /// Drops packets from these nodes at `node`.
    fn drop_from(&self, node: u64, from: &[u64]) -> Result<(), String> {
        let from: Vec<String> = from.iter().map(|&other| self.address_of(other).to_string()).collect();
        let rules = format!(
            "table inet cut {{\nchain arriving {{\ntype filter hook input priority 0;\nip saddr {{ {} }} drop\n}}\n\
             }}\n",
            from.join(", ")
        );
        self.nft(node, &rules)
    }

    /// Removes all cuts.
    pub(crate) fn heal(&self) -> Result<(), String> {
        // Adding the table first makes deleting it succeed even if it did not exist.
        (1..=self.nodes).try_for_each(|node| self.nft(node, "add table inet cut\ndelete table inet cut\n"))
    }

    fn nft(&self, node: u64, rules: &str) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("nft: {error}");
        let mut command = self.command(node, Path::new("nft"));
        command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(wrong)?;
        let written = child.stdin.take().expect("it is piped").write_all(rules.as_bytes());
        let output = child.wait_with_output().map_err(wrong)?;
        if output.status.success() && written.is_ok() {
            return Ok(());
        }
        Err(format!("nft: {}{rules}", String::from_utf8_lossy(&output.stderr)))
    }

    /// Commands that remove the network. A link is removed with its namespace once no process uses it.
    fn removal(&self) -> Vec<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut all: Vec<_> = (1..=self.nodes)
            .flat_map(|node| {
                let name = self.namespace(node);
                [words(&["ip", "link", "del", &name]), words(&["ip", "netns", "del", &name])]
            })
            .collect();
        all.push(words(&["ip", "link", "del", &self.bridge]));
        all
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for words in self.removal() {
            quietly(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}

/// Removes networks of benches that were killed.
fn remove_those_of_the_dead() {
    let listed = Command::new("ip").args(["netns", "list"]).stdin(Stdio::null()).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for name in listed.lines().filter_map(|line| line.split(' ').next()) {
        let Some((pid, _)) = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-')) else { continue };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            quietly(&["ip", "link", "del", name]);
            quietly(&["ip", "netns", "del", name]);
            quietly(&["ip", "link", "del", &format!("{NAME}{pid}")]);
        }
    }
}

fn quietly(words: &[&str]) {
    let _done = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::null()).status();
}

fn run(words: &[&str]) -> Result<(), String> {
    let shown = words.join(" ");
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
