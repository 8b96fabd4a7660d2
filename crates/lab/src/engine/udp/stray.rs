//! A second socket on the port of a connected one. It receives the datagrams that the connected socket rejects: those
//! from other addresses.
//!
//! A client expects the response from the address that it asked (RFC 2181 4.1), and a connected socket takes no other.
//! The kernel gives a datagram to the socket that fits it best: what the server itself sends goes to the connected one,
//! all else to this. So nothing is paid for it per answer, and a server that answers from another of its addresses is
//! told from one that does not answer.

use super::batch;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The second socket. See the module.
pub(super) struct StraySocket {
    pub(super) socket: UdpSocket,
}

impl StraySocket {
    /// Opens both sockets on one port: a connected one for `source` (or the address that routing gives), and its stray
    /// socket.
    ///
    /// # Errors
    /// When the system does not let two sockets have one port, or the server cannot be reached from that address.
    pub(super) fn beside(server: SocketAddr, source: Option<IpAddr>) -> io::Result<(Socket, Self)> {
        let datagrams = || Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP));
        let local = match source {
            Some(source) => SocketAddr::new(source, 0),
            None => {
                let scout = datagrams()?;
                scout.connect(&server.into())?;
                let mut local = scout.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
                local.set_port(0);
                local
            }
        };
        // The stray socket binds first, alone; sharing is allowed only afterwards, and only once. The
        // connected socket comes second, which puts it first where the kernel looks.
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
        // Without stamps the time of reading counts.
        let _stamped = crate::engine::system::enable_stamps(&stray);
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

    /// What a socket that never waits has got, within a patience.
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
        let elsewhere = UdpSocket::bind("127.0.0.2:0").unwrap();
        let address = server.local_addr().unwrap();
        let mut pairs = Vec::new();
        for _ in 0..50 {
            let (connected, stray) = StraySocket::beside(address, None).unwrap();
            connected.connect(&address.into()).unwrap();
            connected.set_nonblocking(true).unwrap();
            pairs.push((UdpSocket::from(connected), stray));
        }
        let ports: BTreeSet<_> = pairs.iter().map(|(own, _)| own.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), pairs.len());
        for (own, stray) in &pairs {
            let to = own.local_addr().unwrap();
            server.send_to(b"right", to).unwrap();
            elsewhere.send_to(b"other", to).unwrap();
            assert_eq!(take(own), Some((b"right".to_vec(), address)));
            assert_eq!(stray.sender().or_else(|| stray.sender()), elsewhere.local_addr().ok());
            assert_eq!(take(&stray.socket), Some((b"other".to_vec(), elsewhere.local_addr().unwrap())));
            assert_eq!(own.recv(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        // Nobody else gets on these ports.
        let late = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        late.set_reuse_address(true).unwrap();
        assert!(late.bind(&pairs[0].0.local_addr().unwrap().into()).is_err());
    }
}
