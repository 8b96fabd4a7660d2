//! Row 1, source port 0: only a raw socket can send from it.

use super::{DROPS, RESPONSES, count, query};
use crate::support::cluster::{Cluster, wait_for};
use crate::support::tools::forbidden;
use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};
use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::Rtype;

/// A UDP datagram after the IP header. Without a checksum, which IPv4 allows (RFC 768).
fn datagram(from_port: u16, to_port: u16, message: &[u8]) -> Vec<u8> {
    let len = 8 + message.len() as u16;
    let header = [from_port, to_port, len, 0].map(u16::to_be_bytes).concat();
    [&header, message].concat()
}

/// A raw socket that receives what one UDP port sends. Without the filter it would also receive the traffic of all
/// other tests on the machine, and lose datagrams when its buffer is full.
fn raw_from(port: u16) -> std::io::Result<Socket> {
    // Loads the length of the IP header into X, then the source port after it. Accepts the whole packet, or nothing
    // (bpf(2), classic).
    let filter = [
        SockFilter::new(0xB1, 0, 0, 0),
        SockFilter::new(0x48, 0, 0, 0),
        SockFilter::new(0x15, 0, 1, u32::from(port)),
        SockFilter::new(0x06, 0, 0, u32::from(u16::MAX)),
        SockFilter::new(0x06, 0, 0, 0),
    ];
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP))?;
    raw.attach_filter(&filter)?;
    raw.set_read_timeout(Some(Duration::from_millis(50)))?;
    Ok(raw)
}

/// Counts the datagrams to a port within a time limit.
fn count_to(raw: &mut Socket, to_port: u16, limit: Duration) -> usize {
    let start = Instant::now();
    let (mut packet, mut seen) = (vec![0; 65_535], 0);
    while start.elapsed() < limit {
        let Ok(len) = raw.read(&mut packet) else { continue };
        let header = usize::from(packet[0] & 0x0F) * 4;
        seen += usize::from(packet[..len].get(header + 2..header + 4) == Some(&to_port.to_be_bytes()));
    }
    seen
}

#[test]
fn row_1_a_datagram_from_port_0_gets_no_answer_and_is_counted() {
    let cluster = Cluster::start("row-1", 1, &[]);
    let port = cluster.dns(1).port();
    let mut raw = match raw_from(port) {
        Ok(raw) => raw,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            forbidden("a raw socket");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let to = SockAddr::from(SocketAddr::from(([127, 0, 0, 1], 0)));
    let dropped = || count(&cluster, (DROPS, "source_port_zero"));
    let responses = || count(&cluster, (RESPONSES, "noerror"));
    let message = query(Rtype::A).build();

    // The same datagram from a normal port gets a response, so the test sees both directions.
    let before = (dropped(), responses());
    raw.send_to(&datagram(9, port, &message), &to).unwrap();
    wait_for("the answer to be counted", || (responses() > before.1).then_some(()));
    assert_eq!(count_to(&mut raw, 9, Duration::from_millis(500)), 1);
    assert_eq!((dropped(), responses()), (before.0, before.1 + 1));

    raw.send_to(&datagram(0, port, &message), &to).unwrap();
    wait_for("the counter to move", || (dropped() > before.0).then_some(()));
    assert_eq!(count_to(&mut raw, 0, Duration::from_millis(500)), 0);
    assert_eq!((dropped(), responses()), (before.0 + 1, before.1 + 1), "dropped once, and nothing was answered");
}
