//! A running net: a hub, and groups of clients with links to it.
//!
//! ```text
//!   lab.near: up0 10.100.0.1 ----- link -----+
//!                                            g0 \
//!                                                lab.hub: lo 10.53.0.1, fd53:ca7::1
//!                                            g1 /
//!   lab.far:  up0 10.101.0.1 ----- link -----+
//! ```
//!
//! Servers run on the hub, or each on a machine of its own ([`crate::machine`]).

use crate::limits::MACHINES_MAX;
use crate::machine::{self, Machine};
use crate::namespace::{has_ipv6, ip_of};
use crate::plan::{GroupPlan, HUB_NETWORKS, HUB_V4, HUB_V6, Mechanism, NetPlan, address_of};
use crate::record::Record;
use crate::relay::{LinkStatistics, Relay};
use crate::tun::{Tun, dropped_unread};
use crate::{Namespace, netem, system};
use std::io;
use std::net::IpAddr;
use std::process::Command;

/// The interface of clients.
const UP: &str = "up0";

/// A running net. Dropping it removes the links, the namespaces and the record. Programs in the namespaces must have
/// ended before.
#[derive(Debug)]
pub struct Net {
    links: Vec<Link>,
    groups: Vec<Namespace>,
    machines: Vec<Machine>,
    hub: Namespace,
    plan: NetPlan,
    _record: Record,
}

/// The mechanism that carries the packets of a group.
#[derive(Debug)]
enum Link {
    Netem,
    Relay(Relay),
}

impl Net {
    /// Creates a net. Each namespace is recorded before it is made.
    ///
    /// # Errors
    ///
    /// The net cannot be made. Its parts have been removed.
    pub fn make(plan: &NetPlan) -> io::Result<Self> {
        plan.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut record = Record::begin(&plan.name)?;
        record.add_namespace(&plan.hub())?;
        let hub = Namespace::make(&plan.hub())?;
        add_hub_addresses(&hub)?;
        let wants_netem = match plan.mechanism {
            Mechanism::Relay => false,
            Mechanism::Auto => plan.groups.iter().any(|group| netem::is_exact(&group.shape)),
            Mechanism::Netem => true,
        };
        let has_netem = wants_netem && netem::is_there(&hub);
        if plan.mechanism == Mechanism::Netem && !has_netem {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel has no netem; use the relay"));
        }
        let (links, groups, machines) = (Vec::new(), Vec::new(), Vec::new());
        let mut net = Self { links, groups, machines, hub, plan: plan.clone(), _record: record };
        for (index, group) in plan.groups.iter().enumerate() {
            net._record.add_namespace(&plan.namespace_of(group))?;
            let namespace = Namespace::make(&plan.namespace_of(group))?;
            // In the net from now on, so that the net removes it.
            net.groups.push(namespace);
            let by_netem = plan.mechanism == Mechanism::Netem || has_netem && netem::is_exact(&group.shape);
            let link = if by_netem { net.link_by_netem(index, group)? } else { net.link_by_relay(index, group)? };
            net.links.push(link);
        }
        net._record.ready()?;
        Ok(net)
    }

    /// Adds a machine for a server. Clients reach it through the links of their groups.
    ///
    /// # Errors
    ///
    /// The name is invalid or taken, there are too many machines, or the machine cannot be made.
    pub fn add_machine(&mut self, name: &str) -> io::Result<&Machine> {
        let index = self.machines.len();
        self.plan
            .check_machine(name)
            .and_then(
                |()| if index < MACHINES_MAX { Ok(()) } else { Err(format!("a net has {MACHINES_MAX} machines")) },
            )
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        if index == 0 {
            machine::forward(&self.hub)?;
        }
        let full_name = format!("{}.{name}", self.plan.name);
        self._record.add_namespace(&full_name)?;
        let namespace = Namespace::make(&full_name)?;
        self.machines.push(Machine::join(name, index as u8, namespace, &self.hub)?);
        Ok(&self.machines[index])
    }

