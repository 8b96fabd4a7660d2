//! Captures the IP packets of a machine's interfaces.

use crate::limits::TAP_PACKET_BYTES_MAX;
use crate::system::{self, PacketInfo};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime};

/// A capture of the packets that this machine sends and receives. It does not affect them.
#[derive(Debug)]
pub struct Tap {
    socket: File,
    buffer: Box<[u8]>,
}

/// One captured packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'t> {
    /// When it was read here.
    pub at: SystemTime,
    /// The packet from its IP header on, cut to [`TAP_PACKET_BYTES_MAX`].
    pub bytes: &'t [u8],
}

impl Tap {
    /// Starts a capture on one interface, or on all.
    ///
    /// # Errors
    ///
    /// The interface does not exist, or this process lacks CAP_NET_RAW.
    pub fn open(interface: Option<&str>) -> io::Result<Self> {
        let with_interface = |error: io::Error| match interface {
            Some(name) => io::Error::new(error.kind(), format!("the interface {name}: {error}")),
            None => error,
        };
        let socket = system::open_tap(interface).map_err(with_interface)?;
        Ok(Self { socket, buffer: vec![0; TAP_PACKET_BYTES_MAX].into() })
    }

    /// The next packet, or `None` after `at_most`. A packet over loopback is reported once.
    ///
    /// # Errors
    ///
    /// The socket failed.
    pub fn next(&mut self, at_most: Duration) -> io::Result<Option<Packet<'_>>> {
        let until = std::time::Instant::now() + at_most;
        loop {
            match system::read_tap(&self.socket, &mut self.buffer) {
                Ok(PacketInfo { bytes, is_ip: true, is_captured_twice: false }) => {
                    let bytes = &self.buffer[..bytes.min(self.buffer.len())];
                    return Ok(Some(Packet { at: SystemTime::now(), bytes }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let remaining = until.saturating_duration_since(std::time::Instant::now());
                    if remaining.is_zero() {
                        return Ok(None);
                    }
                    system::wait_readable_one(&self.socket, remaining);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An interface that goes down reports it once.
                Err(error) if error.kind() == ErrorKind::NetworkDown => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Packets lost since the last call, because they were read too slowly.
    ///
    /// # Errors
    ///
    /// The socket failed.
    pub fn lost(&self) -> io::Result<u32> {
        system::lost_of_tap(&self.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;
    use std::net::UdpSocket;

    #[test]
    fn loopback_packets_are_seen_once() {
        let name = format!("clt{}", std::process::id());
        let Ok(namespace) = Namespace::make(&name) else {
            skip::permission("making a namespace (root, iproute2)");
            return;
        };
        let (mut tap, near, far) = namespace
            .inside(|| {
                assert!(Tap::open(Some("nothing0")).unwrap_err().to_string().contains("nothing0"));
                Ok((Tap::open(Some("lo"))?, UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?))
            })
            .unwrap();
        for number in 0..20_u8 {
            near.send_to(&[number; 4], far.local_addr().unwrap()).unwrap();
        }
        for number in 0..20_u8 {
            let packet = tap.next(Duration::from_secs(5)).unwrap().unwrap();
            assert_eq!((packet.bytes[0] >> 4, packet.bytes.len()), (4, 20 + 8 + 4));
            assert_eq!(packet.bytes[28..], [number; 4]);
        }
        assert!(tap.next(Duration::from_millis(50)).unwrap().is_none());
        assert_eq!(tap.lost().unwrap(), 0);
    }
}
