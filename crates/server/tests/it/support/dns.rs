//! Sends and receives messages over UDP and TCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// The transport of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// How long the tests wait for a server that does not respond.
pub(crate) const SILENCE: Duration = Duration::from_millis(300);
/// Time limit for an expected response.
pub(crate) const RESPONSE_WITHIN: Duration = Duration::from_secs(10);
/// Interval between two transmissions of the same datagram, and the shortest wait in which a datagram is repeated.
const RESEND_INTERVAL: Duration = Duration::from_secs(1);
const RESEND_WAIT_MIN: Duration = Duration::from_secs(2);

/// Sends one message and returns the response. `None` if there is none within `wait`, or the connection is closed. If
/// `wait` is two seconds or more, a UDP client sends the same bytes again each second, because datagrams may be lost.
pub(crate) fn exchange(transport: Transport, to: SocketAddr, message: &[u8], wait: Duration) -> Option<Vec<u8>> {
    exchange_and_count(transport, to, message, wait).0
}

/// Like [`exchange`]. Also returns how many times the message was sent.
pub(crate) fn exchange_and_count(
    transport: Transport,
    to: SocketAddr,
    message: &[u8],
    wait: Duration,
) -> (Option<Vec<u8>>, u64) {
    let mut sent_count = 1;
    let response = match transport {
        Transport::Udp if wait >= RESEND_WAIT_MIN => udp(to, message, wait, RESEND_INTERVAL, &mut sent_count),
        Transport::Udp => udp(to, message, wait, wait, &mut sent_count),
        Transport::Tcp => tcp(to, message, wait),
    };
    (response.ok(), sent_count)
}

/// Like [`exchange`], but a datagram is sent only once.
pub(crate) fn exchange_once(transport: Transport, to: SocketAddr, message: &[u8], wait: Duration) -> Option<Vec<u8>> {
    match transport {
        Transport::Udp => udp(to, message, wait, wait, &mut 1).ok(),
        Transport::Tcp => tcp(to, message, wait).ok(),
    }
}

fn udp(
    to: SocketAddr,
    message: &[u8],
    wait: Duration,
    interval: Duration,
    sent_count: &mut u64,
) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(to)?;
    socket.send(message)?;
    let (start, mut sent_at) = (Instant::now(), Instant::now());
    let mut response = vec![0; 65_535];
    loop {
        let left = interval.saturating_sub(sent_at.elapsed()).min(wait.saturating_sub(start.elapsed()));
        // A timeout of zero is not allowed.
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match socket.recv(&mut response) {
            // A response has the ID of its request.
            Ok(len) if message.iter().take(2).eq(response[..len].iter().take(2)) => {
                response.truncate(len);
                return Ok(response);
            }
            Ok(_) => {}
            Err(error) if !is_timeout(&error) || start.elapsed() >= wait => return Err(error),
            Err(_) if sent_at.elapsed() >= interval => {
                socket.send(message)?;
                sent_at = Instant::now();
                *sent_count += 1;
            }
            Err(_) => {}
        }
    }
}

/// Whether nothing arrived before the read timeout.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
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
