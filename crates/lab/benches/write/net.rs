//! A network of the bench's own: a namespace for each node, all on one bridge, and cuts between them.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that it takes.
const PROGRAMS: [&str; 2] = ["ip", "nft"];
/// Names of its bridges, links and namespaces begin so; the number of the process follows.
const NAME: &str = "catw";
/// The bridge's own address in the network of /24.
const BRIDGE: u8 = 254;

/// What a node does not hear or is not heard by; packets are dropped where they arrive, so that no sender is told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Cut {
    /// Neither.
    Both,
    /// The others do not hear it.
    Mute,
    /// It does not hear the others.
    Deaf,
}

/// The namespaces and the bridge; all of it goes with this value.
pub(crate) struct Net {
    bridge: String,
    /// The third byte of its addresses.
    place: u8,
    nodes: u64,
}

impl Net {
    /// Makes it, with so many namespaces.
    ///
    /// # Errors
    /// When a program is missing, or this user may not.
    pub(crate) fn make(folder: &Path, nodes: u64) -> Result<Self, String> {
        for program in PROGRAMS {
            if Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
                return Err(format!("{program} is not installed; apt-get install iproute2 nftables"));
            }
        }
        remove_those_of_the_dead();
        let pid = std::process::id();
        let net = Self { bridge: format!("{NAME}{pid}"), place: (pid % 256) as u8, nodes };
        // Should a signal end the bench, these are run by the handler.
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
        Ipv4Addr::new(198, 19, self.place, node as u8)
    }

    /// Of a node; its link has the same name.
    fn namespace(&self, node: u64) -> String {
        format!("{}-{node}", self.bridge)
    }

    /// A program that will run in the namespace of a node, as the very process that is started.
    pub(crate) fn command(&self, node: u64, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(node)]).arg(program);
        command
    }

    /// Cuts a node off from the other nodes; who asks from outside still reaches all of them.
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

    /// What `node` gets from these is dropped there.
    fn drop_from(&self, node: u64, from: &[u64]) -> Result<(), String> {
        let from: Vec<String> = from.iter().map(|&other| self.address_of(other).to_string()).collect();
        let rules = format!(
            "table inet cut {{\nchain arriving {{\ntype filter hook input priority 0;\nip saddr {{ {} }} drop\n}}\n\
             }}\n",
            from.join(", ")
        );
        self.nft(node, &rules)
    }

    /// All nodes hear each other again.
    pub(crate) fn heal(&self) -> Result<(), String> {
        // Making it first makes removing it right where there was none.
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

    /// What takes it away: a link goes with its namespace, as soon as no process is in there.
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

/// What a bench left that was killed.
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
