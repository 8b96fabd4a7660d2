//! dnstap: messages that a server logged of itself, in protobuf, in Frame Streams.
//!
//! A log entry of a response may repeat the query: it is told once, by the entry of the query.

use crate::error::TraceError;
use crate::held::Held;
use crate::limits::FRAME_OCTETS_MAX;
use crate::message::{Message, Transport, has_header};
use crate::tally::{Tally, Unread};
use std::io::{self, BufRead, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
/// Control frames.
const START: u32 = 2;
const STOP: u32 = 3;
const FIELD_CONTENT_TYPE: u32 = 1;

/// Reads a file of Frame Streams.
pub(crate) struct DnstapReader {
    octets: Box<dyn BufRead + Send>,
    frame: Vec<u8>,
    at: u64,
    is_ended: bool,
}

/// Whether a file begins as one of Frame Streams does: a control frame, START.
pub(crate) fn is_dnstap(first: &[u8]) -> bool {
    first.len() >= 12 && first[..4] == [0; 4] && first[8..12] == START.to_be_bytes()
}

impl DnstapReader {
    pub(crate) fn new(octets: Box<dyn BufRead + Send>) -> Self {
        Self { octets, frame: Vec::new(), at: 0, is_ended: false }
    }

    pub(crate) fn advance(&mut self, held: &mut Held, tally: &mut Tally) -> Result<bool, TraceError> {
        if self.is_ended {
            return Ok(false);
        }
        // A writer that was killed says no STOP.
        let Some(octets) = self.word()? else { return Ok(false) };
        if octets == 0 {
            let octets = self.word()?.ok_or_else(|| self.wrong("the file ends within a control frame"))?;
            self.fill(octets)?;
            return self.control().map(|()| !self.is_ended);
        }
        self.fill(octets)?;
        tally.records += 1;
        match entry(&self.frame) {
            Ok(message) => {
                held.push(message);
                tally.messages += 1;
            }
            Err(unread) => tally.count(unread),
        }
        Ok(true)
    }

    fn control(&mut self) -> Result<(), TraceError> {
        let (kind, mut fields) =
            self.frame.split_first_chunk::<4>().ok_or_else(|| self.wrong("an empty control frame"))?;
        match u32::from_be_bytes(*kind) {
            START => {
                while let Some((head, rest)) = fields.split_first_chunk::<8>() {
                    let [field, octets] = [&head[..4], &head[4..]]
                        .map(|word| word.try_into().map(u32::from_be_bytes).unwrap_or_default());
                    let value =
                        rest.get(..octets as usize).ok_or_else(|| self.wrong("a field that ends beyond its frame"))?;
                    if field == FIELD_CONTENT_TYPE && value != CONTENT_TYPE {
                        return Err(self.wrong("Frame Streams of something else than dnstap"));
                    }
                    fields = &rest[octets as usize..];
                }
            }
            STOP => self.is_ended = true,
            _ => {}
        }
        Ok(())
    }

    /// The next four octets; `None` at the end of the file.
    fn word(&mut self) -> Result<Option<u32>, TraceError> {
        if self.octets.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut word = [0; 4];
        self.octets.read_exact(&mut word).map_err(|error| self.cut(error))?;
        self.at += 4;
        Ok(Some(u32::from_be_bytes(word)))
    }

    fn fill(&mut self, octets: u32) -> Result<(), TraceError> {
        let octets = octets as usize;
        if octets > FRAME_OCTETS_MAX {
            return Err(self.wrong("a frame larger than 256 KiB"));
        }
        self.frame.resize(octets, 0);
        self.octets.read_exact(&mut self.frame).map_err(|error| self.cut(error))?;
        self.at += octets as u64;
        Ok(())
    }

    fn cut(&self, error: io::Error) -> TraceError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.wrong("the file ends within a frame"),
            _ => error.into(),
        }
    }

    fn wrong(&self, what: &str) -> TraceError {
        TraceError::Format { format: "dnstap", at: self.at, what: what.into() }
    }
}

/// A field of a protobuf message.
enum Value<'v> {
    Number(u64),
    Octets(&'v [u8]),
}

/// The fields of a protobuf message, by their numbers; what contradicts itself ends them.
struct Fields<'f>(&'f [u8]);

impl<'f> Iterator for Fields<'f> {
    type Item = (u64, Value<'f>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let octets = usize::try_from(self.varint()?).ok()?;
                Value::Octets(self.take(octets)?)
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((tag >> 3, value))
    }
}

impl<'f> Fields<'f> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let (&octet, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(octet & 0x7F) << (7 * place);
            if octet < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, octets: usize) -> Option<&'f [u8]> {
        let (taken, rest) = self.0.split_at_checked(octets)?;
        self.0 = rest;
        Some(taken)
    }
}

/// What an entry says of one side.
#[derive(Default)]
struct Side<'s> {
    address: Option<IpAddr>,
    port: u16,
    at_s: u64,
    at_ns: u64,
    octets: Option<&'s [u8]>,
}

/// The message of an entry (`Dnstap` with a `Message` in it).
fn entry(frame: &[u8]) -> Result<Message<'_>, Unread> {
    let message = Fields(frame).find_map(|(field, value)| match (field, value) {
        (14, Value::Octets(message)) => Some(message),
        _ => None,
    });
    let (mut kind, mut protocol) = (0, 1);
    let (mut query, mut response) = (Side::default(), Side::default());
    for (field, value) in Fields(message.ok_or(Unread::OtherRecord)?) {
        match (field, value) {
            (1, Value::Number(value)) => kind = value,
            (3, Value::Number(value)) => protocol = value,
            (4, Value::Octets(value)) => query.address = address(value),
            (5, Value::Octets(value)) => response.address = address(value),
            (6, Value::Number(value)) => query.port = value as u16,
            (7, Value::Number(value)) => response.port = value as u16,
            (8, Value::Number(value)) => query.at_s = value,
            (9, Value::Number(value)) => query.at_ns = value,
            (10, Value::Octets(value)) => query.octets = Some(value),
            (12, Value::Number(value)) => response.at_s = value,
            (13, Value::Number(value)) => response.at_ns = value,
            (14, Value::Octets(value)) => response.octets = Some(value),
            _ => {}
        }
    }
    let transport = match protocol {
        1 | 5 => Transport::Udp,
        2 | 6 => Transport::Tcp,
        3 => Transport::Dot,
        4 => Transport::Doh,
        7 => Transport::Doq,
        _ => return Err(Unread::OtherProtocol),
    };
    let place = |side: &Side<'_>| SocketAddr::new(side.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), side.port);
    // Of each pair of kinds the first is the query, the second the response (dnstap.proto).
    let (side, source, destination) = match kind % 2 {
        1 => (&query, place(&query), place(&response)),
        _ => (&response, place(&response), place(&query)),
    };
    let octets = side.octets.ok_or(Unread::NoMessage)?;
    if !has_header(octets) {
        return Err(Unread::TooShort);
    }
    let at_ns = side.at_s.saturating_mul(1_000_000_000).saturating_add(side.at_ns);
    Ok(Message { at_ns, source, destination, transport, octets })
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}
