//! A server that answers without a look at the question: no server over UDP sockets can do less.

#[path = "input.rs"]
mod input;

pub(crate) use input::until_input_ends;

use super::sockets::{Batch, wait};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;

/// Send and receive buffer asked for each socket.
const BUFFER_BYTES: usize = 8 << 20;

/// Answers every datagram with itself, QR set, unread; those to one client `together`, as one datagram that the kernel
/// takes apart. Prints its address first, ends when its input does.
pub(crate) fn echo(together: bool) {
    let socket = listen();
    let ended = until_input_ends();
    let mut batch = Batch::new();
    while !ended.load(Ordering::Relaxed) {
        match batch.receive(&socket) {
            0 => _ = wait(std::slice::from_ref(&socket), 50),
            count => batch.answer(&socket, count, together),
        }
    }
}

/// A socket on loopback, its address printed.
pub(crate) fn listen() -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    // As much as the system grants; what is lost all the same shows in the figures.
    let _granted = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _granted = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("loopback");
    let socket = UdpSocket::from(socket);
    println!("{}", socket.local_addr().expect("an address"));
    socket
}
