//! Two machines. One of them has every address.
//!
//! ```text
//!   lab.near: up0 192.0.0.1, fd53:ca7::1 ----- veth ----- lab0 of lab.all: every other address of both families
//! ```
//!
//! All packets of programs on the first machine reach the second one, for every destination. There, an unbound
//! socket receives them. Neither machine reaches anything else.

use crate::Namespace;
use crate::namespace::{has_ipv6, ip_of};
use crate::plan::check_name;
use crate::record::Record;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

/// IPv4 address of the near machine, from the range for hosts without an address (RFC 7335).
pub const NEAR_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Its IPv6 address.
pub const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0xFD53, 0x0CA7, 0, 0, 0, 0, 0, 1);
/// The default router of the near machine.
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
/// The IPv6 router.
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0xFD53, 0x0CA7, 0, 0, 0, 0, 0, 2);

/// The interface of the near machine.
const UP: &str = "up0";
/// The interface of the far machine.
const DOWN: &str = "lab0";
/// Hardware addresses.
const UP_HARDWARE: &str = "02:ca:7a:01:00:01";
/// Hardware address of the far interface.
const DOWN_HARDWARE: &str = "02:ca:7a:01:00:02";

/// Two connected machines, see the module. Dropping it removes the namespaces and the record.
#[derive(Debug)]
pub struct Pair {
    near: Namespace,
    all: Namespace,
    _record: Record,
}

impl Pair {
    /// Creates the pair. Each namespace is recorded before it is made.
    ///
    /// # Errors
    ///
    /// The pair cannot be made. Its parts have been removed.
    pub fn make(name: &str) -> io::Result<Self> {
        check_name("the pair", name).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut record = Record::begin(name)?;
        let mut namespace = |end: &str| {
            let name = format!("{name}.{end}");
            record.add_namespace(&name)?;
            Namespace::make(&name)
        };
        let (near, all) = (namespace("near")?, namespace("all")?);
        let mut pair = Self { near, all, _record: record };
        pair.join()?;
        pair._record.ready()?;
        Ok(pair)
    }

    /// The machine on which programs run.
    #[must_use]
    pub fn near(&self) -> &Namespace {
        &self.near
    }

    /// The machine with all other addresses. To send from one of them over UDP, name it with each datagram. IPv6 also
    /// needs `IPV6_FREEBIND` (ipv6(7)).
    #[must_use]
    pub fn all(&self) -> &Namespace {
        &self.all
    }

    fn join(&self) -> io::Result<()> {
        let (near, all) = (&self.near, &self.all);
        let peer = format!("peer name {DOWN} address {DOWN_HARDWARE} netns {}", all.name());
        near.ip(&format!("link add {UP} address {UP_HARDWARE} type veth {peer}"))?;
        near.ip(&format!("addr add {NEAR_V4}/32 dev {UP}"))?;
        ip_of(near, true, &format!("addr add {NEAR_V6}/128 dev {UP} nodad"))?;
        near.ip(&format!("link set {UP} up"))?;
        all.ip(&format!("link set {DOWN} up"))?;
        let ends = [
            (false, NEAR_V4.to_string(), ROUTER_V4.to_string(), "0.0.0.0/0", 32),
            (true, NEAR_V6.to_string(), ROUTER_V6.to_string(), "::/0", 128),
        ];
        for (six, address, router, everything, width) in ends {
            // Without static entries, the wrong machine would answer the queries for hardware addresses.
            ip_of(near, six, &format!("neigh add {router} lladdr {DOWN_HARDWARE} dev {UP} nud permanent"))?;
            ip_of(all, six, &format!("neigh add {address} lladdr {UP_HARDWARE} dev {DOWN} nud permanent"))?;
            ip_of(near, six, &format!("route add default via {router} dev {UP} src {address} onlink"))?;
            // In the table that is looked up first. Otherwise the address would be local.
            ip_of(all, six, &format!("route add {address}/{width} dev {DOWN} table local"))?;
            ip_of(all, six, &format!("route add local {everything} dev lo"))?;
        }
        Ok(())
    }

    /// Whether the machines have IPv6.
    #[must_use]
    pub fn has_ipv6(&self) -> bool {
        has_ipv6()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
    use std::thread;

    #[test]
    fn packets_to_any_address_reach_the_other_namespace() {
        let name = format!("p{:06}", std::process::id() % 1_000_000);
        let pair = match Pair::make(&name) {
            Ok(pair) => pair,
            Err(error) => {
                return skip::permission(format!("making a namespace (root, iproute2): {error}"));
            }
        };
        let any: IpAddr = if pair.has_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let datagrams = pair.all().inside(|| UdpSocket::bind((any, 53))).unwrap();
        let listener = pair.all().inside(|| TcpListener::bind((any, 53))).unwrap();
        let addresses = ["198.41.0.4:53", "1.1.1.1:53", "10.53.0.1:53", "[2001:503:ba3e::2:30]:53", "[2600::1]:53"];
        let addresses = addresses.map(|address| address.parse::<SocketAddr>().unwrap());
        for address in addresses.into_iter().filter(|address| address.is_ipv4() || pair.has_ipv6()) {
            let from: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { any };
            let near = pair.near().inside(|| UdpSocket::bind((from, 0))).unwrap();
            near.send_to(b"up", address).unwrap();
            let mut bytes = [0; 8];
            let (count, sender) = datagrams.recv_from(&mut bytes).unwrap();
            let local: IpAddr = if address.is_ipv4() { NEAR_V4.into() } else { NEAR_V6.into() };
            assert_eq!((count, sender.ip().to_canonical()), (2, local), "{address}");
            let received = thread::scope(|scope| {
                let accepted = scope.spawn(|| {
                    let (mut stream, _) = listener.accept().unwrap();
                    stream.write_all(b"down").unwrap();
                    stream.local_addr().unwrap()
                });
                let connect = || {
                    let mut stream = TcpStream::connect(address)?;
                    let mut bytes = Vec::new();
                    stream.read_to_end(&mut bytes)?;
                    assert_eq!(bytes, b"down");
                    Ok(())
                };
                pair.near().inside(connect).unwrap();
                accepted.join().unwrap()
            });
            assert_eq!((received.ip().to_canonical(), received.port()), (address.ip(), 53));
        }
        drop(pair);
        assert!(!std::path::Path::new("/var/run/netns").join(format!("{name}.all")).exists());
    }
}