    fn link_by_relay(&self, index: usize, group: &GroupPlan) -> io::Result<Link> {
        let namespace = &self.groups[index];
        let (clients, hub) = (Tun::make(namespace, UP)?, Tun::make(&self.hub, &hub_interface(index))?);
        let networks = self.plan.networks_of(index);
        add_client_addresses(namespace, index, &networks, ["", ""])?;
        add_hub_routes(&self.hub, index, &networks, ["", ""])?;
        let relay = Relay::start(clients, hub, &group.shape, self.plan.seed_of(index), self.plan.spin)?;
        Ok(Link::Relay(relay))
    }

    fn link_by_netem(&self, index: usize, group: &GroupPlan) -> io::Result<Link> {
        let shaping =
            netem::arguments(&group.shape).map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
        let namespace = &self.groups[index];
        veth(namespace, &self.hub, index, &self.plan.networks_of(index))?;
        netem::shape(namespace, UP, &shaping)?;
        netem::shape(&self.hub, &hub_interface(index), &shaping)?;
        Ok(Link::Netem)
    }

    /// The plan of the net.
    #[must_use]
    pub fn plan(&self) -> &NetPlan {
        &self.plan
    }

    /// Namespace of the hub.
    #[must_use]
    pub fn hub(&self) -> &Namespace {
        &self.hub
    }

    /// Namespaces of the groups, in the order of the plan.
    #[must_use]
    pub fn groups(&self) -> &[Namespace] {
        &self.groups
    }

    /// Its machines, in the order in which they were added.
    #[must_use]
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Name of the mechanism of a group.
    #[must_use]
    pub fn mechanism_of(&self, index: usize) -> &'static str {
        match self.links[index] {
            Link::Netem => "netem",
            Link::Relay(_) => "relay",
        }
    }

    /// Whether all links still run.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.links.iter().all(|link| match link {
            Link::Netem => true,
            Link::Relay(relay) => relay.is_alive(),
        })
    }

    /// Ends the net and returns the statistics of its relays. Links with netem have none.
    ///
    /// # Errors
    ///
    /// A relay failed. The net has been removed in this case too.
    pub fn finish(mut self) -> io::Result<Vec<LinkStatistics>> {
        let mut all = Vec::new();
        let names = self.plan.groups.iter().map(|group| group.name.clone());
        for (index, (link, group)) in self.links.iter_mut().zip(names).enumerate() {
            let Link::Relay(relay) = link else { continue };
            let unread = [dropped_unread(&self.groups[index], UP)?, dropped_unread(&self.hub, &hub_interface(index))?];
            let [mut up, mut down] = relay.stop()?;
            [up.dropped_unread, down.dropped_unread] = unread;
            all.push(LinkStatistics { group, up, down });
        }
        Ok(all)
    }
}

/// Makes a program end with the calling thread. So no program outlives its net.
pub fn end_with_this_thread(command: &mut Command) {
    system::kill_with_parent_thread(command);
}

fn hub_interface(index: usize) -> String {
    format!("g{index}")
}

fn add_hub_addresses(hub: &Namespace) -> io::Result<()> {
    ip_of(hub, false, &format!("addr add {HUB_V4}/32 dev lo"))?;
    ip_of(hub, true, &format!("addr add {HUB_V6}/128 dev lo nodad"))
}

/// Networks, each an address and its length.
type Networks<'n> = &'n [(IpAddr, u8)];

