//! Probes: services that report the address of their client. Each is queried over one family.

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

/// Queries one probe over one family.
///
/// # Errors
/// Why there is no address.
pub(crate) fn ask(probe: &Probe, family: Family, authorities: &Path) -> Result<IpAddr, String> {
    match probe {
        Probe::Http(url) => http::ask(url, family, authorities),
        Probe::Stun(server) => {
            let id = random()?;
            let answer = over_udp(server, family, &stun::request(id), |response| stun::read(response, id));
            answer.map_err(|error| error.to_string())
        }
        Probe::Dns { server, qname, qtype, qclass } => {
            let qtype = qtype.unwrap_or(family.rtype());
            let query = dns::query(u16::from_be_bytes(random()?), qname, qtype, *qclass);
            let answer = over_udp(server, family, &query, |response| dns::read(&query, response, family));
            answer.map_err(|error| error.to_string())
        }
    }
}

/// Random bytes, so that responses cannot be forged blindly.
fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "cannot get random bytes from the system".to_owned())?;
    Ok(bytes)
}

/// Sends a request repeatedly, until a valid response arrives.
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
        while let Some(remaining) = deadline.remaining().filter(|_| datagrams < DATAGRAMS_MAX) {
            socket.set_read_timeout(Some(remaining))?;
            match socket.recv(&mut response) {
                Ok(len) => {
                    datagrams += 1;
                    if let Some(address) = read(&response[..len]) {
                        return Ok(address);
                    }
                }
                Err(error) if crate::exchange::is_timeout(&error) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Err(ErrorKind::TimedOut.into())
}
