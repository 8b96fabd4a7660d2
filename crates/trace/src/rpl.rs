//! Replay scenarios, as Deckard and Unbound's testbound have them: what servers answer, as text.
//!
//! Each entry of a range is a response, from each address of the range. What a scenario asks, and what it expects of
//! the resolver, are no messages of these servers and count as other records. There is no time in it.

use crate::error::TraceError;
use crate::limits::{RPL_ADDRESSES_MAX, RPL_ENTRY_BYTES_MAX};
use crate::lines::Lines;
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::mnemonics;
use crate::tally::{Tally, Unread};
use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode};
use wire::parse::{Header, Section};
use zone::file::{LoadOptions, Slice, load};

const FORMAT: &str = "rpl";
/// The payload size of an entry with DO, which says none.
const PAYLOAD: u16 = 4_096;

/// Reads one.
pub(crate) struct RplReader {
    lines: Lines,
    /// Who answers in this range; `None` outside of ranges.
    addresses: Option<Vec<IpAddr>>,
    entry: Option<Entry>,
}

/// An entry that has not ended yet.
#[derive(Default)]
struct Entry {
    header: Header,
    dnssec_ok: bool,
    place: Place,
    question: Option<String>,
    /// The lines of each section.
    records: [String; 3],
    bytes: usize,
    /// Something in it is no part of a response.
    is_other: bool,
}

/// Which section the next line belongs to.
#[derive(Clone, Copy, Default)]
enum Place {
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
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next().filter(|word| !word.starts_with([';', '#'])) else { return Ok(true) };
        let wrong = |what: &str| TraceError::Format { format: FORMAT, at, what: what.into() };
        match first {
            "RANGE_BEGIN" => *addresses = Some(Vec::new()),
            "RANGE_END" => *addresses = None,
            "ADDRESS" => {
                let known = addresses.as_mut().ok_or_else(|| wrong("an address outside of a range"))?;
                let address = words.next().and_then(|word| word.parse().ok()).ok_or_else(|| wrong("no address"))?;
                if known.len() == RPL_ADDRESSES_MAX {
                    return Err(wrong("more than 1024 addresses in a range"));
                }
                known.push(address);
            }
            "ENTRY_BEGIN" => *entry = Some(Entry::default()),
            "ENTRY_END" => {
                if let Some(entry) = entry.take() {
                    tally.records += 1;
                    match addresses.as_deref().filter(|_| !entry.is_other).ok_or(Unread::OtherRecord) {
                        Ok(addresses) => push(&entry, addresses, queue, tally),
                        Err(unread) => tally.count(unread),
                    }
                }
            }
            _ => {
                if let Some(entry) = entry {
                    entry.take(first, words, &line);
                    if entry.bytes > RPL_ENTRY_BYTES_MAX {
                        return Err(wrong("an entry longer than 256 KiB"));
                    }
                }
            }
        }
        Ok(true)
    }
}

impl Entry {
    /// Takes a line.
    fn take<'l>(&mut self, first: &str, words: impl Iterator<Item = &'l str>, line: &str) {
        self.bytes += line.len();
        match (first, self.place) {
            ("MATCH" | "ADJUST", Place::Head) => {}
            ("REPLY", Place::Head) => words.for_each(|word| self.flag(word)),
            ("SECTION", _) => {
                let mut words = words;
                self.place = match words.next() {
                    Some("QUESTION") => Place::Question,
                    Some("ANSWER") => Place::Records(0),
                    Some("AUTHORITY") => Place::Records(1),
                    Some("ADDITIONAL") => Place::Records(2),
                    _ => {
                        self.is_other = true;
                        Place::Head
                    }
                };
            }
            (_, Place::Question) => self.question = Some(line.to_owned()),
            (_, Place::Records(section)) => self.records[section] += &(line.to_owned() + "\n"),
            // Raw bytes, and whatever else.
            _ => self.is_other = true,
        }
    }

    fn flag(&mut self, word: &str) {
        let header = &mut self.header;
        match word {
            "QR" => header.qr = true,
            "AA" => header.aa = true,
            "TC" => header.tc = true,
            "RD" => header.rd = true,
            "RA" => header.ra = true,
            "AD" => header.ad = true,
            "CD" => header.cd = true,
            "DO" => self.dnssec_ok = true,
            _ => match (mnemonics::rcode(word).filter(|rcode| rcode.0 < 16), mnemonics::opcode(word)) {
                (Some(rcode), _) => header.rcode = rcode.0 as u8,
                (None, Some(opcode)) => header.opcode = opcode,
                (None, None) => self.is_other = true,
            },
        }
    }

    /// The message that it says.
    fn compose(&self) -> Result<Vec<u8>, Unread> {
        let question = self.question.as_deref().ok_or(Unread::LineMalformed)?;
        let mut words = question.split_ascii_whitespace().take_while(|word| !word.starts_with(';'));
        let qname: Name = words.next().ok_or(Unread::LineMalformed)?.parse().map_err(|_| Unread::NotSendable)?;
        let rest: Vec<&str> = words.collect();
        let (qclass, qtype) = match rest[..] {
            [qclass, qtype] => (mnemonics::class(qclass).ok_or(Unread::NotSendable)?, qtype),
            [qtype] => (Class::IN, qtype),
            _ => return Err(Unread::LineMalformed),
        };
        let qtype = mnemonics::rtype(qtype).ok_or(Unread::NotSendable)?;
        let mut message = MessageBuilder::new(self.header).question(qname.as_ref(), qtype, qclass);
        let options = LoadOptions { ttl: Some(3_600), ..LoadOptions::default() };
        for (section, text) in Section::ALL.into_iter().zip(&self.records) {
            let mut text = Slice::new(text.clone().into_bytes());
            let loaded = load(&mut text, Some(&Name::root()), &options).map_err(|_| Unread::LineMalformed)?;
            for record in loaded.records.iter() {
                let (class, ttl) = (Class::IN, record.ttl);
                message = message.record(section, record.owner, record.rtype, class, ttl, record.rdata);
            }
        }
        if self.dnssec_ok {
            message = message.edns(PAYLOAD, true);
        }
        if message.is_sendable() { Ok(message.build()) } else { Err(Unread::NotSendable) }
    }
}

/// The response of an entry, from each address.
fn push(entry: &Entry, addresses: &[IpAddr], queue: &mut MessageQueue, tally: &mut Tally) {
    if !entry.header.qr || entry.header.opcode != Opcode::QUERY {
        return tally.count(Unread::OtherRecord);
    }
    let bytes = match entry.compose() {
        Ok(bytes) => bytes,
        Err(unread) => return tally.count(unread),
    };
    if addresses.is_empty() {
        return tally.count(Unread::NoMessage);
    }
    for address in addresses {
        let source = SocketAddr::new(*address, 53);
        let nobody = if address.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { Ipv6Addr::UNSPECIFIED.into() };
        let destination = SocketAddr::new(nobody, 0);
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
        assert_eq!(tally.unread(Unread::OtherRecord), 1);
    }

    #[test]
    fn an_entry_that_is_no_response_is_counted() {
        let (messages, tally) = read(
            "RANGE_BEGIN 0 1\nADDRESS ::1\nENTRY_BEGIN\nREPLY QR\nSECTION QUESTION\na. IN A\nSECTION ANSWER\n\
             a. 1 IN A 1.2.3\nENTRY_END\nENTRY_BEGIN\nREPLY QR\nRAW\n00\nENTRY_END\n",
        );
        assert!(messages.is_empty());
        assert_eq!((tally.unread(Unread::LineMalformed), tally.unread(Unread::OtherRecord)), (1, 1));
    }
}
