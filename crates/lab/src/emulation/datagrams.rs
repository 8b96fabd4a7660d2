//! UDP for all addresses of one family.

use crate::limits::EMULATED_PORT;
use hierarchy::serve::{Emulator, ServerMessage, Transport};
use load::limits::QUERY_BYTES_MAX;
use mio::net::UdpSocket;
use socket2::{Domain, Protocol, Socket, Type};
use sockets::limits::{BATCH_COUNT, SOCKET_BUFFER_BYTES};
use sockets::system::enable_destinations;
use sockets::{Incoming, Outgoing};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) struct Datagrams {
    pub(super) socket: UdpSocket,
    incoming: Incoming,
    outgoing: Outgoing,
    answer: Vec<u8>,
}

impl Datagrams {
    pub(super) fn open(is_ipv6: bool) -> io::Result<Self> {
        let any: IpAddr = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let address = SocketAddr::new(any, EMULATED_PORT);
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        // The system may grant less.
        let _granted = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
        let _granted = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
        if is_ipv6 {
            socket.set_only_v6(true)?;
            // Needed to send from addresses that are routed as local but not on an interface (ipv6(7)).
            socket.set_freebind_v6(true)?;
        }
        socket.set_reuse_port(true)?;
        enable_destinations(&socket, is_ipv6)?;
        socket.bind(&address.into())?;
        Ok(Self {
            socket: UdpSocket::from_std(socket.into()),
            incoming: Incoming::with_buffer_bytes(QUERY_BYTES_MAX).with_senders(),
            outgoing: Outgoing::to_each(),
            answer: vec![0; QUERY_BYTES_MAX],
        })
    }

    /// Answers all pending queries.
    pub(super) fn serve(&mut self, emulator: &mut Emulator, at_ns: u64) -> io::Result<()> {
        loop {
            let count = self.incoming.receive(&self.socket)?;
            for index in 0..count {
                let (sender, server) = (self.incoming.sender(index), self.incoming.destination(index));
                let (Some(sender), Some(server)) = (sender, server) else { continue };
                let bytes = self.incoming.message(index);
                let message = ServerMessage { at_ns, server, transport: Transport::Udp, bytes };
                let length = emulator.answer(&message, &mut self.answer);
                if length == 0 {
                    continue;
                }
                let answer = &self.answer[..length];
                self.outgoing.push(|slot| {
                    slot[..length].copy_from_slice(answer);
                    length
                });
                self.outgoing.set_source(Some(server));
                self.outgoing.set_destination(sender);
            }
            self.send();
            if count < BATCH_COUNT {
                return Ok(());
            }
        }
    }

    /// Sends pending answers. Answers that the kernel does not accept are lost, as on a network.
    fn send(&mut self) {
        let mut next = 0;
        while next < self.outgoing.count() {
            match self.outgoing.send(&self.socket, next, false) {
                Ok(count) => next += count.max(1),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => next += 1,
            }
        }
        self.outgoing.clear();
    }
}
