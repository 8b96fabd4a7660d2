//! Messages over UDP and TCP, bytes in and out.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// How long a server that does not answer is waited for.
pub(crate) const SILENCE: Duration = Duration::from_millis(300);

/// Sends one message and gives the response; `None` when there is none within `wait`, or the connection is closed.
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
    stream.write_all(&[&(message.len() as u16).to_be_bytes(), message].concat())?;
    read_tcp(&mut stream)
}

/// Reads one message off a stream.
pub(crate) fn read_tcp(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut prefix = [0; 2];
    stream.read_exact(&mut prefix)?;
    let mut response = vec![0; usize::from(u16::from_be_bytes(prefix))];
    stream.read_exact(&mut response)?;
    Ok(response)
}
