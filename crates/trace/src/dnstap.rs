//! dnstap: messages that a server logged itself, as protobuf in Frame Streams.
//!
//! The entry of a response may repeat the query. The query is read only from its own entry.

use crate::error::TraceError;
use crate::limits::{FRAME_BYTES_AHEAD_MAX, FRAME_BYTES_MAX, FRAMES_AHEAD_MAX};
use crate::message::{Message, Transport, has_header};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
/// Control frames.
const START: u32 = 2;
const STOP: u32 = 3;
const FIELD_CONTENT_TYPE: u32 = 1;

/// The two parties of a dnstap message. A resolver logs the same question once for its client and once for each server
/// that it queries. Each side has queries and responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DnstapSide {
    /// A resolver and its clients.
    Client,
    /// An authoritative server and its clients.
    Auth,
    /// A server and the clients that send it dynamic updates.
    Update,
    /// A forwarder and the resolver that it queries.
    Forwarder,
    /// A resolver and the servers that it queries.
    Resolver,
    /// A stub resolver and the resolver that it queries.
    Stub,
    /// A tool such as dig.
    Tool,
}

impl DnstapSide {
    /// All sides. If none is selected, the first side in this list that the log has is read.
    pub const ALL: [Self; 7] =
        [Self::Client, Self::Auth, Self::Update, Self::Forwarder, Self::Resolver, Self::Stub, Self::Tool];

    /// Name on the command line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Auth => "auth",
            Self::Update => "update",
            Self::Forwarder => "forwarder",
            Self::Resolver => "resolver",
            Self::Stub => "stub",
            Self::Tool => "tool",
        }
    }

    /// Side of a message type (dnstap.proto). In each pair the first type is the query.
    const fn of(kind: u64) -> Option<Self> {
        Some(match kind {
            1 | 2 => Self::Auth,
            3 | 4 => Self::Resolver,
            5 | 6 => Self::Client,
            7 | 8 => Self::Forwarder,
            9 | 10 => Self::Stub,
            11 | 12 => Self::Tool,
            13 | 14 => Self::Update,
            _ => return None,
        })
    }

    const fn not_selected(self) -> UnreadReason {
        match self {
            Self::Client => UnreadReason::DnstapClient,
            Self::Auth => UnreadReason::DnstapAuth,
            Self::Update => UnreadReason::DnstapUpdate,
            Self::Forwarder => UnreadReason::DnstapForwarder,
            Self::Resolver => UnreadReason::DnstapResolver,
            Self::Stub => UnreadReason::DnstapStub,
            Self::Tool => UnreadReason::DnstapTool,
        }
    }
}

/// Reads a file of Frame Streams.
pub(crate) struct DnstapReader {
    bytes: Box<dyn BufRead + Send>,
    frame: Vec<u8>,
    at: u64,
    is_ended: bool,
    /// Sides that are read. Empty until the first frames decide.
    sides: Vec<DnstapSide>,
    /// Frames that were read ahead to choose the sides.
    ahead: VecDeque<Vec<u8>>,
    /// Error that stopped the read-ahead.
    ahead_ended: Option<TraceError>,
}

/// Whether a file starts like Frame Streams: with the control frame START.
pub(crate) fn is_dnstap(first: &[u8]) -> bool {
    first.len() >= 12 && first[..4] == [0; 4] && first[8..12] == START.to_be_bytes()
}

