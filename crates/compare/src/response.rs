//! Parses a response into a form that can be compared.
//!
//! It has its own parser, independent of the server under test.

use crate::limits::{NAME_BYTES_MAX, POINTER_COUNT_MAX};
use std::collections::BTreeSet;
use std::fmt;
use wire::name::NameRef;
use wire::number::{Class, Rcode, Rtype};

/// One RR, with names in lower case and uncompressed rdata.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rr {
    /// Owner in wire form, lower case.
    pub owner: Vec<u8>,
    /// Type.
    pub rtype: Rtype,
    /// Class.
    pub class: Class,
    /// Time to live, seconds.
    pub ttl: u32,
    /// Uncompressed rdata, names in it in lower case.
    pub rdata: Vec<u8>,
}

impl Rr {
    /// Its type, or the covered type of a signature.
    #[must_use]
    pub fn type_covered(&self) -> Rtype {
        match (self.rtype, self.rdata.first_chunk()) {
            (Rtype::RRSIG, Some(covered)) => Rtype(u16::from_be_bytes(*covered)),
            (rtype, _) => rtype,
        }
    }
}

impl fmt::Debug for Rr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = NameRef::from_bytes(&self.owner).map_err(|_| fmt::Error)?;
        write!(f, "{owner} {} {:?} {:?} ", self.ttl, self.class, self.rtype)?;
        self.rdata.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A section as a set: order carries no meaning (RFC 2181 5).
pub type Section = BTreeSet<Rr>;

/// A response in comparable form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    /// The RCODE with the upper bits of the OPT record.
    pub rcode: Rcode,
    /// AA, TC, RD, RA, AD, CD in this order.
    pub flags: [bool; 6],
    /// The question as sent back, in lower case.
    pub question: Vec<u8>,
    /// Answer.
    pub answer: Section,
    /// Authority.
    pub authority: Section,
    /// Additional, without OPT and TSIG.
    pub additional: Section,
    /// The DO bit of the OPT record, or `None` without one.
    pub edns: Option<bool>,
    /// RRs that occur twice in a section. RRsets have no duplicates (RFC 2181 5).
    pub duplicate_count: usize,
}

/// The reaction of a server to a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reaction {
    /// A response.
    Response(Box<Response>),
    /// Silence, or a closed connection.
    Silence,
    /// A reply that is not a DNS message.
    Garbage(Vec<u8>),
}

impl Reaction {
    /// Parses a reply.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        Response::parse(bytes)
            .map_or_else(|| Self::Garbage(bytes.to_vec()), |response| Self::Response(Box::new(response)))
    }

    /// The response, if it is one.
    #[must_use]
    pub fn response(&self) -> Option<&Response> {
        match self {
            Self::Response(response) => Some(response),
            Self::Silence | Self::Garbage(_) => None,
        }
    }
}

/// A reply and its size. Sizes are not compared, because servers compress names differently.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The reply.
    pub reaction: Reaction,
    /// Size of the message in bytes.
    pub byte_count: usize,
}

impl Reply {
    /// No reply.
    pub const SILENCE: Self = Self { reaction: Reaction::Silence, byte_count: 0 };
}

/// The index of each flag in [`Response::flags`].
pub mod flag {
    /// Authoritative answer.
    pub const AA: usize = 0;
    /// Truncated.
    pub const TC: usize = 1;
    /// Recursion available.
    pub const RA: usize = 3;
    /// Authentic data.
    pub const AD: usize = 4;
    /// Checking disabled.
    pub const CD: usize = 5;
}

impl Response {
    /// Parses a message. `None` if it is malformed.
    #[must_use]
    pub fn parse(message: &[u8]) -> Option<Self> {
        let header = message.get(..12)?;
        let bit = |byte: usize, bit: u8| header[byte] & bit != 0;
        let flags = [bit(2, 4), bit(2, 2), bit(2, 1), bit(3, 0x80), bit(3, 0x20), bit(3, 0x10)];
        let count = |at: usize| usize::from(u16::from_be_bytes([header[at], header[at + 1]]));
        let mut at = 12;
        let mut question = Vec::new();
        for _ in 0..count(4) {
            name(message, &mut at, &mut question)?;
            question.extend_from_slice(message.get(at..at + 4)?);
            at += 4;
        }
        let mut response = Self {
            rcode: Rcode(u16::from(header[3] & 0x0F)),
            flags,
            question,
            answer: Section::new(),
            authority: Section::new(),
            additional: Section::new(),
            edns: None,
            duplicate_count: 0,
        };
        for (section, at_count) in [(0, 6), (1, 8), (2, 10)] {
            for _ in 0..count(at_count) {
                let rr = record(message, &mut at)?;
                match (rr.rtype, section) {
                    (Rtype::OPT, _) => {
                        response.rcode.0 |= (rr.ttl >> 24) as u16 * 16;
                        response.edns = Some(rr.ttl & 0x8000 != 0);
                    }
                    (Rtype::TSIG, _) => {}
                    _ => {
                        let is_new = match section {
                            0 => &mut response.answer,
                            1 => &mut response.authority,
                            _ => &mut response.additional,
                        }
                        .insert(rr);
                        response.duplicate_count += usize::from(!is_new);
                    }
                }
            }
        }
        if response.flags[flag::TC] {
            // The contents of a truncated response do not count (RFC 2181 9): servers leave different parts.
            response.answer.clear();
            response.authority.clear();
            response.additional.clear();
            response.duplicate_count = 0;
        }
        (at == message.len()).then_some(response)
    }

