//! Local ports, in turns.
//!
//! Left to itself connect(2) looks at every second port of the range first, one after the other: once those are in
//! use, at some 14,000 connections to one address, each further one keeps its thread for half a millisecond. Here each
//! connection says where to look, on from the last (`IP_LOCAL_PORT_RANGE`, Linux 6.3; an older kernel refuses it and
//! does it in its own way).

use crate::engine::{port_count, system};
use socket2::{SockAddr, Socket};
use std::io;

/// Ports that one connect(2) looks at.
const WINDOW: u32 = 64;

/// See the module.
pub(super) struct PortTurns {
    low: u32,
    count: u32,
    next: u32,
    is_supported: bool,
}

impl PortTurns {
    /// Those that the kernel gives out; worker `index` of several begins elsewhere than the others.
    pub(super) fn of_kernel(index: usize) -> Self {
        let (low, high) = port_count::range().map_or((1, 0), |(low, high)| (u32::from(low), u32::from(high)));
        let mut turns = Self::new(low, (high + 1).saturating_sub(low));
        // The golden ratio lays any number of beginnings far from one another.
        turns.next = (turns.count as f64 * (index as f64 * 0.618_034).fract()) as u32;
        turns
    }

    fn new(low: u32, count: u32) -> Self {
        Self { low, count, next: 0, is_supported: count > WINDOW }
    }

    /// The next ports to look at: the first and the last.
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

    /// Connects a socket that never waits.
    ///
    /// # Errors
    /// As connect(2); `AddrNotAvailable` when every port is in use.
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

    fn connect(turns: &mut PortTurns, server: SocketAddr) -> io::Result<(Socket, u16)> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None)?;
        match turns.connect(&socket, &server.into()) {
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
        let whole = PortTurns::of_kernel(0);
        let mut turns = PortTurns::new(whole.low, 200);
        turns.next = 150;
        let mut held = vec![connect(&mut turns, server).unwrap()];
        if !turns.is_supported {
            eprintln!("skipped: this kernel lets no range be chosen");
            return;
        }
        let refused = loop {
            match connect(&mut turns, server) {
                Ok(connected) => held.push(connected),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::AddrNotAvailable);
        let ports: BTreeSet<u32> = held.iter().map(|(_, port)| u32::from(*port)).collect();
        assert_eq!(ports.len(), held.len());
        assert!(ports.iter().all(|port| (turns.low..turns.low + 200).contains(port)), "{ports:?}");
        // Ports that other sockets of this machine are bound to are not to be had.
        assert!((180..=200).contains(&held.len()), "{}", held.len());
    }

    #[test]
    fn workers_begin_apart() {
        let starts: Vec<u32> = (0..4).map(|index| PortTurns::of_kernel(index).next).collect();
        let apart =
            starts.iter().enumerate().all(|(at, one)| starts[..at].iter().all(|two| one.abs_diff(*two) > 2_000));
        assert!(apart, "{starts:?}");
    }
}
