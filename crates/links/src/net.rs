//! A net that is there: a hub, and groups of clients that reach it by links.
//!
//! ```text
//!   lab.near: up0 10.100.0.1 ----- link -----+
//!                                            g0 \
//!                                                lab.hub: lo 10.53.0.1, fd53:ca7::1
//!                                            g1 /
//!   lab.far:  up0 10.101.0.1 ----- link -----+
//! ```

use crate::plan::{GroupPlan, HUB_NETWORKS, HUB_V4, HUB_V6, Mechanism, NetPlan, address_of};
use crate::record::Record;
use crate::relay::{LinkStatistics, Relay};
use crate::tun::{Tun, dropped_unread};
use crate::{Namespace, netem, system};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// The interface of clients.
const UP: &str = "up0";

/// A net. It goes when this does: links, then namespaces, then its record.
#[derive(Debug)]
pub struct Net {
    links: Vec<Link>,
    groups: Vec<Namespace>,
    hub: Namespace,
    plan: NetPlan,
    _record: Record,
}

/// What carries the packets of a group.
#[derive(Debug)]
enum Link {
    Netem,
    Relay(Relay),
}

impl Net {
    /// Makes one, and writes down each thing before it is made.
    ///
    /// # Errors
    /// It cannot be made; what was made of it is gone.
    pub fn make(plan: &NetPlan) -> io::Result<Self> {
        plan.check().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut record = Record::begin(&plan.name)?;
        record.note(&plan.hub())?;
        let hub = Namespace::make(&plan.hub())?;
        give_hub_its_addresses(&hub)?;
        let wants_netem = match plan.mechanism {
            Mechanism::Relay => false,
            Mechanism::Auto => plan.groups.iter().any(|group| netem::is_exact(&group.shape)),
            Mechanism::Netem => true,
        };
        let has_netem = wants_netem && netem::is_there(&hub);
        if plan.mechanism == Mechanism::Netem && !has_netem {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this kernel has no netem; use the relay"));
        }
        let mut net = Self { links: Vec::new(), groups: Vec::new(), hub, plan: plan.clone(), _record: record };
        for (index, group) in plan.groups.iter().enumerate() {
            net._record.note(&plan.namespace_of(group))?;
            let namespace = Namespace::make(&plan.namespace_of(group))?;
            // In the net from here on, so that it goes with it.
            net.groups.push(namespace);
            let by_netem = plan.mechanism == Mechanism::Netem || has_netem && netem::is_exact(&group.shape);
            let link = if by_netem { net.link_by_netem(index, group)? } else { net.link_by_relay(index, group)? };
            net.links.push(link);
        }
        net._record.ready()?;
        Ok(net)
    }

    fn link_by_relay(&self, index: usize, group: &GroupPlan) -> io::Result<Link> {
        let namespace = &self.groups[index];
        let (clients, hub) = (Tun::make(namespace, UP)?, Tun::make(&self.hub, &hub_interface(index))?);
        let networks = self.plan.networks_of(index);
        give_clients_their_addresses(namespace, index, &networks, ["", ""])?;
        give_hub_its_routes(&self.hub, index, &networks, ["", ""])?;
        let relay = Relay::start(clients, hub, &group.shape, self.plan.seed_of(index), self.plan.spin)?;
        Ok(Link::Relay(relay))
    }

    fn link_by_netem(&self, index: usize, group: &GroupPlan) -> io::Result<Link> {
        let words =
            netem::arguments(&group.shape).map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
        let namespace = &self.groups[index];
        veth(namespace, &self.hub, index, &self.plan.networks_of(index))?;
        netem::shape(namespace, UP, &words)?;
        netem::shape(&self.hub, &hub_interface(index), &words)?;
        Ok(Link::Netem)
    }

    /// What it was made by.
    #[must_use]
    pub fn plan(&self) -> &NetPlan {
        &self.plan
    }

    /// The namespace of the hub.
    #[must_use]
    pub fn hub(&self) -> &Namespace {
        &self.hub
    }

    /// The namespaces of the groups, in the order of the plan.
    #[must_use]
    pub fn groups(&self) -> &[Namespace] {
        &self.groups
    }

