//! Our text format: one line per message, with columns separated by white space. It can be edited by hand and by awk.
//!
//! ```text
//! time source port destination port transport id opcode rcode flags qname qclass qtype edns bytes
//! ```
//!
//! `bytes` is `-` if the other columns describe the whole message. Otherwise it is the message in hexadecimal digits,
//! and the columns from `id` on are ignored. To edit such a line, write `-` there. Parts that the other columns cannot
//! describe are then lost.

use crate::error::TraceError;
use crate::lines::{Lines, seconds, socket_address};
use crate::message::{Message, Transport, has_header};
use crate::message_queue::MessageQueue;
use crate::mnemonics;
use crate::tally::{Tally, UnreadReason};
use data_encoding::HEXLOWER_PERMISSIVE;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::Rcode;
use wire::parse::Header;

const FORMAT: &str = "text";
/// First line of a file.
pub(crate) const MAGIC: &str = "# catlab trace 1";
const COLUMN_COUNT: usize = 15;
const COLUMNS: &str =
    "# time source port destination port transport id opcode rcode flags qname qclass qtype edns bytes";

/// Reads our text format.
pub(crate) struct TextReader(Lines);

impl TextReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self(Lines::new(bytes))
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        let Some(line) = self.0.next(FORMAT)? else { return Ok(false) };
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(true);
        }
        tally.records += 1;
        match std::str::from_utf8(line).map_err(|_| UnreadReason::LineMalformed).and_then(read) {
            Ok(line) => {
                let Line { at_ns, source, destination, transport, bytes } = line;
                queue.push(Message { at_ns, source, destination, transport, bytes: &bytes });
                tally.messages += 1;
            }
            Err(unread) => tally.count(unread),
        }
        Ok(true)
    }
}

struct Line {
    at_ns: u64,
    source: SocketAddr,
    destination: SocketAddr,
    transport: Transport,
    bytes: Vec<u8>,
}

fn read(line: &str) -> Result<Line, UnreadReason> {
    let mut columns = [""; COLUMN_COUNT];
    let mut fields = line.split_ascii_whitespace();
    for column in &mut columns {
        *column = fields.next().ok_or(UnreadReason::LineMalformed)?;
    }
    if fields.next().is_some() {
        return Err(UnreadReason::LineMalformed);
    }
    let [at, source, source_port, destination, destination_port, transport, rest @ ..] = columns;
    let socket_address = |address: &str, port: &str| socket_address(address, port).ok_or(UnreadReason::LineMalformed);
    let bytes = match rest[8] {
        "-" => compose(rest)?,
        bytes => HEXLOWER_PERMISSIVE.decode(bytes.as_bytes()).map_err(|_| UnreadReason::LineMalformed)?,
    };
    if !has_header(&bytes) {
        return Err(UnreadReason::TooShort);
    }
    Ok(Line {
        at_ns: seconds(at).ok_or(UnreadReason::LineMalformed)?,
        source: socket_address(source, source_port)?,
        destination: socket_address(destination, destination_port)?,
        transport: transport.parse().map_err(|()| UnreadReason::LineMalformed)?,
        bytes,
    })
}

/// Composes a message from the columns from `id` on.
fn compose([id, opcode, rcode, flags, qname, qclass, qtype, edns, _]: [&str; 9]) -> Result<Vec<u8>, UnreadReason> {
    let known = |rcode: &&str| (0..16).map(Rcode).any(|known| mnemonics::rcode_mnemonic(known) == **rcode);
    let rcode = Some(rcode)
        .filter(known)
        .and_then(|rcode| (0..16).map(Rcode).find(|known| mnemonics::rcode_mnemonic(*known) == rcode));
    let mut header = Header {
        id: id.parse().map_err(|_| UnreadReason::LineMalformed)?,
        opcode: mnemonics::opcode(opcode).ok_or(UnreadReason::LineMalformed)?,
        rcode: rcode.ok_or(UnreadReason::LineMalformed)?.0 as u8,
        ..Header::default()
    };
    for flag in flags.split(',').filter(|flag| *flag != "-") {
        *flag_of(&mut header, flag).ok_or(UnreadReason::LineMalformed)? = true;
    }
    let mut message = MessageBuilder::new(header);
    if qname != "-" {
        let qname: Name = qname.parse().map_err(|_| UnreadReason::NotSendable)?;
        let qtype = mnemonics::rtype(qtype).ok_or(UnreadReason::NotSendable)?;
        message = message.question(qname.as_ref(), qtype, mnemonics::class(qclass).ok_or(UnreadReason::NotSendable)?);
    }
    if edns != "-" {
        let (payload, dnssec_ok) = edns.strip_suffix(",do").map_or((edns, false), |payload| (payload, true));
        message = message.edns(payload.parse().map_err(|_| UnreadReason::LineMalformed)?, dnssec_ok);
    }
    Ok(message.build())
}

const FLAGS: [&str; 8] = ["qr", "aa", "tc", "rd", "ra", "z", "ad", "cd"];

fn flag_of<'h>(header: &'h mut Header, flag: &str) -> Option<&'h mut bool> {
    Some(match flag {
        "qr" => &mut header.qr,
        "aa" => &mut header.aa,
        "tc" => &mut header.tc,
        "rd" => &mut header.rd,
        "ra" => &mut header.ra,
        "z" => &mut header.z,
        "ad" => &mut header.ad,
        "cd" => &mut header.cd,
        _ => return None,
    })
}

