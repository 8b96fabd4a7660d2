//! Sends and receives messages over UDP and TCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// The transport of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// How long the tests wait for a server that does not respond.
pub(crate) const SILENCE: Duration = Duration::from_millis(300);

/// Sends one message and returns the response. `None` if there is none within `wait`, or the connection is closed.
pub(crate) fn exchange(transport: Transport, to: SocketAddr, message: &[u8], wait: Duration) -> Option<Vec<u8>> {
    match transport {
        Transport::Udp => udp(to, message, wait).ok(),
        Transport::Tcp => tcp(to, message, wait).ok(),
    }
}

fn udp(to: SocketAddr, message: &[u8], wait: Duration) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(wait))?;
    socket.connect(to)?;
    socket.send(message)?;
    let mut response = vec![0; 65_535];
    let len = socket.recv(&mut response)?;
    response.truncate(len);
    Ok(response)
}

fn tcp(to: SocketAddr, message: &[u8], wait: Duration) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(wait))?;
    stream.write_all(&framed(message))?;
    read_message(&mut stream)
}

/// The time limit of [`tcp_from`].
const CONNECT: Duration = Duration::from_secs(10);

/// Connects from one of this machine's addresses.
pub(crate) fn tcp_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), CONNECT)?;
    Ok(socket.into())
}

/// A message with a length prefix (RFC 1035 4.2.2).
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

/// Reads one message from a stream.
pub(crate) fn read_message(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.read_exact(&mut message)?;
    Ok(message)
}
