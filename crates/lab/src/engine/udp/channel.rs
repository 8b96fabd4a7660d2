//! A connected socket and the queries on it.

use super::batch::{Incoming, Outgoing};
use super::stray::StraySocket;
use crate::engine::matching::InFlight;
use crate::engine::system::{enable_stamps, tell_destinations};
use crate::limits::SOCKET_BUFFER_BYTES;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// How often a full socket is tried before its messages count as unsent.
pub(super) const SEND_TRIES_MAX: usize = 1_000;

pub(super) struct Channel {
    pub(super) socket: UdpSocket,
    pub(super) server: SocketAddr,
    /// Sees what comes to its port from elsewhere; `None` where the system does not let two sockets have one port.
    pub(super) stray: Option<StraySocket>,
    pub(super) in_flight: InFlight,
    /// Both halves, once the server has sent one; it is bound to the address of this socket (RFC 9018 4.4).
    pub(super) cookie: Vec<u8>,
    /// Whether the kernel takes queries of one length as one message; not, once it has refused one.
    segments: bool,
}

impl Channel {
    pub(super) fn open(server: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let in_flight = InFlight::new();
        let pair = StraySocket::beside(server, source).and_then(|(socket, stray)| Ok((ready(socket, server)?, stray)));
        let (socket, stray) = match pair {
            Ok((socket, stray)) => (socket, Some(stray)),
            Err(_) => (open(server, source)?, None),
        };
        Ok(Self { socket, server, stray, in_flight, cookie: Vec::new(), segments: true })
    }

    /// Sends the batch; gives how many the kernel took, and how often it said that nobody listens there.
    pub(super) fn send(&mut self, outgoing: &mut Outgoing) -> io::Result<(usize, u64)> {
        let (mut taken, mut refusals, mut tries) = (0, 0, 0);
        while taken < outgoing.count() && tries < SEND_TRIES_MAX {
            match outgoing.send(&self.socket, taken, self.segments) {
                Ok(count) => taken += count,
                // What an earlier datagram met is told to the next call; that one has not been tried then.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => refusals += 1,
                Err(error) if self.segments && is_about_runs(&error) => self.segments = false,
                Err(error) if is_passing(&error) => std::thread::yield_now(),
                Err(error) => return Err(error),
            }
            tries += 1;
        }
        Ok((taken, refusals))
    }

    /// Takes in up to a batch; refusals are counted and passed over.
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

/// A socket that is connected to a server, with large buffers and the kernel's stamps.
pub(in crate::engine) fn open(server: SocketAddr, source: Option<IpAddr>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    ready(socket, server)
}

/// A socket that is not connected, towards a server: each datagram goes from an address of its own, and each that comes
/// says which one it was sent to.
pub(in crate::engine) fn open_to_all(server: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
    // As much as the system grants: too little shows as drops, which are counted.
    let _granted = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _granted = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    let any: IpAddr = if server.is_ipv6() {
        socket.set_only_v6(true)?;
        // Without it an address that a route calls local, and that no interface has, is no source (ipv6(7)).
        socket.set_freebind_v6(true)?;
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        socket.set_freebind_v4(true)?;
        Ipv4Addr::UNSPECIFIED.into()
    };
    socket.bind(&SocketAddr::new(any, 0).into())?;
    tell_destinations(&socket, server.is_ipv6())?;
    // Without stamps the time of reading counts, and the report says so.
    let _stamped = enable_stamps(&socket);
    Ok(socket.into())
}

fn ready(socket: Socket, server: SocketAddr) -> io::Result<UdpSocket> {
    // As much as the system grants: too little shows as drops, which are counted.
    let _granted = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _granted = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.connect(&server.into())?;
    let socket = UdpSocket::from(socket);
    // Without stamps the time of reading counts, and the report says so.
    let _stamped = enable_stamps(&socket);
    Ok(socket)
}

/// The kernel, or the device that the route leads to, takes no runs; messages may go alone.
pub(super) fn is_about_runs(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::EIO | libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::EMSGSIZE)
    )
}

/// Full buffers here, or an unreachable network on the way: the next try may go better.
pub(in crate::engine) fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::OutOfMemory)
        || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// The kernel takes no message from that address: it is none of this machine, or nothing leads on from it.
pub(in crate::engine) fn is_of_its_source(error: &io::Error) -> bool {
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
