//! Machines of a net. Each runs servers, reaches the others through the hub without delay, and can be cut off.
//!
//! ```text
//!   lab.s0: up0 10.53.0.11, fd53:ca7::b ----- veth ----- m0 \
//!                                                            lab.hub, forwards
//!   lab.s1: up0 10.53.0.12, fd53:ca7::c ----- veth ----- m1 /
//! ```
//!
//! Both ends of a veth pair know the hardware address of the other end. A cut replaces it by one that nothing has. So
//! packets leave one end and the other end ignores them. Programs see no error, as with a broken cable far away.

use crate::Namespace;
use crate::limits::PROBE_TIMEOUT;
use crate::namespace::{has_ipv6, ip_of};
use crate::plan::{HUB_V4, HUB_V6};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

/// The interface of a machine.
const UP: &str = "up0";
/// Last number in the addresses of the first machine.
const FIRST_NUMBER: u8 = 11;
/// The hub, in the order of [`Machine::addresses`].
const HUB: [IpAddr; 2] = [IpAddr::V4(HUB_V4), IpAddr::V6(HUB_V6)];
/// Last byte of the hardware address of a machine.
const MACHINE_END: u8 = 1;
/// Last byte of the hardware address of the hub.
const HUB_END: u8 = 2;
/// Last byte of a hardware address that no interface has.
const NO_END: u8 = 3;

/// The packets that a cut drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// All packets.
    Both,
    /// Packets to the machine. Its own packets still arrive elsewhere.
    In,
    /// Packets from the machine.
    Out,
}

/// A machine of a net. [`crate::Net::add_machine`] makes it.
#[derive(Debug)]
pub struct Machine {
    name: String,
    index: u8,
    namespace: Namespace,
    hub: Namespace,
}

impl Machine {
    /// Joins a new namespace to the hub.
    pub(crate) fn join(name: &str, index: u8, namespace: Namespace, hub: &Namespace) -> io::Result<Self> {
        let machine = Self { name: name.to_owned(), index, namespace, hub: Namespace::open(hub.name())? };
        let (namespace, interface) = (&machine.namespace, machine.hub_interface());
        let peer = format!("peer name {interface} address {} netns {}", machine.hardware(HUB_END), hub.name());
        namespace.ip(&format!("link add {UP} address {} type veth {peer}", machine.hardware(MACHINE_END)))?;
        for (namespace, interface) in [(namespace, UP), (hub, interface.as_str())] {
            // No link-local address: its neighbor discovery would only disturb.
            namespace.ip(&format!("link set {interface} addrgenmode none"))?;
            namespace.ip(&format!("link set {interface} up"))?;
        }
        machine.set(None)?;
        for (address, router) in machine.addresses().into_iter().zip(HUB) {
            let six = address.is_ipv6();
            let (width, nodad) = if six { (128, "nodad") } else { (32, "") };
            ip_of(namespace, six, &format!("addr add {address}/{width} dev {UP} {nodad}"))?;
            ip_of(namespace, six, &format!("route add default via {router} dev {UP} src {address} onlink"))?;
            ip_of(hub, six, &format!("route add {address}/{width} dev {interface} src {router}"))?;
        }
        Ok(machine)
    }

