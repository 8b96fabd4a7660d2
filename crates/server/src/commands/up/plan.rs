//! The directory of the cluster, and the configurations of its nodes.

use super::ports::{PlannedNode, Ports, on_loopback};
use crate::limits::{UP_BYTES_A_MS, UP_READY_MS};
use crate::listen::sockets::{self, Protocols};
use crate::replica_host::first_state;
use crate::tls::ca::Ca;
use cli::client::connect::NodeConnector;
use cli::client::socket;
use cli::node::up::UpArgs;
use config::files::cluster_json::ClusterJson;
use config::files::data_key::DataKeyFile;
use config::files::key_file::TsigKey;
use config::files::layout::Layout;
use config::files::token::Token;
use config::files::{Readers, tighten, write_atomic};
use config::tls::Tls;
use config::{Config, Dns, Member};
use process::problem::{Exit, Problem};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tsig::KeyAlgorithm;

/// Number of nodes of a new cluster without `--nodes`.
const NODES_DEFAULT: u64 = 3;
/// Ports for connections between nodes. They are below the kernel's ephemeral ports, so that a port stays free between
/// two runs.
const PEER_PORTS: std::ops::Range<u16> = 20_000..32_000;
/// Time limit for the nodes of a killed run to release directory and ports.
const LET_GO_MS: u64 = 5_000;

/// A cluster on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    pub(crate) nodes: Vec<PlannedNode>,
    pub(crate) ports: Ports,
    /// Whether the directory has a cluster that was running before.
    pub(crate) resumes: bool,
    /// Keeps the directory locked.
    _lock: Arc<File>,
}