    /// The QTYPE of the question that was sent back.
    #[must_use]
    pub fn qtype(&self) -> Option<Rtype> {
        let at = self.question.len().checked_sub(4)?;
        Some(Rtype(u16::from_be_bytes([self.question[at], self.question[at + 1]])))
    }
}

fn u16_at(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]))
}

/// Reads a possibly compressed name into `out`, in lower case.
fn name(message: &[u8], at: &mut usize, out: &mut Vec<u8>) -> Option<()> {
    let (start, mut next, mut end) = (out.len(), *at, None);
    for _ in 0..POINTER_COUNT_MAX {
        let length = *message.get(next)?;
        match length {
            0 => {
                out.push(0);
                *at = end.unwrap_or(next + 1);
                return Some(());
            }
            1..=63 => {
                let label = message.get(next..=next + usize::from(length))?;
                out.extend(label.iter().map(u8::to_ascii_lowercase));
                next += 1 + usize::from(length);
            }
            0xC0.. => {
                end = end.or(Some(next + 2));
                next = usize::from(u16_at(message, next)? & 0x3FFF);
            }
            _ => return None,
        }
        if out.len() - start > NAME_BYTES_MAX {
            return None;
        }
    }
    None
}

fn record(message: &[u8], at: &mut usize) -> Option<Rr> {
    let mut owner = Vec::new();
    name(message, at, &mut owner)?;
    let rtype = Rtype(u16_at(message, *at)?);
    let class = Class(u16_at(message, *at + 2)?);
    let ttl = u32::from_be_bytes(message.get(*at + 4..*at + 8)?.try_into().ok()?);
    let start = *at + 10;
    let end = start + usize::from(u16_at(message, *at + 8)?);
    message.get(start..end)?;
    *at = end;
    Some(Rr { owner, rtype, class, ttl, rdata: rdata(&message[..end], start, rtype)? })
}

/// For types with case-folded names (RFC 4034 6.2): the bytes of rdata before the names, and the number of names.
const fn names_in(rtype: Rtype) -> (usize, usize) {
    match rtype {
        Rtype::NS
        | Rtype::CNAME
        | Rtype::PTR
        | Rtype::DNAME
        | Rtype::MB
        | Rtype::MG
        | Rtype::MR
        | Rtype::MD
        | Rtype::MF => (0, 1),
        Rtype::SOA | Rtype::MINFO | Rtype::RP => (0, 2),
        Rtype::MX | Rtype::AFSDB | Rtype::RT | Rtype::KX => (2, 1),
        Rtype::PX => (2, 2),
        Rtype::SRV => (6, 1),
        Rtype::RRSIG | Rtype::SIG => (18, 1),
        Rtype::NSEC | Rtype::NXT => (0, 1),
        _ => (0, 0),
    }
}

/// The end of `count` character strings (RFC 1035 3.3) that begin at `at`.
fn strings_end(message: &[u8], at: usize, count: usize) -> Option<usize> {
    (0..count).try_fold(at, |at, _| Some(at + 1 + usize::from(*message.get(at)?)))
}

fn rdata(message: &[u8], start: usize, rtype: Rtype) -> Option<Vec<u8>> {
    let (before, names) = match rtype {
        Rtype::NAPTR => (strings_end(message, start + 4, 3)? - start, 1),
        _ => names_in(rtype),
    };
    let mut at = start;
    let mut out = Vec::new();
    if names > 0 && at < message.len() {
        out.extend_from_slice(message.get(at..at + before)?);
        at += before;
        for _ in 0..names {
            name(message, &mut at, &mut out)?;
        }
    }
    out.extend_from_slice(message.get(at..)?);
    Some(out)
}
