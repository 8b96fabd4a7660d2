//! A catalog zone (RFC 9432). It lists the zones of a primary, so that its secondaries serve them too.

use super::setup::{ServedZone, UpdateKey};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tsig::KeyAlgorithm;
use tsig::client::{ClientKey, UpdateBuilder};
use wire::name::Name;
use wire::number::{Rcode, Rtype};

/// Zones that one UPDATE adds or removes.
const ZONES_PER_UPDATE: usize = 100;
/// Time limit for the response to an UPDATE.
const RESPONSE_MAX: Duration = Duration::from_secs(10);

/// A change of a zone in a catalog or of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneChange {
    /// The zone is added.
    Add,
    /// The zone is removed.
    Remove,
}

/// The zone file of a catalog with these zones, in its version 2 (RFC 9432 4.3).
pub(crate) fn text(apex: &str, zones: &[ServedZone]) -> String {
    // A catalog has no servers, but a zone needs NS records (RFC 9432 4.1).
    let mut text = format!(
        "$ORIGIN {apex}\n@ 0 SOA invalid. invalid. 1 3600 600 2147483646 0\n@ 0 NS invalid.\nversion 0 TXT \"2\"\n"
    );
    for (index, zone) in zones.iter().enumerate() {
        let _written = writeln!(text, "{} 0 PTR {}", label(index), zone.apex);
    }
    text
}

/// The owner of a zone, below the apex of the catalog. The first label identifies the zone (RFC 9432 4.1).
fn label(index: usize) -> String {
    format!("m{index}.zones")
}

/// Adds zones to a catalog or removes them, by UPDATEs to its primary. Each zone has its index in the catalog, from 0.
/// To send from a network namespace, use [`crate::Launch::inside`].
///
/// # Errors
/// The primary does not respond, or refuses an UPDATE. Earlier UPDATEs of the same call were executed.
pub fn change_catalog(
    primary: SocketAddr,
    key: &UpdateKey,
    apex: &str,
    zones: &[(usize, ServedZone)],
    change: ZoneChange,
) -> io::Result<()> {
    let catalog = name(apex)?;
    let signer = signer(key)?;
    let mut stream = TcpStream::connect_timeout(&primary, RESPONSE_MAX)?;
    stream.set_read_timeout(Some(RESPONSE_MAX))?;
    for (number, part) in zones.chunks(ZONES_PER_UPDATE).enumerate() {
        let mut builder = UpdateBuilder::new(number as u16, catalog.as_ref());
        for (index, zone) in part {
            let owner = name(&format!("{}.{apex}", label(*index)))?;
            builder = match change {
                ZoneChange::Add => builder.add(owner.as_ref(), 0, Rtype::PTR, name(&zone.apex)?.as_bytes()),
                ZoneChange::Remove => builder.delete_name(owner.as_ref()),
            };
        }
        let message = signer.sign(builder.finish(), unix_time_s());
        let message = message.map_err(|_| io::Error::other("the UPDATE is too long to be signed"))?;
        let rcode = exchange(&mut stream, &message)?;
        if rcode != Rcode::NOERROR {
            return Err(io::Error::other(format!("{primary} answered {rcode:?} to an UPDATE of the catalog {apex}")));
        }
    }
    Ok(())
}

/// Sends a message over TCP. Returns the RCODE of the response.
fn exchange(stream: &mut TcpStream, message: &[u8]) -> io::Result<Rcode> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], message].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut response = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut response)?;
    let flags = response.get(3).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Rcode(u16::from(flags & 0x0F)))
}

/// Signs messages with a key.
pub(super) fn signer(key: &UpdateKey) -> io::Result<ClientKey> {
    let signer = ClientKey::new(name(&key.name)?.as_ref(), KeyAlgorithm::HmacSha256, &key.secret);
    signer.map_err(|error| io::Error::other(format!("{error:?}")))
}

/// The time for signatures, in seconds.
pub(super) fn unix_time_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

pub(super) fn name(text: &str) -> io::Result<Name> {
    text.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("`{text}` is not a domain name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_lists_its_zones() {
        let zones = ["one.test.", "two.test."].map(|apex| ServedZone::new(apex, "file"));
        let text = text("catalog.", &zones);
        assert!(text.starts_with("$ORIGIN catalog.\n@ 0 SOA invalid. "), "{text}");
        assert!(text.ends_with("version 0 TXT \"2\"\nm0.zones 0 PTR one.test.\nm1.zones 0 PTR two.test.\n"), "{text}");
    }
}