impl Plan {
    /// Creates or resumes the directory, checks that all ports are free, and writes the nodes' configurations.
    pub(crate) fn make(args: &UpArgs) -> Result<Self, Problem> {
        let dir = std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone());
        let failed = |what: &str| {
            let (what, dir) = (what.to_owned(), dir.clone());
            move |error: io::Error| {
                Problem::new(Exit::Failed, what, error).at(dir.display()).hint("choose another directory with --dir")
            }
        };
        std::fs::create_dir_all(&dir).map_err(failed("cannot create the directory"))?;
        let layout = Layout::new(&dir);
        let lock = lock(&layout)?;
        tighten::cluster(&dir);
        let old = old_members(&layout)?;
        let count = node_count(args, old.len() as u64, &dir)?;
        let ports = Ports::of(args);
        let nodes = ports.nodes(count)?;
        let plan = Self { layout, nodes, ports, resumes: !old.is_empty(), _lock: Arc::new(lock) };
        let has_ipv6 = sockets::has_ipv6_loopback();
        plan.check_free(&old, has_ipv6)?;
        let kept = plan.kept_settings()?;
        let configs = plan.prepare(old, &kept, has_ipv6).map_err(failed("cannot write to the directory"))?;
        for (node, config) in plan.nodes.iter().zip(configs) {
            let files = plan.layout.node(node.id);
            // If a node's data is missing, it is not created again.
            if !kept.contains_key(&node.id) {
                first_state::make(&config.clone().based(files.dir()))?;
            }
            let written = write_atomic(&files.config(), config.to_text().as_bytes(), Readers::Owner);
            written.map_err(failed("cannot write to the directory"))?;
        }
        Ok(plan)
    }

    /// Time limit until the nodes answer. It grows with their data on disk.
    pub(crate) fn ready_ms(&self) -> u64 {
        let bytes_of = |node: &PlannedNode| {
            let files = std::fs::read_dir(self.layout.node(node.id).data()).into_iter().flatten().flatten();
            files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum::<u64>()
        };
        UP_READY_MS + self.nodes.iter().map(bytes_of).sum::<u64>() / UP_BYTES_A_MS
    }

    /// The connector to its nodes.
    pub(crate) fn connector(&self) -> NodeConnector {
        let socket = |node: &PlannedNode| (node.api, socket(&self.layout.node(node.id)));
        NodeConnector::of(self.layout.dir(), self.nodes.iter().map(socket).collect())
    }

    /// The contents of `cluster.json`.
    pub(crate) fn cluster_json(&self, leader: Option<u64>, pid: impl Fn(u64) -> Option<u32>) -> ClusterJson {
        let node = |node: &PlannedNode| config::files::cluster_json::NodeJson {
            id: node.id,
            pid: pid(node.id),
            dns: node.dns,
            dot: node.dot,
            doh: node.doh,
            doq: node.doq,
            api: node.api,
        };
        let ca = self.ports.any_encrypted().then(|| self.layout.ca_cert());
        ClusterJson { leader, ca, nodes: self.nodes.iter().map(node).collect() }
    }

    fn check_free(&self, old: &[Member], has_ipv6: bool) -> Result<(), Problem> {
        let deadline = Instant::now() + Duration::from_millis(LET_GO_MS);
        let check = || {
            for (address, protocols) in self.listened_on(old, has_ipv6) {
                sockets::check_free(address, protocols)?;
            }
            Ok(())
        };
        loop {
            match check() {
                Err(Problem { exit: Exit::InUse, .. }) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                done => return done,
            }
        }
    }

    fn listened_on(&self, old: &[Member], has_ipv6: bool) -> Vec<(SocketAddr, Protocols)> {
        let mut all = Vec::new();
        let mut add = |shared: Option<u16>, own: fn(&PlannedNode) -> Option<SocketAddr>, protocols| {
            let own = self.nodes.iter().filter_map(own).map(|address| address.port());
            let ports = shared.into_iter().chain(own);
            all.extend(ports.flat_map(|port| on_loopback(port, has_ipv6)).map(|address| (address, protocols)));
        };
        add(Some(self.ports.dns), |node| Some(node.dns), Protocols::Both);
        add(self.ports.dot, |node| node.dot, Protocols::Tcp);
        add(self.ports.doh, |node| node.doh, Protocols::Tcp);
        add(self.ports.doq, |node| node.doq, Protocols::Udp);
        let tcp_only =
            self.nodes.iter().map(|node| node.api).chain(old.iter().filter_map(|member| member.address.socket()));
        all.extend(tcp_only.map(|address| (address, Protocols::Tcp)));
        all
    }

    /// The existing configurations, by node. An operator may have changed them.
    fn kept_settings(&self) -> Result<BTreeMap<u64, Config>, Problem> {
        let files = self.nodes.iter().map(|node| (node.id, self.layout.node(node.id).config()));
        files.filter(|(_, file)| file.exists()).map(|(id, file)| Ok((id, Config::load(&file)?))).collect()
    }

    /// Creates everything but states and configurations. Returns the configurations.
    fn prepare(&self, old: Vec<Member>, kept: &BTreeMap<u64, Config>, has_ipv6: bool) -> io::Result<Vec<Config>> {
        let layout = &self.layout;
        let ca = Ca::load_or_make(&layout.ca_cert(), &layout.ca_key())?;
        Token::load_or_make(&layout.api_token())?;
        let shared = DataKeyFile::new(&layout.data_key(), None);
        kept.values().next().map_or(shared, Config::data_key).load_or_make()?;
        if !layout.update_key().exists() {
            let name = "update.catamaran".parse().expect("two labels are a name");
            TsigKey::make(name, KeyAlgorithm::HmacSha256)?.save(&layout.update_key())?;
        }
        let members = if old.is_empty() { self.new_members()? } else { old };
        let mut configs = Vec::new();
        for node in &self.nodes {
            let files = layout.node(node.id);
            std::fs::create_dir_all(files.data())?;
            if !files.cert().exists() || !files.key().exists() {
                let issued = ca.issue(node.id)?;
                write_atomic(&files.key(), issued.key_pem.as_bytes(), Readers::Owner)?;
                write_atomic(&files.cert(), issued.cert_pem.as_bytes(), Readers::All)?;
            }
            if self.ports.any_encrypted() && (!files.dns_cert().exists() || !files.dns_key().exists()) {
                let issued = ca.issue_local()?;
                write_atomic(&files.dns_key(), issued.key_pem.as_bytes(), Readers::Owner)?;
                write_atomic(&files.dns_cert(), issued.cert_pem.as_bytes(), Readers::All)?;
            }
            let mut config = self.config(node, &members, has_ipv6);
            // Addresses come from this command line. Everything else is kept.
            if let Some(kept) = kept.get(&node.id) {
                let tls = self.tls(node, kept.dns.tls.as_ref(), has_ipv6);
                config.dns = Dns { listen: config.dns.listen, tls, ..kept.dns.clone() };
                config.log = kept.log.clone();
                config.peer.advertise = kept.peer.advertise.clone();
                config.api.socket = kept.api.socket.clone();
                config.api.hosts = kept.api.hosts.clone();
                config.zones = kept.zones.clone();
                config.wrapping_key_file = kept.wrapping_key_file.clone();
                (config.sandbox, config.audit) = (kept.sandbox, kept.audit);
            }
            configs.push(config);
        }
        Ok(configs)
    }

    fn config(&self, node: &PlannedNode, members: &[Member], has_ipv6: bool) -> Config {
        let listen = self.own_and_shared(Some(node.dns), Some(self.ports.dns), has_ipv6);
        let own = members.iter().find(|member| member.id == node.id).expect("each planned node is a member");
        let loopback = || SocketAddr::from((Ipv4Addr::LOCALHOST, own.address.port()));
        let peer = own.address.socket().unwrap_or_else(loopback);
        let mut config = super::super::init::config(node.id, listen, node.api, peer, members.to_vec());
        config.dns.tls = self.tls(node, None, has_ipv6);
        config
    }

    /// The node's settings of encrypted transports: addresses from this command line, the rest is kept.
    fn tls(&self, node: &PlannedNode, kept: Option<&Tls>, has_ipv6: bool) -> Option<Tls> {
        if !self.ports.any_encrypted() && kept.is_none() {
            return None;
        }
        let files = self.layout.node(node.id);
        let kept = kept.cloned().unwrap_or_else(|| Tls::new(files.dns_cert(), files.dns_key()));
        let listen = |own, shared| self.own_and_shared(own, shared, has_ipv6);
        Some(Tls {
            dot: listen(node.dot, self.ports.dot),
            doh: listen(node.doh, self.ports.doh),
            doq: listen(node.doq, self.ports.doq),
            ..kept
        })
    }

    fn own_and_shared(&self, own: Option<SocketAddr>, shared: Option<u16>, has_ipv6: bool) -> Vec<SocketAddr> {
        let ports = own.map(|address| address.port()).into_iter().chain(shared);
        ports.flat_map(|port| on_loopback(port, has_ipv6)).collect()
    }

    /// Free ports for connections between nodes. They are stored in the cluster's state, so they never change.
    fn new_members(&self) -> io::Result<Vec<Member>> {
        let mut random = [0; 2];
        config::files::token::fill_random(&mut random)?;
        // The nodes listen on these ports later, so they still look free.
        let planned = self.listened_on(&[], false).iter().map(|(address, _)| address.port()).collect();
        let mut free = peer_ports(u16::from_be_bytes(random), &planned)
            .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .filter(|address| sockets::check_free(*address, Protocols::Tcp).is_ok());
        let member = |node: &PlannedNode| {
            let address = free.next().ok_or_else(|| io::Error::other("no free port for connections between nodes"))?;
            Ok(Member { id: node.id, address: address.into() })
        };
        self.nodes.iter().map(member).collect()
    }
}