/// Writes the first lines of a file.
pub(crate) fn begin(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{MAGIC}\n{COLUMNS}")
}

/// Writes a message as a line.
///
/// # Errors
///
/// Writing to `out` failed.
pub fn write(message: &Message<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Message { at_ns, source, destination, transport, bytes } = message;
    let (s, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
    write!(out, "{s}.{ns:09} {} {} ", source.ip(), source.port())?;
    write!(out, "{} {} {transport}", destination.ip(), destination.port())?;
    let columns = columns_of(bytes);
    columns.iter().try_for_each(|column| write!(out, " {column}"))?;
    let all: [&str; 9] = std::array::from_fn(|at| columns.get(at).map_or("-", String::as_str));
    if compose(all).is_ok_and(|composed| composed == *bytes) {
        writeln!(out, " -")
    } else {
        writeln!(out, " {}", HEXLOWER_PERMISSIVE.encode(bytes))
    }
}

/// The columns from `id` to `edns`.
fn columns_of(bytes: &[u8]) -> [String; 8] {
    let mut header = Header::parse(bytes).unwrap_or_default();
    let flags: Vec<&str> =
        FLAGS.into_iter().filter(|flag| flag_of(&mut header, flag).is_some_and(|flag| *flag)).collect();
    let message = wire::parse::Message::parse(bytes).ok();
    let rcode = message.as_ref().map_or(Rcode(header.rcode.into()), wire::parse::Message::rcode);
    // If the rest of the message is malformed, its question may still be readable.
    let question = wire::parse::FirstQuestion::read(bytes).ok().filter(|_| header.counts[0] > 0);
    let [qname, qclass, qtype] = match &question {
        Some(question) => [
            question.qname.to_string(),
            mnemonics::class_mnemonic(question.qclass),
            mnemonics::rtype_mnemonic(question.qtype),
        ],
        None => ["-", "-", "-"].map(str::to_owned),
    };
    let edns = message
        .and_then(|message| message.edns())
        .map_or_else(|| "-".to_owned(), |edns| format!("{}{}", edns.payload, if edns.dnssec_ok { ",do" } else { "" }));
    let flags = if flags.is_empty() { "-".to_owned() } else { flags.join(",") };
    let opcode = mnemonics::opcode_mnemonic(header.opcode);
    [header.id.to_string(), opcode, mnemonics::rcode_mnemonic(rcode), flags, qname, qclass, qtype, edns]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(message: &Message<'_>) -> (String, Line) {
        let mut out = Vec::new();
        write(message, &mut out).unwrap();
        let line = String::from_utf8(out).unwrap();
        let back = read(line.trim_end()).unwrap();
        (line, back)
    }

    fn message(bytes: &[u8]) -> Message<'_> {
        let (source, destination) = ("192.0.2.1:53211".parse().unwrap(), "[2001:db8::53]:53".parse().unwrap());
        Message { at_ns: 1_475_762_040_123_456_789, source, destination, transport: Transport::Udp, bytes }
    }

    #[test]
    fn a_query_is_its_columns() {
        let name: Name = "WWW.a\\032b.example.".parse().unwrap();
        let query = MessageBuilder::query(4711, name.as_ref(), wire::Rtype::AAAA).header(|header| header.rd = true);
        let bytes = query.edns(1232, true).build();
        let (line, back) = round_trip(&message(&bytes));
        assert_eq!(
            line,
            "1475762040.123456789 192.0.2.1 53211 2001:db8::53 53 udp \
             4711 QUERY NOERROR rd WWW.a\\032b.example. IN AAAA 1232,do -\n"
        );
        assert_eq!(back.bytes, bytes);
    }

    #[test]
    fn messages_that_columns_cannot_express_are_kept_in_hex() {
        let name: Name = "example.".parse().unwrap();
        let bytes = MessageBuilder::query(1, name.as_ref(), wire::Rtype::A).option(10, &[7; 8]).build();
        let (line, back) = round_trip(&message(&bytes));
        assert!(line.contains(" example. IN A 1232 0001"), "{line}");
        assert_eq!(back.bytes, bytes);
    }

    #[test]
    fn malformed_lines_are_counted() {
        let good = "1.5 ::1 1 ::1 53 tcp 1 QUERY NOERROR - . IN NS - -";
        assert!(read(good).is_ok());
        for (wrong, why) in [
            ("1.5 ::1 1 ::1 53 tcp 1 QUERY NOERROR - . IN NS -", UnreadReason::LineMalformed),
            ("1.5 ::1 1 ::1 53 tcp 1 QUERY NOERROR - . IN NS - - -", UnreadReason::LineMalformed),
            ("x ::1 1 ::1 53 tcp 1 QUERY NOERROR - . IN NS - -", UnreadReason::LineMalformed),
            ("1.5 ::1 1 ::1 53 tcp 1 QUERY NOERROR - . IN NS - 00", UnreadReason::TooShort),
            ("1.5 ::1 1 ::1 53 tcp 1 QUERY NOERROR - a..b. IN NS - -", UnreadReason::NotSendable),
        ] {
            assert_eq!(read(wrong).err(), Some(why), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn all_messages_are_read_back_unchanged(bytes in prop::collection::vec(any::<u8>(), 12..80)) {
            prop_assert_eq!(round_trip(&message(&bytes)).1.bytes, bytes);
        }
    }
}
