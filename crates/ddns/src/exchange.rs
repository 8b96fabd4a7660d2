//! One request to one server: signed once, the same bytes again while nothing comes, so that whatever arrives twice is
//! known for a repeat; over UDP, and over TCP where it is large or the response was.

#[cfg(test)]
mod tests;

use crate::config::Endpoint;
use crate::limits::{
    DATAGRAMS_MAX, MESSAGE_BYTES_MAX, SERVER_ADDRESSES_MAX, TCP_MS, UDP_REQUEST_BYTES_MAX, UDP_TRIES_MAX, UDP_TRY_MS,
};
use crate::machine::Request;
use crate::message::{Heard, compose, hear};
use crate::outcome::{Failure, Outcome, Refusal};
use crate::time::{Deadline, unix_s};
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;
use tsig::client::ClientKey;
use wire::Name;
use wire::number::Rcode;

/// Asks a server, over all its addresses, and says what became of it.
pub(crate) fn ask(request: &Request, server: &Endpoint, zone: &Name, key: &ClientKey) -> Outcome {
    let mut id = [0; 2];
    // An ID that can be guessed costs nothing here: the response is signed.
    let _ = SystemRandom::new().fill(&mut id);
    let message = compose(request, zone, u16::from_be_bytes(id));
    let Ok(asked) = key.sign(message, unix_s()) else {
        return Outcome::Unreachable(Failure::Network("the update is too large for a message".into()));
    };
    let addresses = match resolve(server) {
        Ok(addresses) => addresses,
        Err(error) => return Outcome::Unreachable(Failure::Network(format!("{server}: {error}"))),
    };
    let mut last = Failure::Network(format!("{server} has no address"));
    let mut hearsay = None;
    for address in addresses.into_iter().take(SERVER_ADDRESSES_MAX) {
        let mut exchange = Exchange { request, asked: &asked, key, hearsay: None };
        match exchange.run(address) {
            Ok(outcome) => return outcome,
            Err(error) if is_silence(&error) => last = Failure::Silence,
            Err(error) => last = Failure::Network(format!("{address}: {error}")),
        }
        hearsay = exchange.hearsay.or(hearsay);
    }
    match hearsay {
        None => Outcome::Unreachable(last),
        Some(Refusal::Unsigned(rcode @ (Rcode::SERVFAIL | Rcode::NOERROR))) => {
            Outcome::Unreachable(Failure::Rcode(rcode))
        }
        Some(refusal) => Outcome::Refused(refusal),
    }
}

/// The addresses of a host; those of names as the machine's resolver has them.
pub(crate) fn resolve(endpoint: &Endpoint) -> io::Result<Vec<SocketAddr>> {
    (endpoint.host.as_str(), endpoint.port).to_socket_addrs().map(Iterator::collect)
}

/// A UDP socket that takes datagrams of one address only, and hears when nobody is there.
pub(crate) fn udp_to(address: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    Ok(socket)
}

/// Whether nothing came in time.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

struct Exchange<'a> {
    request: &'a Request,
    asked: &'a [u8],
    key: &'a ClientKey,
    /// What somebody said who may be anybody.
    hearsay: Option<Refusal>,
}

impl Exchange<'_> {
    fn run(&mut self, address: SocketAddr) -> io::Result<Outcome> {
        if self.asked.len() <= UDP_REQUEST_BYTES_MAX
            && let Some(outcome) = self.over_udp(address)?
        {
            return Ok(outcome);
        }
        self.over_tcp(address)
    }

    /// `None`: it is to be asked over TCP.
    fn over_udp(&mut self, address: SocketAddr) -> io::Result<Option<Outcome>> {
        let socket = udp_to(address)?;
        let mut response = vec![0; MESSAGE_BYTES_MAX];
        let mut datagrams = 0;
        for _ in 0..UDP_TRIES_MAX {
            socket.send(self.asked)?;
            let deadline = Deadline::after_ms(UDP_TRY_MS);
            while let Some(left) = deadline.left().filter(|_| datagrams < DATAGRAMS_MAX) {
                socket.set_read_timeout(Some(left))?;
                let len = match socket.recv(&mut response) {
                    Ok(len) => len,
                    Err(error) if is_silence(&error) => break,
                    Err(error) => return Err(error),
                };
                datagrams += 1;
                match self.hear(&response[..len]) {
                    Heard::Outcome(outcome) => return Ok(Some(outcome)),
                    Heard::Truncated => return Ok(None),
                    Heard::Hearsay(_) | Heard::Noise => {}
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
        stream.write_all(&[&(self.asked.len() as u16).to_be_bytes(), self.asked].concat())?;
        for _ in 0..DATAGRAMS_MAX {
            let mut prefix = [0; 2];
            read_until(&mut stream, &mut prefix, &deadline)?;
            let mut response = vec![0; usize::from(u16::from_be_bytes(prefix))];
            read_until(&mut stream, &mut response, &deadline)?;
            if let Heard::Outcome(outcome) = self.hear(&response) {
                return Ok(outcome);
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    fn hear(&mut self, response: &[u8]) -> Heard {
        let heard = hear(self.request, self.asked, response, self.key, unix_s());
        if let Heard::Hearsay(refusal) = heard {
            self.hearsay = Some(refusal);
        }
        heard
    }
}

fn read_until(stream: &mut TcpStream, buffer: &mut [u8], deadline: &Deadline) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        stream.set_read_timeout(Some(deadline.left().ok_or(ErrorKind::TimedOut)?))?;
        match stream.read(&mut buffer[filled..])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more => filled += more,
        }
    }
    Ok(())
}