/// Candidate ports for connections between nodes, from a random one on, without ports of other services.
fn peer_ports(random: u16, planned: &BTreeSet<u16>) -> impl Iterator<Item = u16> {
    let span = PEER_PORTS.end - PEER_PORTS.start;
    let ports = (0..span).map(move |step| PEER_PORTS.start + (random % span + step) % span);
    ports.filter(|port| !planned.contains(port))
}

/// Locks the directory against a second `up`.
fn lock(layout: &Layout) -> Result<File, Problem> {
    let path = layout.lock();
    let in_use = |why: &str| {
        Problem::new(Exit::InUse, "cannot use the directory", why)
            .at(layout.dir().display())
            .hint("stop the other `catamaran up`, or choose another directory with --dir")
    };
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file =
        file.map_err(|error| Problem::new(Exit::Failed, "cannot lock the directory", error).at(path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(in_use("another `catamaran up` runs there")),
        Err(std::fs::TryLockError::Error(error)) => {
            Err(Problem::new(Exit::Failed, "cannot lock the directory", error).at(path.display()))
        }
    }
}

/// The members of the cluster in the directory. Empty for a new directory.
fn old_members(layout: &Layout) -> Result<Vec<Member>, Problem> {
    let first = layout.node(1).config();
    if !first.exists() {
        return Ok(Vec::new());
    }
    let mut members = Config::load(&first)?.peer.members;
    members.sort_by_key(|member| member.id);
    if members.is_empty() || !members.iter().map(|member| member.id).eq(1..=members.len() as u64) {
        let why = "its members are not numbered from 1, so `up` did not create it";
        return Err(Problem::new(Exit::Refused, "cannot run this cluster with `up`", why)
            .at(first.display())
            .hint("run each of its nodes with `catamaran serve --config FILE`"));
    }
    Ok(members)
}

fn node_count(args: &UpArgs, old: u64, dir: &Path) -> Result<u64, Problem> {
    match (args.nodes, old) {
        (None, 0) => Ok(NODES_DEFAULT),
        (Some(new), 0) => Ok(new),
        (None, old) => Ok(old),
        (Some(new), old) if new == old => Ok(old),
        (Some(new), old) => {
            let why = format!("it has a cluster of {old} nodes, not of {new}");
            Err(Problem::new(Exit::Refused, "cannot change the number of nodes this way", why)
                .at(dir.display())
                .hint(format!("omit --nodes to resume with {old}, or choose another directory with --dir")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// The first of 20 consecutive free ports. Each call returns different ports.
    fn free_base() -> u16 {
        static NEXT: std::sync::atomic::AtomicU16 = std::sync::atomic::AtomicU16::new(0);
        let is_free =
            |port| sockets::check_free(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), Protocols::Both).is_ok();
        let start = std::process::id() as u16 % 100;
        let mut bases = std::iter::repeat_with(|| NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
            .take(100)
            .map(|step| 17_600 + (start + step) % 100 * 20);
        bases.find(|base| (0..20).all(|step| is_free(base + step))).expect("twenty consecutive free ports")
    }

    fn args(dir: &Path, base: u16, nodes: Option<u64>) -> UpArgs {
        UpArgs {
            nodes,
            dir: dir.to_owned(),
            zones: Vec::new(),
            port: base,
            dot_port: None,
            doh_port: None,
            doq_port: None,
            api_port: base + 10,
            supervise: false,
        }
    }

    #[test]
    fn a_new_directory_is_complete_and_resumed_with_its_settings() {
        let dir = process::testing::test_dir("plan");
        let base = free_base();
        let plan = Plan::make(&args(dir.path(), base, None)).unwrap();
        assert_eq!(plan.nodes.len(), 3);
        assert_eq!(plan.nodes[1].dns, SocketAddr::from((Ipv4Addr::LOCALHOST, base + 2)));
        assert_eq!(plan.nodes[2].api, SocketAddr::from((Ipv4Addr::LOCALHOST, base + 13)));
        for secret in ["update.key", "api.token", "ca.key", "node-3/node.key"] {
            let mode = std::fs::metadata(dir.path().join(secret)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{secret}");
        }
        let config = Config::load(&plan.layout.node(2).config()).unwrap();
        assert!(config.dns.listen.contains(&SocketAddr::from((Ipv4Addr::LOCALHOST, base))));
        assert_eq!(config.peer.members.len(), 3);

        let problem = Plan::make(&args(dir.path(), base, None)).unwrap_err();
        assert!(problem.exit == Exit::InUse && problem.to_string().contains("another `catamaran up`"));
        drop(plan);
        let key = std::fs::read(dir.path().join("update.key")).unwrap();
        let again = Plan::make(&args(dir.path(), base, None)).unwrap();
        assert_eq!(std::fs::read(dir.path().join("update.key")).unwrap(), key);
        assert_eq!(Config::load(&again.layout.node(2).config()).unwrap(), config);
        drop(again);
        // Settings of the operator are kept, except the ports of the command line.
        let text =
            config.to_text().replace("[dns]\n", "[dns]\nchaos_id = \"two\"\n") + "\n[log]\nkeep_entries = 5000\n";
        std::fs::write(dir.path().join("node-2/catamaran.toml"), text).unwrap();
        let moved = UpArgs { api_port: base + 14, ..args(dir.path(), base, None) };
        drop(Plan::make(&moved).unwrap());
        let config = Config::load(&dir.path().join("node-2/catamaran.toml")).unwrap();
        assert_eq!((config.dns.chaos_id.as_deref(), config.api.listen.port()), (Some("two"), base + 16));
        assert_eq!(config.log.keep_entries, 5_000);
        // Settings of encrypted transports are kept while their ports are closed.
        let encrypted =
            || UpArgs { dot_port: Some(base + 4), doq_port: Some(base + 4), ..args(dir.path(), base, None) };
        let plan = Plan::make(&encrypted()).unwrap();
        assert_eq!(plan.cluster_json(None, |_| None).nodes[2].doq.unwrap().port(), base + 7);
        let file = dir.path().join("node-2/catamaran.toml");
        let tls = Config::load(&file).unwrap().dns.tls.unwrap();
        assert!(tls.dot.contains(&SocketAddr::from((Ipv4Addr::LOCALHOST, base + 6))) && tls.doh.is_empty());
        assert!(tls.cert_file.is_file() && tls.key_file.is_file());
        drop(plan);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("versions = [\"1.3\"]", "versions = [\"1.2\", \"1.3\"]")).unwrap();
        drop(Plan::make(&args(dir.path(), base, None)).unwrap());
        assert!(Config::load(&file).unwrap().dns.tls.unwrap().dot.is_empty());
        drop(Plan::make(&encrypted()).unwrap());
        assert_eq!(Config::load(&file).unwrap().dns.tls.unwrap().versions.len(), 2);
        let problem = Plan::make(&args(dir.path(), base, Some(5))).unwrap_err();
        assert!(problem.to_string().contains("a cluster of 3 nodes, not of 5"), "{problem}");
    }

    #[test]
    fn peer_ports_exclude_ports_of_other_services() {
        let last = PEER_PORTS.end - 1;
        let planned = [last, PEER_PORTS.start + 1].into();
        let ports: Vec<u16> = peer_ports(last - PEER_PORTS.start, &planned).take(2).collect();
        assert_eq!(ports, [PEER_PORTS.start, PEER_PORTS.start + 2]);
    }

    #[test]
    fn a_taken_port_is_named() {
        let dir = process::testing::test_dir("plan-taken");
        let base = free_base();
        let _taken = sockets::udp(SocketAddr::from((Ipv4Addr::LOCALHOST, base + 2)), sockets::Sharing::Shared).unwrap();
        let problem = Plan::make(&args(dir.path(), base, None)).unwrap_err();
        assert!(
            problem.exit == Exit::InUse && problem.to_string().contains(&format!("127.0.0.1:{}", base + 2)),
            "{problem}"
        );
    }
}
