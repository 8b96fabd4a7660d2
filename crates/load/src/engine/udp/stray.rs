//! A second socket on the port of a connected one. It receives the datagrams that the connected socket rejects: those
//! from other addresses.
//!
//! A client expects the response from the address that it queried (RFC 2181 4.1), and a connected socket accepts no
//! other. The kernel passes a datagram to the best matching socket: answers of the server go to the connected socket,
//! all others go here. So this costs nothing per answer, and shows when a server answers from another of its addresses.

use super::batch;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The second socket.
pub(super) struct StraySocket {
    pub(super) socket: UdpSocket,
}

impl StraySocket {
    /// Opens both sockets on one port: a connected one for `source` (or the address chosen by routing), and its stray
    /// socket.
    ///
    /// # Errors
    /// If the system does not allow two sockets on one port, or the server is unreachable from that address.
    pub(super) fn open_pair(server: SocketAddr, source: Option<IpAddr>) -> io::Result<(Socket, Self)> {
        let datagrams = || Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP));
        let local = match source {
            Some(source) => SocketAddr::new(source, 0),
            None => {
                let probe = datagrams()?;
                probe.connect(&server.into())?;
                let mut local = probe.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
                local.set_port(0);
                local
            }
        };
        // The stray socket binds first, alone. Sharing is allowed only afterwards, and only once. The kernel prefers
        // the socket that binds second: the connected one.
        let stray = datagrams()?;
        stray.bind(&local.into())?;
        stray.set_reuse_address(true)?;
        let connected = datagrams()?;
        connected.set_reuse_address(true)?;
        connected.bind(&stray.local_addr()?)?;
        stray.set_reuse_address(false)?;
        connected.set_reuse_address(false)?;
        stray.set_nonblocking(true)?;
        let stray = UdpSocket::from(stray);
        // Without timestamps, the time of reading counts.
        let _stamped = sockets::system::enable_stamps(&stray);
        Ok((connected, Self { socket: stray }))
    }

    /// The sender of the first pending datagram.
    pub(super) fn sender(&self) -> Option<SocketAddr> {
        self.socket.peek_from(&mut [0]).ok().map(|(_, sender)| sender)
    }

    /// Datagrams that the kernel dropped.
    pub(super) fn dropped(&self) -> u64 {
        u64::from(batch::dropped(&self.socket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::{Duration, Instant};

    /// Receives a datagram on a non-blocking socket, or gives up after a while.
    fn take(socket: &UdpSocket) -> Option<(Vec<u8>, SocketAddr)> {
        let start = Instant::now();
        let mut bytes = [0; 16];
        while start.elapsed() < Duration::from_secs(5) {
            if let Ok((count, sender)) = socket.recv_from(&mut bytes) {
                return Some((bytes[..count].to_vec(), sender));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    #[test]
    fn the_connected_socket_and_its_stray_socket_share_a_port() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other_address = UdpSocket::bind("127.0.0.2:0").unwrap();
        let address = server.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..50 {
            let (connected, stray) = StraySocket::open_pair(address, None).unwrap();
            connected.connect(&address.into()).unwrap();
            connected.set_nonblocking(true).unwrap();
            pairs.push((UdpSocket::from(connected), stray));
        }
        let ports: BTreeSet<_> = pairs.iter().map(|(own, _)| own.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), pairs.len());
        for (own, stray) in &pairs {
            let to = own.local_addr().unwrap();
            server.send_to(b"right", to).unwrap();
            other_address.send_to(b"other", to).unwrap();
            assert_eq!(take(own), Some((b"right".to_vec(), address)));
            assert_eq!(stray.sender().or_else(|| stray.sender()), other_address.local_addr().ok());
            assert_eq!(take(&stray.socket), Some((b"other".to_vec(), other_address.local_addr().unwrap())));
            assert_eq!(own.recv(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        // No other socket can bind these ports.
        let late = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        late.set_reuse_address(true).unwrap();
        assert!(late.bind(&pairs[0].0.local_addr().unwrap().into()).is_err());
    }
}
