//! Parses recorded messages that are plain queries.

use crate::recorded::Recorded;
use trace::Transport;
use wire::number::{Class, Opcode, Rtype};
use wire::parse::Message;

/// A well-formed QUERY with one question.
#[derive(Clone, Debug)]
pub struct Query {
    /// The transport.
    pub transport: Transport,
    /// QNAME in wire form, lower case.
    pub qname: Vec<u8>,
    /// QTYPE.
    pub qtype: Rtype,
    /// QCLASS.
    pub qclass: Class,
    /// The CD flag (RFC 4035 3.2.2).
    pub checking_disabled: bool,
    /// The DO flag (RFC 3225 3).
    pub dnssec_ok: bool,
    /// The maximum size of the response that the client accepts (RFC 1035 4.2.1, RFC 6891 6.2.3).
    pub bytes_max: usize,
}

impl Query {
    /// Parses a message. `None` if it is not a plain query.
    #[must_use]
    pub fn parse(recorded: &Recorded) -> Option<Self> {
        let message = Message::parse(&recorded.bytes).ok()?;
        let header = message.header();
        if header.opcode != Opcode::QUERY || header.qr || header.counts[0] != 1 {
            return None;
        }
        let question = message.question()?;
        let edns = message.edns();
        let bytes_max = match recorded.transport {
            Transport::Udp => edns.map_or(512, |edns| edns.payload_bytes()).max(512),
            _ => usize::from(u16::MAX),
        };
        Some(Self {
            transport: recorded.transport,
            qname: question.qname.as_ref().as_bytes().to_ascii_lowercase(),
            qtype: question.qtype,
            qclass: question.qclass,
            checking_disabled: recorded.bytes[3] & 0x10 != 0,
            dnssec_ok: edns.is_some_and(|edns| edns.dnssec_ok),
            bytes_max,
        })
    }
}
