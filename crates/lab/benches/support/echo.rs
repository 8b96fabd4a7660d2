//! A server that answers without parsing the question: the upper bound for any server over UDP sockets.

#[path = "input.rs"]
mod input;

pub(crate) use input::until_input_ends;

use super::sockets::{Batch, wait};
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::Ordering;

/// Requested send and receive buffer of each socket.
const BUFFER_BYTES: usize = 8 << 20;

/// Returns every datagram with QR set, without parsing it. With `together`, responses to one client are sent as one
/// segmented datagram. Prints its address first, and exits when standard input closes.
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

/// Binds a socket on loopback and prints its address.
pub(crate) fn listen() -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    // The system may grant less. Resulting losses show in the figures.
    let _granted = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _granted = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("loopback");
    let socket = UdpSocket::from(socket);
    println!("{}", socket.local_addr().expect("an address"));
    socket
}
