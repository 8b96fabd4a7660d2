//! Replay scenarios of Deckard and of Unbound's testbound: responses of servers as text, without times.
//!
//! Each entry of a range is a response from each address of the range. Queries of a scenario and expected responses of
//! the resolver count as other records.

use crate::error::TraceError;
use crate::limits::{RPL_ADDRESSES_MAX, RPL_ENTRY_BYTES_MAX};
use crate::lines::Lines;
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::mnemonics;
use crate::tally::{Tally, UnreadReason};
use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode};
use wire::parse::{Header, Section};
use zone::file::{LoadOptions, Slice, load};

const FORMAT: &str = "rpl";
/// Payload size of entries with DO, which do not name one.
const PAYLOAD: u16 = 4_096;

/// Reads a scenario.
pub(crate) struct RplReader {
    lines: Lines,
    /// Addresses of the current range. `None` outside of ranges.
    addresses: Option<Vec<IpAddr>>,
    entry: Option<Entry>,
}

/// An incomplete entry.
#[derive(Default)]
struct Entry {
    header: Header,
    dnssec_ok: bool,
    part: EntryPart,
    question: Option<String>,
    /// Lines of each section.
    records: [String; 3],
    bytes: usize,
    /// The entry contains something that is not part of a response.
    is_other: bool,
}

/// The section of the next line.
#[derive(Clone, Copy, Default)]
enum EntryPart {
    #[default]
    Head,
    Question,
    Records(usize),
}

