//! A connected socket and the queries on it.

use super::stray::StraySocket;
use crate::engine::matching::InFlight;
use socket2::{Domain, Protocol, Socket, Type};
use sockets::batch::{Incoming, Outgoing};
use sockets::limits::SOCKET_BUFFER_BYTES;
use sockets::system::{enable_destinations, enable_stamps};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Number of attempts to send on a full socket. Then its messages count as unsent.
pub(super) const SEND_TRIES_MAX: usize = 1_000;

pub(super) struct Channel {
    pub(super) socket: UdpSocket,
    pub(super) server: SocketAddr,
    /// Receives datagrams from other addresses. `None` if the system does not allow two sockets on one port.
    pub(super) stray: Option<StraySocket>,
    pub(super) in_flight: InFlight,
    /// Client and server cookie, once the server has sent one. It is bound to the address of this socket (RFC 9018
    /// 4.4).
    pub(super) cookie: Vec<u8>,
    /// Whether to use segmented sends. Off once the kernel has refused one.
    segments: bool,
}

impl Channel {
    pub(super) fn open(server: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let in_flight = InFlight::new();
        let pair =
            StraySocket::open_pair(server, source).and_then(|(socket, stray)| Ok((ready(socket, server)?, stray)));
        let (socket, stray) = match pair {
            Ok((socket, stray)) => (socket, Some(stray)),
            Err(_) => (open(server, source)?, None),
        };
        Ok(Self { socket, server, stray, in_flight, cookie: Vec::new(), segments: true })
    }

    /// Sends the batch. Returns how many messages the kernel accepted, and how often the port was unreachable.
    pub(super) fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<(usize, u64)> {
        let (mut accepted, mut refusals, mut tries) = (0, 0, 0);
        while accepted < outgoing.count() && tries < SEND_TRIES_MAX {
            match outgoing.send(&self.socket, accepted, self.segments) {
                Ok(count) => accepted += count,
                // An ICMP error for an earlier datagram. This one has not been sent.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => refusals += 1,
                Err(error) if self.segments && is_segmentation_error(&error) => self.segments = false,
                Err(error) if is_transient(&error) => std::thread::yield_now(),
                Err(error) => return Err(error),
            }
            tries += 1;
        }
        Ok((accepted, refusals))
    }

    /// Receives up to a batch. Counts ICMP errors and continues.
    pub(super) fn receive(&self, incoming: &mut Incoming, refusals: &mut u64) -> io::Result<usize> {
        match incoming.receive(&self.socket) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                *refusals += 1;
                Ok(0)
            }
            other => other,
        }
    }
}

/// A socket connected to a server, with large buffers and kernel timestamps.
pub(in crate::engine) fn open(server: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    ready(socket, server)
}

/// An unconnected socket for a server. Each datagram has its own source address, and each answer reports its
/// destination.
pub(in crate::engine) fn open_to_all(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    // The system may grant less. Resulting drops are counted.
    let _granted = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _granted = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    let any: IpAddr = if server.is_ipv6() {
        socket.set_only_v6(true)?;
        // Allows source addresses that are routed as local but not on an interface (ipv6(7)).
        socket.set_freebind_v6(true)?;
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        socket.set_freebind_v4(true)?;
        Ipv4Addr::UNSPECIFIED.into()
    };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    enable_destinations(&socket, server.is_ipv6())?;
    // Without timestamps, the time of reading counts, and the report says so.
    let _stamped = enable_stamps(&socket);
    Ok(socket.into())
}

fn ready(socket: Socket, server: SocketAddr) -> io::Result<UdpSocket> {
    // The system may grant less. Resulting drops are counted.
    let _granted = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _granted = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.connect(&server.into())?;
    let socket = UdpSocket::from(socket);
    // Without timestamps, the time of reading counts, and the report says so.
    let _stamped = enable_stamps(&socket);
    Ok(socket)
}

/// The kernel or the network device refuses segmented sends. Single messages may work.
pub(super) fn is_segmentation_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EIO | libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EMSGSIZE)
    )
}

/// Full buffers or an unreachable network. Retrying may help.
pub(in crate::engine) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::OutOfMemory)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// The kernel refuses the source address: it is not local, or has no route.
pub(in crate::engine) fn is_source_error(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EINVAL
                | libc::EADDRNOTAVAIL
                | libc::ENETUNREACH
                | libc::EHOSTUNREACH
                | libc::EACCES
                | libc::EPERM
                | libc::EMSGSIZE
        )
    )
}
