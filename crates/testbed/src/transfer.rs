//! Zone transfers (RFC 5936), as a secondary makes them.

use super::catalog::{name, signer, unix_time_s};
use super::setup::{ServedZone, UpdateKey};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::number::{Rcode, Rtype};
use wire::{Message, MessageBuilder, ParseError, Section};

/// Time limit for each message of a transfer.
const MESSAGE_MAX: Duration = Duration::from_secs(10);

/// Transfers zones over one connection, one after the other. Returns the number of their records. The signatures of the
/// responses are not verified. To transfer in a network namespace, use [`crate::Launch::inside`].
///
/// # Errors
/// The server does not respond or refuses a transfer, a response is malformed, or `is_stopped` is true.
pub fn transfer(
    server: SocketAddr,
    key: &UpdateKey,
    zones: &[ServedZone],
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> io::Result<u64> {
    let signer = signer(key)?;
    let mut stream = TcpStream::connect_timeout(&server, MESSAGE_MAX)?;
    stream.set_read_timeout(Some(MESSAGE_MAX))?;
    let mut records = 0;
    for (number, zone) in zones.iter().enumerate() {
        if is_stopped() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let query = MessageBuilder::query(number as u16, name(&zone.apex)?.as_ref(), Rtype::AXFR).build();
        let query = signer.sign(query, unix_time_s()).map_err(|_| io::Error::other("the query is too long"))?;
        stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat())?;
        let received = receive(&mut stream);
        let with_zone = |error| io::Error::other(format!("AXFR of {} from {server}: {error}", zone.apex));
        records += received.map_err(with_zone)?;
    }
    Ok(records)
}

/// Receives the messages of one transfer. Returns the number of records.
fn receive(stream: &mut impl Read) -> io::Result<u64> {
    let (mut records, mut soas) = (0, 0);
    // The SOA is the first record and the last one (RFC 5936 2.2).
    while soas < 2 {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut bytes = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut bytes)?;
        let malformed = |_: ParseError| io::Error::from(io::ErrorKind::InvalidData);
        let message = Message::parse(&bytes).map_err(malformed)?;
        if message.rcode() != Rcode::NOERROR {
            return Err(io::Error::other(format!("{:?}", message.rcode())));
        }
        let before = records;
        for record in message.records(Section::Answer) {
            soas += u32::from(record.map_err(malformed)?.rtype == Rtype::SOA);
            records += 1;
        }
        if records == before {
            return Err(io::Error::other("a message has no record"));
        }
    }
    // The last SOA is the first one again.
    Ok(records - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Class;

    fn message(types: &[Rtype], rcode: Rcode) -> Vec<u8> {
        let apex: wire::name::Name = "example.".parse().unwrap();
        let mut builder =
            MessageBuilder::query(1, apex.as_ref(), Rtype::AXFR).header(|header| header.rcode = rcode.0 as u8);
        for rtype in types {
            builder = builder.record(Section::Answer, apex.as_ref(), *rtype, Class::IN, 0, &[0; 22]);
        }
        let bytes = builder.build();
        [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()
    }

    #[test]
    fn a_transfer_ends_with_the_second_soa() {
        let first = message(&[Rtype::SOA, Rtype::TXT], Rcode::NOERROR);
        let last = message(&[Rtype::TXT, Rtype::SOA], Rcode::NOERROR);
        assert_eq!(receive(&mut [first.clone(), last].concat().as_slice()).unwrap(), 3);
        assert_eq!(receive(&mut first.as_slice()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_refused_or_empty_transfer_is_an_error() {
        for (types, rcode) in [(&[][..], Rcode::REFUSED), (&[], Rcode::NOERROR)] {
            assert!(receive(&mut message(types, rcode).as_slice()).is_err());
        }
    }
}