impl DnstapReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>, sides: &[DnstapSide]) -> Self {
        let (sides, ahead) = (sides.to_vec(), VecDeque::new());
        Self { bytes, frame: Vec::new(), at: 0, is_ended: false, sides, ahead, ahead_ended: None }
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        if self.sides.is_empty() {
            self.choose();
        }
        let frame = match (self.ahead.pop_front(), self.ahead_ended.take()) {
            (Some(frame), ended) => {
                self.ahead_ended = ended;
                frame
            }
            (None, Some(error)) => return Err(error),
            (None, None) => match self.next()? {
                Some(frame) => frame,
                None => return Ok(false),
            },
        };
        tally.records += 1;
        match entry(&frame) {
            Ok((side, message)) if self.sides.contains(&side) => {
                queue.push(message);
                tally.messages += 1;
            }
            Ok((side, _)) => tally.count(side.not_selected()),
            Err(unread) => tally.count(unread),
        }
        // The next frame reuses this buffer.
        self.frame = frame;
        Ok(true)
    }

    /// Chooses the side to read from the first frames of the log.
    fn choose(&mut self) {
        let (mut bytes, mut is_there) = (0, [false; DnstapSide::ALL.len()]);
        while self.ahead.len() < FRAMES_AHEAD_MAX && bytes < FRAME_BYTES_AHEAD_MAX {
            let frame = match self.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    self.ahead_ended = Some(error);
                    break;
                }
            };
            if let Ok((side, _)) = entry(&frame) {
                is_there[side as usize] = true;
            }
            bytes += frame.len();
            self.ahead.push_back(frame);
            if is_there[DnstapSide::ALL[0] as usize] {
                break;
            }
        }
        let first = DnstapSide::ALL.into_iter().find(|side| is_there[*side as usize]);
        // If no frame has a known side, all sides are read.
        self.sides = first.map_or_else(|| DnstapSide::ALL.to_vec(), |side| vec![side]);
    }

    /// The next frame with data.
    fn next(&mut self) -> Result<Option<Vec<u8>>, TraceError> {
        while !self.is_ended {
            // A writer that was killed sends no STOP frame.
            let Some(bytes) = self.read_u32()? else { return Ok(None) };
            if bytes > 0 {
                self.fill(bytes)?;
                return Ok(Some(std::mem::take(&mut self.frame)));
            }
            let bytes = self.read_u32()?.ok_or_else(|| self.format_error("the file ends within a control frame"))?;
            self.fill(bytes)?;
            self.control()?;
        }
        Ok(None)
    }

    fn control(&mut self) -> Result<(), TraceError> {
        let (kind, mut fields) =
            self.frame.split_first_chunk::<4>().ok_or_else(|| self.format_error("an empty control frame"))?;
        match u32::from_be_bytes(*kind) {
            START => {
                while let Some((head, rest)) = fields.split_first_chunk::<8>() {
                    let [field, bytes] = [&head[..4], &head[4..]]
                        .map(|bytes| bytes.try_into().map(u32::from_be_bytes).unwrap_or_default());
                    let value = rest
                        .get(..bytes as usize)
                        .ok_or_else(|| self.format_error("a field that ends beyond its frame"))?;
                    if field == FIELD_CONTENT_TYPE && value != CONTENT_TYPE {
                        return Err(self.format_error("Frame Streams with other contents than dnstap"));
                    }
                    fields = &rest[bytes as usize..];
                }
            }
            STOP => self.is_ended = true,
            _ => {}
        }
        Ok(())
    }

    /// Reads four bytes. `None` at the end of the file.
    fn read_u32(&mut self) -> Result<Option<u32>, TraceError> {
        if self.bytes.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut bytes = [0; 4];
        self.bytes.read_exact(&mut bytes).map_err(|error| self.read_error(error))?;
        self.at += 4;
        Ok(Some(u32::from_be_bytes(bytes)))
    }

    fn fill(&mut self, bytes: u32) -> Result<(), TraceError> {
        let bytes = bytes as usize;
        if bytes > FRAME_BYTES_MAX {
            return Err(self.format_error("a frame larger than 256 KiB"));
        }
        self.frame.resize(bytes, 0);
        self.bytes.read_exact(&mut self.frame).map_err(|error| self.read_error(error))?;
        self.at += bytes as u64;
        Ok(())
    }

    fn read_error(&self, error: io::Error) -> TraceError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.format_error("the file ends within a frame"),
            _ => error.into(),
        }
    }

    fn format_error(&self, what: &str) -> TraceError {
        TraceError::Format { format: "dnstap", at: self.at, what: what.into() }
    }
}

/// A field of a protobuf message.
enum Value<'v> {
    Number(u64),
    Bytes(&'v [u8]),
}

/// The fields of a protobuf message with their numbers. Ends at malformed data.
struct Fields<'f>(&'f [u8]);

impl<'f> Iterator for Fields<'f> {
    type Item = (u64, Value<'f>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let bytes = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(bytes)?)
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
        for position in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7F) << (7 * position);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, bytes: usize) -> Option<&'f [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }
}

/// What an entry says about one endpoint.
#[derive(Default)]
struct Side<'s> {
    address: Option<IpAddr>,
    port: u16,
    at_s: u64,
    at_ns: u64,
    bytes: Option<&'s [u8]>,
}

/// The message of an entry (`Dnstap` with a `Message` in it).
fn entry(frame: &[u8]) -> Result<(DnstapSide, Message<'_>), UnreadReason> {
    let message = Fields(frame).find_map(|(field, value)| match (field, value) {
        (14, Value::Bytes(message)) => Some(message),
        _ => None,
    });
    let (mut kind, mut protocol) = (0, 1);
    let (mut query, mut response) = (Side::default(), Side::default());
    for (field, value) in Fields(message.ok_or(UnreadReason::OtherRecord)?) {
        match (field, value) {
            (1, Value::Number(value)) => kind = value,
            (3, Value::Number(value)) => protocol = value,
            (4, Value::Bytes(value)) => query.address = address(value),
            (5, Value::Bytes(value)) => response.address = address(value),
            (6, Value::Number(value)) => query.port = value as u16,
            (7, Value::Number(value)) => response.port = value as u16,
            (8, Value::Number(value)) => query.at_s = value,
            (9, Value::Number(value)) => query.at_ns = value,
            (10, Value::Bytes(value)) => query.bytes = Some(value),
            (12, Value::Number(value)) => response.at_s = value,
            (13, Value::Number(value)) => response.at_ns = value,
            (14, Value::Bytes(value)) => response.bytes = Some(value),
            _ => {}
        }
    }
    let transport = match protocol {
        1 | 5 => Transport::Udp,
        2 | 6 => Transport::Tcp,
        3 => Transport::Dot,
        4 => Transport::Doh,
        7 => Transport::Doq,
        _ => return Err(UnreadReason::OtherProtocol),
    };
    let direction = DnstapSide::of(kind).ok_or(UnreadReason::OtherRecord)?;
    let socket_address =
        |side: &Side<'_>| SocketAddr::new(side.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), side.port);
    // The first type of each pair is the query, the second the response (dnstap.proto).
    let (side, source, destination) = match kind % 2 {
        1 => (&query, socket_address(&query), socket_address(&response)),
        _ => (&response, socket_address(&response), socket_address(&query)),
    };
    let bytes = side.bytes.ok_or(UnreadReason::NoMessage)?;
    if !has_header(bytes) {
        return Err(UnreadReason::TooShort);
    }
    let at_ns = side.at_s.saturating_mul(1_000_000_000).saturating_add(side.at_ns);
    Ok((direction, Message { at_ns, source, destination, transport, bytes }))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