    /// What carries a group's packets, in a word.
    #[must_use]
    pub fn mechanism_of(&self, index: usize) -> &'static str {
        match self.links[index] {
            Link::Netem => "netem",
            Link::Relay(_) => "relay",
        }
    }

    /// Whether all links carry.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.links.iter().all(|link| match link {
            Link::Netem => true,
            Link::Relay(relay) => relay.is_alive(),
        })
    }

    /// Ends it, and tells what each link of the relay did; netem keeps no such account.
    ///
    /// # Errors
    /// A relay had failed. The net is gone all the same.
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

/// Lets a program end when the calling thread does, however that ends: what runs in a net does not outlive it.
pub fn end_with_me(command: &mut Command) {
    system::ends_with_this_thread(command);
}

fn hub_interface(index: usize) -> String {
    format!("g{index}")
}

/// Whether namespaces of this machine have IPv6.
pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Runs a line of `ip` for a family; nothing on a machine without it.
pub(crate) fn ip_of(namespace: &Namespace, is_ipv6: bool, line: &str) -> io::Result<()> {
    match is_ipv6 {
        true if has_ipv6() => namespace.ip(&format!("-6 {line}")),
        true => Ok(()),
        false => namespace.ip(line),
    }
}

fn give_hub_its_addresses(hub: &Namespace) -> io::Result<()> {
    ip_of(hub, false, &format!("addr add {HUB_V4}/32 dev lo"))?;
    ip_of(hub, true, &format!("addr add {HUB_V6}/128 dev lo nodad"))
}

/// Networks, each an address and its length.
type Networks<'n> = &'n [(IpAddr, u8)];

/// All networks of a group are its own machine's, each address of them; the hub is reached by the link whatever they
/// are, hence its route in the table that is looked at first. Of a group that has every address the rest of the hub's
/// network is not: a server may have more addresses there.
fn give_clients_their_addresses(at: &Namespace, index: usize, own: Networks<'_>, via: [&str; 2]) -> io::Result<()> {
    for ((source, via), (network, length)) in address_of(index, 1).into_iter().zip(via).zip(HUB_NETWORKS) {
        let six = source.is_ipv6();
        let has_all = own.iter().any(|(address, length)| address.is_ipv6() == six && *length == 0);
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
        // IPv4 lets programs bind to any address of a local route; IPv6 only if this is set.
        at.inside(|| std::fs::write("/proc/sys/net/ipv6/ip_nonlocal_bind", "1"))?;
    }
    for (network, length) in own {
        ip_of(at, network.is_ipv6(), &format!("route add local {network}/{length} dev lo"))?;
    }
    Ok(())
}

fn give_hub_its_routes(hub: &Namespace, index: usize, networks: Networks<'_>, via: [&str; 2]) -> io::Result<()> {
    let interface = hub_interface(index);
    for (network, length) in networks {
        let (six, via) = if network.is_ipv6() { (true, via[1]) } else { (false, via[0]) };
        let source = if six { HUB_V6.to_string() } else { HUB_V4.to_string() };
        ip_of(hub, six, &format!("route add {network}/{length} {via} dev {interface} src {source}"))?;
    }
    Ok(())
}

/// Joins two namespaces by a pair of interfaces that know each other's hardware address: nobody asks for it, so no such
/// question is delayed or lost.
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
    give_clients_their_addresses(clients, index, networks, [&to_hub[0], &to_hub[1]])?;
    give_hub_its_routes(hub, index, networks, [&to_clients[0], &to_clients[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::network_of;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// What netem would be set on: tried without it, for many kernels have none.
    #[test]
    fn interfaces_for_netem_join_clients_and_hub_in_both_families() {
        let networks = [&network_of(3)[..], &[("198.51.100.0".parse().unwrap(), 24)]].concat();
        let name = |end| format!("v{:06}.{end}", std::process::id() % 1_000_000);
        let Ok(hub) = Namespace::make(&name("hub")) else {
            println!("skipped: no namespace can be made here; it takes root and iproute2");
            assert!(std::env::var("CI").as_deref() != Ok("true"));
            return;
        };
        let clients = Namespace::make(&name("a")).unwrap();
        give_hub_its_addresses(&hub).unwrap();
        veth(&clients, &hub, 3, &networks).unwrap();
        // The second of each family is no address of an interface, only of a network that is the clients'.
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