    /// Its name in the net.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its IPv4 address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.addresses()[0]
    }

    /// Its addresses, IPv4 first. IPv6 works if this machine has IPv6.
    #[must_use]
    pub fn addresses(&self) -> [IpAddr; 2] {
        addresses_of(self.index)
    }

    /// Drops packets from now on, without errors for programs. Replaces an earlier cut. The loopback of the machine
    /// still works.
    ///
    /// # Errors
    ///
    /// The state may be the earlier one, or between both.
    pub fn cut(&self, cut: Cut) -> io::Result<()> {
        self.set(Some(cut))
    }

    /// Ends a cut.
    ///
    /// # Errors
    ///
    /// The machine may still be cut.
    pub fn heal(&self) -> io::Result<()> {
        self.set(None)
    }

    /// Sends datagrams between the hub and sockets of this process on the machine, in both directions and families.
    /// Returns the packets that are dropped now; `None` if all arrive. Takes up to [`PROBE_TIMEOUT`].
    ///
    /// # Errors
    ///
    /// The sockets cannot be made, or a cut has not the same effect on both families.
    pub fn observed_cut(&self) -> io::Result<Option<Cut>> {
        let until = Instant::now() + PROBE_TIMEOUT;
        let families = if has_ipv6() { &[0, 1][..] } else { &[0] };
        let mut sockets = Vec::new();
        for family in families {
            let (machine, hub) = (self.addresses()[*family], HUB[*family]);
            let machine = self.namespace.inside(|| UdpSocket::bind((machine, 0)))?;
            let hub = self.hub.inside(|| UdpSocket::bind((hub, 0)))?;
            hub.send_to(&[], machine.local_addr()?)?;
            machine.send_to(&[], hub.local_addr()?)?;
            sockets.push((machine, hub));
        }
        let mut observed = Vec::new();
        for (machine, hub) in sockets {
            observed.push(match (receives(&machine, until)?, receives(&hub, until)?) {
                (true, true) => None,
                (false, true) => Some(Cut::In),
                (true, false) => Some(Cut::Out),
                (false, false) => Some(Cut::Both),
            });
        }
        match observed.iter().all(|cut| *cut == observed[0]) {
            true => Ok(observed[0]),
            false => Err(io::Error::other(format!("{}: {observed:?} for IPv4 and IPv6", self.namespace.name()))),
        }
    }

    /// Sets the hardware addresses that the ends of the veth pair send to.
    fn set(&self, cut: Option<Cut>) -> io::Result<()> {
        let target = |end, is_cut| self.hardware(if is_cut { NO_END } else { end });
        let to_machine = target(MACHINE_END, matches!(cut, Some(Cut::Both | Cut::In)));
        let to_hub = target(HUB_END, matches!(cut, Some(Cut::Both | Cut::Out)));
        let interface = self.hub_interface();
        for (address, router) in self.addresses().into_iter().zip(HUB) {
            let line = |to: IpAddr, hardware: &str, interface: &str| {
                format!("neigh replace {to} lladdr {hardware} dev {interface} nud permanent")
            };
            ip_of(&self.hub, address.is_ipv6(), &line(address, &to_machine, &interface))?;
            ip_of(&self.namespace, address.is_ipv6(), &line(router, &to_hub, UP))?;
        }
        Ok(())
    }

    fn hub_interface(&self) -> String {
        format!("m{}", self.index)
    }

    /// The hardware address of an end of the veth pair.
    fn hardware(&self, end: u8) -> String {
        format!("02:ca:7a:02:{:02x}:{end:02x}", self.index)
    }
}

/// The addresses of a machine, in the networks of the hub.
fn addresses_of(index: u8) -> [IpAddr; 2] {
    let number = FIRST_NUMBER + index;
    let [a, b, c, _] = HUB_V4.octets();
    let mut six = HUB_V6.octets();
    six[15] = number;
    [Ipv4Addr::new(a, b, c, number).into(), Ipv6Addr::from(six).into()]
}

/// Lets the hub forward the packets of machines and clients.
pub(crate) fn forward(hub: &Namespace) -> io::Result<()> {
    hub.inside(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        if has_ipv6() { std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1") } else { Ok(()) }
    })
}

/// Whether a datagram arrives until then.
fn receives(socket: &UdpSocket, until: Instant) -> io::Result<bool> {
    let rest = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    socket.set_read_timeout(Some(rest))?;
    match socket.recv(&mut [0; 1]) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MACHINES_MAX;

    #[test]
    fn every_machine_has_its_own_address_in_the_networks_of_the_hub() {
        assert_eq!(addresses_of(0), ["10.53.0.11", "fd53:ca7::b"].map(|address| address.parse::<IpAddr>().unwrap()));
        let last = addresses_of(MACHINES_MAX as u8 - 1);
        assert_eq!(last, ["10.53.0.74", "fd53:ca7::4a"].map(|address| address.parse::<IpAddr>().unwrap()));
    }
}
