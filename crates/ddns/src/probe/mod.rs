//! Probes: others who say which address they see. Each is asked over one family, so what it says is of that family.

mod dns;
mod http;
mod stun;

use crate::address::Family;
use crate::config::{Endpoint, Probe};
use crate::exchange::{resolve, udp_to};
use crate::limits::{DATAGRAMS_MAX, MESSAGE_BYTES_MAX, PROBE_MS, UDP_TRY_MS};
use crate::time::Deadline;
use ring::rand::{SecureRandom, SystemRandom};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Asks one probe over one family.
///
/// # Errors
/// Why it said nothing.
pub(crate) fn ask(probe: &Probe, family: Family, authorities: &Path) -> Result<IpAddr, String> {
    match probe {
        Probe::Http(url) => http::ask(url, family, authorities),
        Probe::Stun(server) => {
            let id = random()?;
            let said = over_udp(server, family, &stun::request(id), |response| stun::read(response, id));
            said.map_err(|error| error.to_string())
        }
        Probe::Dns { server, qname, qtype, qclass } => {
            let qtype = qtype.unwrap_or(family.rtype());
            let query = dns::query(u16::from_be_bytes(random()?), qname, qtype, *qclass);
            let said = over_udp(server, family, &query, |response| dns::read(&query, response, family));
            said.map_err(|error| error.to_string())
        }
    }
}

/// What cannot be guessed by who does not see the request.
fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random bytes".to_owned())?;
    Ok(bytes)
}

/// Sends a request, again and again, until something comes that can be read.
fn over_udp(
    server: &Endpoint,
    family: Family,
    request: &[u8],
    read: impl Fn(&[u8]) -> Option<IpAddr>,
) -> io::Result<IpAddr> {
    let is_of_family = |address: &SocketAddr| Family::of(&address.ip()) == family;
    let address = resolve(server)?.into_iter().find(is_of_family);
    let address = address.ok_or_else(|| io::Error::other(format!("no {} address", family.label())))?;
    let socket = udp_to(address)?;
    let mut response = vec![0; MESSAGE_BYTES_MAX];
    let mut datagrams = 0;
    for _ in 0..PROBE_MS / UDP_TRY_MS {
        socket.send(request)?;
        let deadline = Deadline::after_ms(UDP_TRY_MS);
        while let Some(left) = deadline.left().filter(|_| datagrams < DATAGRAMS_MAX) {
            socket.set_read_timeout(Some(left))?;
            match socket.recv(&mut response) {
                Ok(len) => {
                    datagrams += 1;
                    if let Some(address) = read(&response[..len]) {
                        return Ok(address);
                    }
                }
                Err(error) if crate::exchange::is_silence(&error) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Err(ErrorKind::TimedOut.into())
}
