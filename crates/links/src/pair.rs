//! Two machines, one of which has every address there is.
//!
//! ```text
//!   lab.near: up0 192.0.0.1, fd53:ca7::1 ----- veth ----- lab0 of lab.all: every other address of both families
//! ```
//!
//! Whatever a program on the first one sends, and to whomever, comes to the second, and a socket there that is bound to
//! no address sees it all. Nothing leads out of either.

use crate::Namespace;
use crate::net::{has_ipv6, ip_of};
use crate::plan::check_name;
use crate::record::Record;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The IPv4 address of the near machine: of those that stand for a host without one (RFC 7335).
pub const NEAR_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 1);
/// Its IPv6 address.
pub const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0xFD53, 0x0CA7, 0, 0, 0, 0, 0, 1);
/// What the near machine takes for its router.
const ROUTER_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 0, 2);
/// The same.
const ROUTER_V6: Ipv6Addr = Ipv6Addr::new(0xFD53, 0x0CA7, 0, 0, 0, 0, 0, 2);

/// The interface of the near machine.
const UP: &str = "up0";
/// That of the other.
const DOWN: &str = "lab0";
/// Their hardware addresses.
const UP_HARDWARE: &str = "02:ca:7a:01:00:01";
/// The same.
const DOWN_HARDWARE: &str = "02:ca:7a:01:00:02";

/// See the module. It goes when this does: namespaces, then its record.
#[derive(Debug)]
pub struct Pair {
    near: Namespace,
    all: Namespace,
    _record: Record,
}

impl Pair {
    /// Makes one, and writes down each thing before it is made.
    ///
    /// # Errors
    /// It cannot be made; what was made of it is gone.
    pub fn make(name: &str) -> io::Result<Self> {
        check_name("the pair", name).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut record = Record::begin(name)?;
        let mut namespace = |end: &str| {
            let name = format!("{name}.{end}");
            record.note(&name)?;
            Namespace::make(&name)
        };
        let (near, all) = (namespace("near")?, namespace("all")?);
        let mut pair = Self { near, all, _record: record };
        pair.join()?;
        pair._record.ready()?;
        Ok(pair)
    }

    /// The machine that programs run on.
    #[must_use]
    pub fn near(&self) -> &Namespace {
        &self.near
    }

    /// The machine with all other addresses. To send from one of them over UDP a socket names it with each datagram,
    /// for which IPv6 wants `IPV6_FREEBIND` (ipv6(7)).
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
            // Nobody asks for hardware addresses: the question would be answered for the wrong machine.
            ip_of(near, six, &format!("neigh add {router} lladdr {DOWN_HARDWARE} dev {UP} nud permanent"))?;
            ip_of(all, six, &format!("neigh add {address} lladdr {UP_HARDWARE} dev {DOWN} nud permanent"))?;
            ip_of(near, six, &format!("route add default via {router} dev {UP} src {address} onlink"))?;
            // In the table that is looked at first, where the address would else be one of its own.
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
                println!("skipped: no namespace can be made here; it takes root and iproute2: {error}");
                assert!(std::env::var("CI").as_deref() != Ok("true"));
                return;
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
            let own: IpAddr = if address.is_ipv4() { NEAR_V4.into() } else { NEAR_V6.into() };
            assert_eq!((count, sender.ip().to_canonical()), (2, own), "{address}");
            let asked = thread::scope(|scope| {
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
            assert_eq!((asked.ip().to_canonical(), asked.port()), (address.ip(), 53));
        }
        drop(pair);
        assert!(!std::path::Path::new("/var/run/netns").join(format!("{name}.all")).exists());
    }
}