impl RplReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self { lines: Lines::new(bytes), addresses: None, entry: None }
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        let Self { lines, addresses, entry } = self;
        let at = lines.number + 1;
        let Some(line) = lines.next(FORMAT)? else { return Ok(false) };
        let line = String::from_utf8_lossy(line.trim_ascii_start()).into_owned();
        let mut fields = line.split_ascii_whitespace();
        let Some(first) = fields.next().filter(|field| !field.starts_with([';', '#'])) else { return Ok(true) };
        let format_error = |what: &str| TraceError::Format { format: FORMAT, at, what: what.into() };
        match first {
            "RANGE_BEGIN" => *addresses = Some(Vec::new()),
            "RANGE_END" => *addresses = None,
            "ADDRESS" => {
                let known = addresses.as_mut().ok_or_else(|| format_error("an address outside of a range"))?;
                let address =
                    fields.next().and_then(|field| field.parse().ok()).ok_or_else(|| format_error("no address"))?;
                if known.len() == RPL_ADDRESSES_MAX {
                    return Err(format_error("more than 1024 addresses in a range"));
                }
                known.push(address);
            }
            "ENTRY_BEGIN" => *entry = Some(Entry::default()),
            "ENTRY_END" => {
                if let Some(entry) = entry.take() {
                    tally.records += 1;
                    match addresses.as_deref().filter(|_| !entry.is_other).ok_or(UnreadReason::OtherRecord) {
                        Ok(addresses) => push(&entry, addresses, queue, tally),
                        Err(unread) => tally.count(unread),
                    }
                }
            }
            _ => {
                if let Some(entry) = entry {
                    entry.take(first, fields, &line);
                    if entry.bytes > RPL_ENTRY_BYTES_MAX {
                        return Err(format_error("an entry longer than 256 KiB"));
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Entry {
    /// Adds a line.
    fn take<'l>(&mut self, first: &str, fields: impl Iterator<Item = &'l str>, line: &str) {
        self.bytes += line.len();
        match (first, self.part) {
            ("MATCH" | "ADJUST", EntryPart::Head) => {}
            ("REPLY", EntryPart::Head) => fields.for_each(|field| self.flag(field)),
            ("SECTION", _) => {
                let mut fields = fields;
                self.part = match fields.next() {
                    Some("QUESTION") => EntryPart::Question,
                    Some("ANSWER") => EntryPart::Records(0),
                    Some("AUTHORITY") => EntryPart::Records(1),
                    Some("ADDITIONAL") => EntryPart::Records(2),
                    _ => {
                        self.is_other = true;
                        EntryPart::Head
                    }
                };
            }
            (_, EntryPart::Question) => self.question = Some(line.to_owned()),
            (_, EntryPart::Records(section)) => self.records[section] += &(line.to_owned() + "\n"),
            // Raw bytes, and unknown words.
            _ => self.is_other = true,
        }
    }

    fn flag(&mut self, field: &str) {
        let header = &mut self.header;
        match field {
            "QR" => header.qr = true,
            "AA" => header.aa = true,
            "TC" => header.tc = true,
            "RD" => header.rd = true,
            "RA" => header.ra = true,
            "AD" => header.ad = true,
            "CD" => header.cd = true,
            "DO" => self.dnssec_ok = true,
            _ => match (mnemonics::rcode(field).filter(|rcode| rcode.0 < 16), mnemonics::opcode(field)) {
                (Some(rcode), _) => header.rcode = rcode.0 as u8,
                (None, Some(opcode)) => header.opcode = opcode,
                (None, None) => self.is_other = true,
            },
        }
    }

    /// Composes the message.
    fn compose(&self) -> Result<Vec<u8>, UnreadReason> {
        let question = self.question.as_deref().ok_or(UnreadReason::LineMalformed)?;
        let mut fields = question.split_ascii_whitespace().take_while(|field| !field.starts_with(';'));
        let qname: Name =
            fields.next().ok_or(UnreadReason::LineMalformed)?.parse().map_err(|_| UnreadReason::NotSendable)?;
        let rest: Vec<&str> = fields.collect();
        let (qclass, qtype) = match rest[..] {
            [qclass, qtype] => (mnemonics::class(qclass).ok_or(UnreadReason::NotSendable)?, qtype),
            [qtype] => (Class::IN, qtype),
            _ => return Err(UnreadReason::LineMalformed),
        };
        let qtype = mnemonics::rtype(qtype).ok_or(UnreadReason::NotSendable)?;
        let mut message = MessageBuilder::new(self.header).question(qname.as_ref(), qtype, qclass);
        let options = LoadOptions { ttl: Some(3_600), ..LoadOptions::default() };
        for (section, text) in Section::ALL.into_iter().zip(&self.records) {
            let mut text = Slice::new(text.clone().into_bytes());
            let loaded = load(&mut text, Some(&Name::root()), &options).map_err(|_| UnreadReason::LineMalformed)?;
            for record in loaded.records.iter() {
                let (class, ttl) = (Class::IN, record.ttl);
                message = message.record(section, record.owner, record.rtype, class, ttl, record.rdata);
            }
        }
        if self.dnssec_ok {
            message = message.edns(PAYLOAD, true);
        }
        if message.is_sendable() { Ok(message.build()) } else { Err(UnreadReason::NotSendable) }
    }
}

/// Adds the response of an entry, once for each address.
fn push(entry: &Entry, addresses: &[IpAddr], queue: &mut MessageQueue, tally: &mut Tally) {
    if !entry.header.qr || entry.header.opcode != Opcode::QUERY {
        return tally.count(UnreadReason::OtherRecord);
    }
    let bytes = match entry.compose() {
        Ok(bytes) => bytes,
        Err(unread) => return tally.count(unread),
    };
    if addresses.is_empty() {
        return tally.count(UnreadReason::NoMessage);
    }
    for address in addresses {
        let source = SocketAddr::new(*address, 53);
        let unspecified =
            if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
        let destination = SocketAddr::new(unspecified, 0);
        queue.push(Message { at_ns: 0, source, destination, transport: Transport::Udp, bytes: &bytes });
        tally.messages += 1;
    }
    tally.further_messages += addresses.len() as u64 - 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> (Vec<(SocketAddr, Vec<u8>)>, Tally) {
        let mut reader = RplReader::new(Box::new(text.as_bytes()));
        let (mut queue, mut tally, mut messages) = (MessageQueue::default(), Tally::default(), Vec::new());
        while reader.advance(&mut queue, &mut tally).unwrap() {
            while let Some(message) = queue.pop() {
                messages.push((message.source, message.bytes.to_vec()));
            }
        }
        (messages, tally)
    }

    #[test]
    fn an_entry_is_a_response_from_each_address_of_its_range() {
        let (messages, tally) = read(
            "SCENARIO_BEGIN two\nRANGE_BEGIN 0 100\n\tADDRESS 192.0.2.1\n\tADDRESS 2001:db8::1\nENTRY_BEGIN\n\
             MATCH opcode qtype qname\nADJUST copy_id\nREPLY QR AA DO NOERROR\nSECTION QUESTION\nwww.example. IN A\n\
             SECTION ANSWER\nwww.example. 60 IN A 192.0.2.7\nwww.example. IN 60 A 192.0.2.8 ; two\nENTRY_END\n\
             RANGE_END\nSTEP 1 QUERY\nENTRY_BEGIN\nREPLY RD\nSECTION QUESTION\nwww.example. IN A\nENTRY_END\n",
        );
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[1].0, "[2001:db8::1]:53".parse().unwrap());
        let message = wire::parse::Message::parse(&messages[0].1).unwrap();
        assert!(message.header().aa && message.edns().is_some_and(|edns| edns.dnssec_ok));
        assert_eq!(message.records(Section::Answer).count(), 2);
        assert_eq!((tally.records, tally.messages, tally.further_messages), (2, 2, 1));
        assert_eq!(tally.unread(UnreadReason::OtherRecord), 1);
    }

    #[test]
    fn entries_without_a_response_are_counted() {
        let (messages, tally) = read(
            "RANGE_BEGIN 0 1\nADDRESS ::1\nENTRY_BEGIN\nREPLY QR\nSECTION QUESTION\na. IN A\nSECTION ANSWER\n\
             a. 1 IN A 1.2.3\nENTRY_END\nENTRY_BEGIN\nREPLY QR\nRAW\n00\nENTRY_END\n",
        );
        assert!(messages.is_empty());
        assert_eq!((tally.unread(UnreadReason::LineMalformed), tally.unread(UnreadReason::OtherRecord)), (1, 1));
    }
}
