//! Assigns local ports in rotation.
//!
//! By default, connect(2) tries every second port of the range first, in order. Once those are in use (about 14,000
//! connections to one address), each further connection takes 0.5 ms. Here each connection searches a window after the
//! last one (`IP_LOCAL_PORT_RANGE`, Linux 6.3; older kernels ignore it and search as usual).

use crate::engine::port_count;
use socket2::{SockAddr, Socket};
use sockets::system;
use std::io;

/// Number of ports in a window.
const WINDOW: u32 = 64;

/// Local ports in rotation.
pub(super) struct PortRotation {
    low: u32,
    count: u32,
    next: u32,
    is_supported: bool,
}

impl PortRotation {
    /// The kernel's ephemeral ports. Each worker starts at a different port.
    pub(super) fn of_kernel(index: usize) -> Self {
        let (low, high) = port_count::range().map_or((1, 0), |(low, high)| (u32::from(low), u32::from(high)));
        let mut rotation = Self::new(low, (high + 1).saturating_sub(low));
        // Multiples of the golden ratio spread any number of starting points.
        rotation.next = (rotation.count as f64 * (index as f64 * 0.618_034).fract()) as u32;
        rotation
    }

    fn new(low: u32, count: u32) -> Self {
        Self { low, count, next: 0, is_supported: count > WINDOW }
    }

    /// The next window: its first and last port.
    fn window(&self) -> (u16, u16) {
        let last = (self.next + WINDOW).min(self.count) - 1;
        ((self.low + self.next) as u16, (self.low + last) as u16)
    }

    fn step(&mut self, ports: u32) {
        self.next += ports;
        if self.next >= self.count {
            self.next = 0;
        }
    }

    /// Connects a non-blocking socket.
    ///
    /// # Errors
    /// As connect(2); `AddrNotAvailable` if every port is in use.
    pub(super) fn connect(&mut self, socket: &Socket, server: &SockAddr) -> io::Result<()> {
        let mut looked_at = 0;
        while self.is_supported && looked_at < self.count + WINDOW {
            if system::choose_ports(socket, self.window()).is_err() {
                self.is_supported = false;
                break;
            }
            match socket.connect(server) {
                Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                    looked_at += WINDOW;
                    self.step(WINDOW);
                }
                other => {
                    self.step(1);
                    return other;
                }
            }
        }
        if self.is_supported { Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL)) } else { socket.connect(server) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, TcpListener};

    fn connect(rotation: &mut PortRotation, server: SocketAddr) -> io::Result<(Socket, u16)> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
        match rotation.connect(&socket, &server.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let port = socket.local_addr()?.as_socket().map_or(0, |address| address.port());
        Ok((socket, port))
    }

    #[test]
    fn every_free_port_is_used_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let kernel_range = PortRotation::of_kernel(0);
        let mut rotation = PortRotation::new(kernel_range.low, 200);
        rotation.next = 150;
        let mut sockets = vec![connect(&mut rotation, server).unwrap()];
        if !rotation.is_supported {
            skip::platform("choosing a range of ports");
            return;
        }
        let refused = loop {
            match connect(&mut rotation, server) {
                Ok(connected) => sockets.push(connected),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::AddrNotAvailable);
        let ports: BTreeSet<u32> = sockets.iter().map(|(_, port)| u32::from(*port)).collect();
        assert_eq!(ports.len(), sockets.len());
        assert!(ports.iter().all(|port| (rotation.low..rotation.low + 200).contains(port)), "{ports:?}");
        // Ports bound by other sockets of this machine are not available.
        assert!((180..=200).contains(&sockets.len()), "{}", sockets.len());
    }

    #[test]
    fn workers_start_at_different_positions() {
        let starts: Vec<u32> = (0..4).map(|index| PortRotation::of_kernel(index).next).collect();
        let apart =
            starts.iter().enumerate().all(|(at, one)| starts[..at].iter().all(|two| one.abs_diff(*two) > 2_000));
        assert!(apart, "{starts:?}");
    }
}
