//! What passes the interfaces of a machine, as IP packets.

use crate::limits::TAP_PACKET_BYTES_MAX;
use crate::system::{self, Passed};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::time::{Duration, SystemTime};

/// A look at packets that this machine sends and receives, from when it is opened on. They go their way untouched.
#[derive(Debug)]
pub struct Tap {
    socket: File,
    buffer: Box<[u8]>,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'t> {
    /// When it was read here.
    pub at: SystemTime,
    /// From the IP header on; cut if it is longer than [`TAP_PACKET_BYTES_MAX`].
    pub bytes: &'t [u8],
}

impl Tap {
    /// Opens one on an interface, or on all of them.
    ///
    /// # Errors
    /// There is no such interface, or this process may not (CAP_NET_RAW).
    pub fn open(interface: Option<&str>) -> io::Result<Self> {
        let named = |error: io::Error| match interface {
            Some(name) => io::Error::new(error.kind(), format!("the interface {name}: {error}")),
            None => error,
        };
        let socket = system::open_tap(interface).map_err(named)?;
        Ok(Self { socket, buffer: vec![0; TAP_PACKET_BYTES_MAX].into() })
    }

    /// The next packet, if one comes within `at_most`. What is sent over loopback, and so is received too, is one
    /// packet.
    ///
    /// # Errors
    /// Of the socket.
    pub fn next(&mut self, at_most: Duration) -> io::Result<Option<Packet<'_>>> {
        let until = std::time::Instant::now() + at_most;
        loop {
            match system::read_tap(&self.socket, &mut self.buffer) {
                Ok(Passed { bytes, is_ip: true, is_twice: false }) => {
                    let bytes = &self.buffer[..bytes.min(self.buffer.len())];
                    return Ok(Some(Packet { at: SystemTime::now(), bytes }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(std::time::Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    system::wait_readable_one(&self.socket, left);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // An interface that went down says so once.
                Err(error) if error.kind() == ErrorKind::NetworkDown => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Packets that came faster than they were read, since the last time this was asked.
    ///
    /// # Errors
    /// Of the socket.
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
    fn what_is_sent_over_loopback_is_seen_once() {
        let name = format!("clt{}", std::process::id());
        let Ok(made) = Namespace::make(&name) else {
            eprintln!("skipped: no namespace can be made here; it takes root and iproute2");
            return;
        };
        let (mut tap, near, far) = made
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
