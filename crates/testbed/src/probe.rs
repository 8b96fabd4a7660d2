//! Queries that show whether a server is ready.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;
use wire::name::Name;

/// Time limit for an answer. The query is repeated until the server is ready.
const ANSWER_MAX: Duration = Duration::from_millis(300);
/// The ID of all queries.
const ID: [u8; 2] = [0x4A, 0x11];
/// Type and class of an SOA query.
const SOA_IN: [u8; 4] = [0, 6, 0, 1];
/// The RCODE of a server that cannot answer now (RFC 1035 4.1.1).
const SERVFAIL: u8 = 2;
/// A query that every server answers without asking others: `id.server. CH TXT`.
const ID_SERVER: &[u8] = b"\x02id\x06server\0\0\x10\0\x03";
/// Bytes of a header.
const HEADER_BYTES: usize = 12;

/// Whether an SOA query gets NOERROR with an answer. To ask in a network namespace, use [`crate::Launch::inside`].
#[must_use]
pub fn answers_for(address: SocketAddr, apex: &Name) -> bool {
    ask_for(address, apex) == Some(true)
}

/// The same, for an apex in presentation format. `None` without a response, or with SERVFAIL: it may serve the zone.
#[must_use]
pub fn serves(address: SocketAddr, apex: &str) -> Option<bool> {
    ask_for(address, &apex.parse().ok()?)
}

fn ask_for(address: SocketAddr, apex: &Name) -> Option<bool> {
    let response = over_udp(address, &query(&[apex.as_bytes(), &SOA_IN[..]].concat())).ok()?;
    let rcode = response.get(3)? & 0x0F;
    let is_known = is_response(&response) && rcode != SERVFAIL;
    is_known.then(|| rcode == 0 && (response[6], response[7]) != (0, 0))
}

/// Whether there is any response over UDP. A proxy has none without its backend.
pub(super) fn responds_over_udp(address: SocketAddr) -> bool {
    over_udp(address, &query(ID_SERVER)).is_ok_and(|response| is_response(&response))
}

/// The same over TCP.
pub(super) fn responds_over_tcp(address: SocketAddr) -> bool {
    over_tcp(address, &query(ID_SERVER)).is_ok_and(|response| is_response(&response))
}

fn query(question: &[u8]) -> Vec<u8> {
    [&ID[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], question].concat()
}

fn is_response(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES && bytes[..2] == ID && bytes[2] & 0x80 != 0
}

fn over_udp(address: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    // Not from the address of the server: it may be on another machine.
    let source: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((source, 0))?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    socket.send_to(query, address)?;
    let mut response = vec![0; 4_096];
    let (length, _) = socket.recv_from(&mut response)?;
    response.truncate(length);
    Ok(response)
}

fn over_tcp(address: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    let length = (query.len() as u16).to_be_bytes();
    stream.write_all(&[&length[..], query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut response = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut response)?;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn only_a_response_is_a_response() {
        let mut query = query(ID_SERVER);
        assert!(!is_response(&query), "the query itself");
        query[2] |= 0x80;
        assert!(is_response(&query));
        assert!(!is_response(&query[..11]));
        query[0] = 0;
        assert!(!is_response(&query), "another ID");
    }

    #[test]
    fn a_proxy_that_only_accepts_connections_is_not_ready() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        assert!(!responds_over_tcp(address));
        std::thread::spawn(move || {
            // The clients of the first connections may be gone: they wait 300 ms.
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 2 + 12 + ID_SERVER.len()];
                if stream.read_exact(&mut bytes).is_ok() {
                    bytes[4] |= 0x80;
                    let _sent = stream.write_all(&bytes);
                }
            }
        });
        // A busy machine may take longer than one query waits.
        assert!((0..100).any(|_| responds_over_tcp(address)));
    }
}
