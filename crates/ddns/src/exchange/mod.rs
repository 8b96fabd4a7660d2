//! Sends one request to one server. It is signed once, and retries send the same bytes, so that the server recognizes
//! repeats. Uses TCP for large requests and after truncated responses.

#[cfg(test)]
mod tests;

use crate::config::Endpoint;
use crate::limits::{
    DATAGRAMS_MAX, MESSAGE_BYTES_MAX, SERVER_ADDRESSES_MAX, TCP_MS, UDP_REQUEST_BYTES_MAX, UDP_TRIES_MAX, UDP_TRY_MS,
};
use crate::machine::Request;
use crate::message::{ParsedResponse, compose, parse_response};
use crate::outcome::{Failure, Outcome, Refusal};
use crate::time::{Deadline, unix_s};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;
use tsig::client::ClientKey;
use wire::Name;
use wire::number::Rcode;

/// Sends a request to a server, over all its addresses. Returns the outcome.
pub(crate) fn ask(request: &Request, server: &Endpoint, zone: &Name, key: &ClientKey) -> Outcome {
    let mut id = [0; 2];
    // A guessable ID is harmless, since responses are signed.
    let _ = SystemRandom::new().fill(&mut id);
    let message = compose(request, zone, u16::from_be_bytes(id));
    let Ok(signed_request) = key.sign(message, unix_s()) else {
        return Outcome::Unreachable(Failure::Network("the update is too large for a message".into()));
    };
    let addresses = match resolve(server) {
        Ok(addresses) => addresses,
        Err(error) => return Outcome::Unreachable(Failure::Network(format!("{server}: {error}"))),
    };
    let mut last = Failure::Network(format!("{server} has no address"));
    let mut unauthenticated = None;
    for address in addresses.into_iter().take(SERVER_ADDRESSES_MAX) {
        let mut exchange = Exchange { request, signed_request: &signed_request, key, unauthenticated: None };
        match exchange.run(address) {
            Ok(outcome) => return outcome,
            Err(error) if is_timeout(&error) => last = Failure::Timeout,
            Err(error) => last = Failure::Network(format!("{address}: {error}")),
        }
        unauthenticated = exchange.unauthenticated.or(unauthenticated);
    }
    match unauthenticated {
        None => Outcome::Unreachable(last),
        Some(Refusal::Unsigned(rcode @ (Rcode::SERVFAIL | Rcode::NOERROR))) => {
            Outcome::Unreachable(Failure::Rcode(rcode))
        }
        Some(refusal) => Outcome::Refused(refusal),
    }
}

/// The addresses of a host, from the resolver of this machine.
pub(crate) fn resolve(endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    (endpoint.host.as_str(), endpoint.port).to_socket_addrs().map(Iterator::collect)
}

/// A connected UDP socket: it accepts datagrams from one address only, and gets ICMP errors.
pub(crate) fn udp_to(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    Ok(socket)
}

/// Whether an error is a timeout.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

struct Exchange<'a> {
    request: &'a Request,
    signed_request: &'a [u8],
    key: &'a ClientKey,
    /// The last unsigned response.
    unauthenticated: Option<Refusal>,
}

impl Exchange<'_> {
    fn run(&mut self, address: SocketAddr) -> io::Result<Outcome> {
        if self.signed_request.len() <= UDP_REQUEST_BYTES_MAX
            && let Some(outcome) = self.over_udp(address)?
        {
            return Ok(outcome);
        }
        self.over_tcp(address)
    }

    /// `None`: the request must be repeated over TCP.
    fn over_udp(&mut self, address: SocketAddr) -> io::Result<Option<Outcome>> {
        let socket = udp_to(address)?;
        let mut response = vec![0; MESSAGE_BYTES_MAX];
        let mut datagrams = 0;
        for _ in 0..UDP_TRIES_MAX {
            socket.send(self.signed_request)?;
            let deadline = Deadline::after_ms(UDP_TRY_MS);
            while let Some(remaining) = deadline.remaining().filter(|_| datagrams < DATAGRAMS_MAX) {
                socket.set_read_timeout(Some(remaining))?;
                let len = match socket.recv(&mut response) {
                    Ok(len) => len,
                    Err(error) if is_timeout(&error) => break,
                    Err(error) => return Err(error),
                };
                datagrams += 1;
                match self.parse(&response[..len]) {
                    ParsedResponse::Outcome(outcome) => return Ok(Some(outcome)),
                    ParsedResponse::Truncated => return Ok(None),
                    ParsedResponse::Unauthenticated(_) | ParsedResponse::Ignored => {}
                }
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn over_tcp(&mut self, address: SocketAddr) -> io::Result<Outcome> {
        let deadline = Deadline::after_ms(TCP_MS);
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(TCP_MS))?;
        stream.set_write_timeout(Some(Duration::from_millis(TCP_MS)))?;
        // RFC 7766 8: prefix and message in one write.
        stream.write_all(&[&(self.signed_request.len() as u16).to_be_bytes(), self.signed_request].concat())?;
        for _ in 0..DATAGRAMS_MAX {
            let mut prefix = [0; 2];
            read_until(&mut stream, &mut prefix, &deadline)?;
            let mut response = vec![0; usize::from(u16::from_be_bytes(prefix))];
            read_until(&mut stream, &mut response, &deadline)?;
            if let ParsedResponse::Outcome(outcome) = self.parse(&response) {
                return Ok(outcome);
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn parse(&mut self, response: &[u8]) -> ParsedResponse {
        let parsed = parse_response(self.request, self.signed_request, response, self.key, unix_s());
        if let ParsedResponse::Unauthenticated(refusal) = parsed {
            self.unauthenticated = Some(refusal);
        }
        parsed
    }
}

fn read_until(stream: &mut TcpStream, buffer: &mut [u8], deadline: &Deadline) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        stream.set_read_timeout(Some(deadline.remaining().ok_or(ErrorKind::TimedOut)?))?;
        match stream.read(&mut buffer[filled..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => filled += more,
        }
    }
    Ok(())
}
