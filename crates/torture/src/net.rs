//! The network: a namespace for each node and one for clients, behind a router that can drop packets.

use crate::limits::SLOTS;
use links::{Namespace, ip};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Port of connections between nodes.
pub(crate) const PEER_PORT: u16 = 5380;
const CLIENTS: usize = 250;

/// All namespaces. Dropping this removes them.
#[derive(Debug)]
pub(crate) struct Network {
    router: Namespace,
    nodes: Vec<Namespace>,
    clients: Namespace,
    cuts: Mutex<BTreeSet<(usize, usize)>>,
}

/// The address of the node in a slot.
pub(crate) fn address(slot: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, slot as u8, 2)
}

impl Network {
    pub(crate) fn make() -> Result<Self, String> {
        let text = |error: std::io::Error| format!("cannot make the network: {error}");
        let name = |what: &str| format!("ct{}{what}", std::process::id());
        let router = Namespace::make(&name("r")).map_err(text)?;
        // This is the setting of the router's namespace, not of the machine.
        let forward = router.inside(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"));
        forward.map_err(text)?;
        let mut nodes = Vec::new();
        for slot in 1..=SLOTS {
            nodes.push(Self::host(&router, &name(&format!("n{slot}")), slot).map_err(text)?);
        }
        let clients = Self::host(&router, &name("c"), CLIENTS).map_err(text)?;
        Ok(Self { router, nodes, clients, cuts: Mutex::default() })
    }

    fn host(router: &Namespace, name: &str, slot: usize) -> std::io::Result<Namespace> {
        let host = Namespace::make(name)?;
        ip(&[
            "link",
            "add",
            "up0",
            "netns",
            name,
            "type",
            "veth",
            "peer",
            "name",
            &format!("n{slot}"),
            "netns",
            router.name(),
        ])?;
        host.ip(&format!("addr add {}/24 dev up0", address(slot)))?;
        host.ip("link set up0 up")?;
        router.ip(&format!("addr add 10.77.{slot}.1/24 dev n{slot}"))?;
        router.ip(&format!("link set n{slot} up"))?;
        host.ip(&format!("route add default via 10.77.{slot}.1"))?;
        Ok(host)
    }

    pub(crate) fn clients(&self) -> &Namespace {
        &self.clients
    }

    pub(crate) fn node(&self, slot: usize) -> &Namespace {
        &self.nodes[slot - 1]
    }

    /// Drops all packets from one node to another, silently.
    pub(crate) fn cut(&self, from: usize, to: usize) -> Result<(), String> {
        if self.cuts().insert((from, to)) {
            self.rule("add", from, to)?;
        }
        Ok(())
    }

    /// Ends all cuts.
    pub(crate) fn heal(&self) -> Result<(), String> {
        std::mem::take(&mut *self.cuts()).into_iter().try_for_each(|(from, to)| self.rule("del", from, to))
    }

    fn rule(&self, what: &str, from: usize, to: usize) -> Result<(), String> {
        let line = format!("rule {what} from {} to {} blackhole", address(from), address(to));
        self.router.ip(&line).map_err(|error| error.to_string())
    }

    fn cuts(&self) -> MutexGuard<'_, BTreeSet<(usize, usize)>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one node can open a connection to another.
    pub(crate) fn connects(&self, from: usize, to: usize) -> bool {
        let target = SocketAddr::from((address(to), PEER_PORT));
        let timeout = Duration::from_millis(400);
        self.node(from).inside(|| TcpStream::connect_timeout(&target, timeout).map(drop)).is_ok()
    }
}