/// Makes every address of the group's networks local, so that programs can send from any of them. The route to the hub
/// is in the table that is looked up first, so the hub stays reachable even if it lies in these networks. A group with
/// all addresses does not get the rest of the hub's networks: a server may use more of them.
fn add_client_addresses(at: &Namespace, index: usize, networks: Networks<'_>, via: [&str; 2]) -> io::Result<()> {
    for ((source, via), (network, length)) in address_of(index, 1).into_iter().zip(via).zip(HUB_NETWORKS) {
        let six = source.is_ipv6();
        let has_all = networks.iter().any(|(address, length)| address.is_ipv6() == six && *length == 0);
        let hub = match (has_all, six) {
            (true, _) => format!("{network}/{length}"),
            (false, false) => format!("{HUB_V4}/32"),
            (false, true) => format!("{HUB_V6}/128"),
        };
        let (width, nodad) = if six { (128, "nodad") } else { (32, "") };
        ip_of(at, six, &format!("addr add {source}/{width} dev {UP} {nodad}"))?;
        ip_of(at, six, &format!("route add {hub} {via} dev {UP} src {source} table local"))?;
        ip_of(at, six, &format!("route add default {via} dev {UP} src {source}"))?;
    }
    if has_ipv6() {
        // IPv4 allows binding to any address of a local route. IPv6 needs this setting.
        at.inside(|| std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1"))?;
    }
    for (network, length) in networks {
        ip_of(at, network.is_ipv6(), &format!("route add local {network}/{length} dev lo"))?;
    }
    Ok(())
}

fn add_hub_routes(hub: &Namespace, index: usize, networks: Networks<'_>, via: [&str; 2]) -> io::Result<()> {
    let interface = hub_interface(index);
    for (network, length) in networks {
        let (six, via) = if network.is_ipv6() { (true, via[1]) } else { (false, via[0]) };
        let source = if six { HUB_V6.to_string() } else { HUB_V4.to_string() };
        ip_of(hub, six, &format!("route add {network}/{length} {via} dev {interface} src {source}"))?;
    }
    Ok(())
}

/// Joins two namespaces by a veth pair. Both ends know the other hardware address, so there are no ARP or neighbor
/// queries that could be delayed or lost.
fn veth(clients: &Namespace, hub: &Namespace, index: usize, networks: Networks<'_>) -> io::Result<()> {
    let interface = hub_interface(index);
    let (near, far) = (format!("02:ca:7a:00:{index:02x}:01"), format!("02:ca:7a:00:{index:02x}:02"));
    let peer = format!("peer name {interface} address {far} netns {}", hub.name());
    clients.ip(&format!("link add {UP} address {near} type veth {peer}"))?;
    clients.ip(&format!("link set {UP} up"))?;
    hub.ip(&format!("link set {interface} up"))?;
    let [four, six] = address_of(index, 1);
    let to_hub = [format!("via {HUB_V4} onlink"), format!("via {HUB_V6} onlink")];
    let to_clients = [format!("via {four} onlink"), format!("via {six} onlink")];
    for (is_ipv6, hub_address, client) in [(false, HUB_V4.to_string(), four), (true, HUB_V6.to_string(), six)] {
        ip_of(clients, is_ipv6, &format!("neigh add {hub_address} lladdr {far} dev {UP} nud permanent"))?;
        ip_of(hub, is_ipv6, &format!("neigh add {client} lladdr {near} dev {interface} nud permanent"))?;
    }
    add_client_addresses(clients, index, networks, [&to_hub[0], &to_hub[1]])?;
    add_hub_routes(hub, index, networks, [&to_clients[0], &to_clients[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::network_of;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// Checks the commands without netem, because many kernels have none.
    #[test]
    fn interfaces_for_netem_join_clients_and_hub_in_both_families() {
        let networks = [&network_of(3)[..], &[("198.51.100.0".parse().unwrap(), 24)]].concat();
        let name = |end| format!("v{:06}.{end}", std::process::id() % 1_000_000);
        let Ok(hub) = Namespace::make(&name("hub")) else {
            return skip::permission("making a namespace (root, iproute2)");
        };
        let clients = Namespace::make(&name("a")).unwrap();
        add_hub_addresses(&hub).unwrap();
        veth(&clients, &hub, 3, &networks).unwrap();
        // The second address of each family is on no interface. It only belongs to a network of the clients.
        let mut sources = [address_of(3, 1), address_of(3, 700)].concat();
        sources.push("198.51.100.9".parse().unwrap());
        for source in sources.into_iter().filter(|source| source.is_ipv4() || has_ipv6()) {
            let at: IpAddr = if source.is_ipv4() { HUB_V4.into() } else { HUB_V6.into() };
            let far = hub.inside(|| UdpSocket::bind((at, 0))).unwrap();
            let near = clients.inside(|| UdpSocket::bind((source, 0))).unwrap();
            for socket in [&far, &near] {
                socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            }
            near.send_to(b"up", far.local_addr().unwrap()).unwrap();
            let mut bytes = [0; 8];
            let (_, from) = far.recv_from(&mut bytes).unwrap();
            assert_eq!(from, near.local_addr().unwrap());
            far.send_to(b"down", from).unwrap();
            assert_eq!(near.recv(&mut bytes).unwrap(), 4, "{source}");
        }
        assert!(!netem::is_there(&hub) || netem::shape(&clients, UP, "delay 1ms").is_ok());
    }
}
