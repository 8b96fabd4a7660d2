//! Rebuilds messages from the tables of a block.

use super::block::{Block, Event, EventKind};
use super::cbor::{Item, number};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::message::{Transport, has_header};
use crate::tally::UnreadReason;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::NameRef;
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode, Rtype};
use wire::parse::{Header, Section};

/// A rebuilt message.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct RebuiltMessage {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) transport: Transport,
    pub(super) bytes: Vec<u8>,
}

/// Keys of an item of `query-responses` (RFC 8618 7.3.2.4).
const CLIENT_ADDRESS: usize = 1;
const CLIENT_PORT: usize = 2;
const TRANSACTION_ID: usize = 3;
const SIGNATURE: usize = 4;
const QUERY_NAME: usize = 7;
const QUERY_EXTENDED: usize = 11;
const RESPONSE_EXTENDED: usize = 12;

/// Keys of a signature (RFC 8618 7.3.2.3.2).
const SERVER_ADDRESS: usize = 0;
const SERVER_PORT: usize = 1;
const TRANSPORT_FLAGS: usize = 2;
const SIG_FLAGS: usize = 4;
const OPCODE: usize = 5;
const DNS_FLAGS: usize = 6;
const QUERY_RCODE: usize = 7;
const CLASSTYPE: usize = 8;
const QUERY_COUNTS: [usize; 4] = [9, 10, 11, 12];
const EDNS_VERSION: usize = 13;
const UDP_SIZE: usize = 14;
const OPT_RDATA: usize = 15;
const RESPONSE_RCODE: usize = 16;

/// Bits of `qr-sig-flags`.
const QUERY_HAS_OPT: u64 = 1 << 2;
const RESPONSE_HAS_OPT: u64 = 1 << 3;
const QUERY_HAS_NO_QUESTION: u64 = 1 << 4;
const RESPONSE_HAS_NO_QUESTION: u64 = 1 << 5;
/// Bits of `qr-dns-flags` for the query. Those for the response are shifted.
const CD: u64 = 1 << 0;
const AD: u64 = 1 << 1;
const Z: u64 = 1 << 2;
const RA: u64 = 1 << 3;
const RD: u64 = 1 << 4;
const TC: u64 = 1 << 5;
const AA: u64 = 1 << 6;
const QUERY_DO: u64 = 1 << 7;
const RESPONSE_SHIFT: u32 = 8;

/// Rebuilds a message, or returns the reason why that is impossible.
pub(super) fn message(block: &Block, event: Event) -> Result<RebuiltMessage, UnreadReason> {
    match event.kind {
        EventKind::Query => of_item(block, event.start, Side::Query),
        EventKind::Response => of_item(block, event.start, Side::Response),
        EventKind::Neither => Err(UnreadReason::NoMessage),
        EventKind::Malformed => malformed(block, event.start),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Query,
    Response,
}

/// Rebuilds the query or the response of an item of `query-responses`.
fn of_item(block: &Block, start: u32, side: Side) -> Result<RebuiltMessage, UnreadReason> {
    let item: [Option<Item>; 13] = block.fields(start);
    let signature = block.signature(number(&item[SIGNATURE]));
    let flags = number(&signature[TRANSPORT_FLAGS]);
    let transport = transport(flags)?;
    let client = socket_address(block, flags, &item[CLIENT_ADDRESS], &item[CLIENT_PORT])?;
    let server = socket_address(block, flags, &signature[SERVER_ADDRESS], &signature[SERVER_PORT])?;
    let bytes = compose(block, &item, &signature, side)?;
    let (source, destination) = if side == Side::Query { (client, server) } else { (server, client) };
    Ok(RebuiltMessage { source, destination, transport, bytes })
}

/// The transport, UDP if it was not recorded (RFC 8618 7.3.2.3.2, `qr-transport-flags`).
fn transport(flags: Option<u64>) -> Result<Transport, UnreadReason> {
    match flags.unwrap_or_default() >> 1 & 0x0F {
        0 => Ok(Transport::Udp),
        1 => Ok(Transport::Tcp),
        2 => Ok(Transport::Dot),
        4 => Ok(Transport::Doh),
        // DTLS, and unassigned numbers.
        _ => Err(UnreadReason::OtherProtocol),
    }
}

/// An address and a port. If they were not recorded: the unspecified address and port zero. A prefix is filled with
/// zeros.
fn socket_address(
    block: &Block,
    flags: Option<u64>,
    address: &Option<Item>,
    port: &Option<Item>,
) -> Result<SocketAddr, UnreadReason> {
    let bytes = match number(address) {
        Some(index) => block.address(Some(index)).ok_or(UnreadReason::HeaderMalformed)?,
        None => &[],
    };
    let is_ipv6 = flags.map_or(bytes.len() > 4, |flags| flags & 1 != 0);
    let address = if is_ipv6 {
        IpAddr::from(Ipv6Addr::from(padded::<16>(bytes)?))
    } else {
        IpAddr::from(Ipv4Addr::from(padded::<4>(bytes)?))
    };
    let port = u16::try_from(number(port).unwrap_or_default()).map_err(|_| UnreadReason::HeaderMalformed)?;
    Ok(SocketAddr::new(address, port))
}

fn padded<const N: usize>(bytes: &[u8]) -> Result<[u8; N], UnreadReason> {
    let mut whole = [0; N];
    whole.get_mut(..bytes.len()).ok_or(UnreadReason::HeaderMalformed)?.copy_from_slice(bytes);
    Ok(whole)
}

fn compose(
    block: &Block,
    item: &[Option<Item>; 13],
    signature: &[Option<Item>; 17],
    side: Side,
) -> Result<Vec<u8>, UnreadReason> {
    let flags = number(&signature[SIG_FLAGS]).unwrap_or_default();
    let (extended, rcode, has_opt, no_question) = match side {
        Side::Query => (QUERY_EXTENDED, QUERY_RCODE, QUERY_HAS_OPT, QUERY_HAS_NO_QUESTION),
        Side::Response => (RESPONSE_EXTENDED, RESPONSE_RCODE, RESPONSE_HAS_OPT, RESPONSE_HAS_NO_QUESTION),
    };
    if side == Side::Response && !block.has_responses() {
        return Err(UnreadReason::NoMessage);
    }
    let extended: [Option<Item>; 4] = match &item[extended] {
        Some(Item::Map(map)) => block.fields_of(map),
        _ => [const { None }; 4],
    };
    let [questions, answer, authority, additional] = [0, 1, 2, 3].map(|key: usize| number(&extended[key]));
    let rcode = number(&signature[rcode]).unwrap_or_default();
    let mut message = MessageBuilder::new(header(item, signature, side, rcode)?);
    if flags & no_question == 0 {
        let (Some(name), Some(classtype)) = (number(&item[QUERY_NAME]), number(&signature[CLASSTYPE])) else {
            return Err(UnreadReason::NoMessage);
        };
        let (rtype, class) = block.classtype(Some(classtype)).ok_or(UnreadReason::HeaderMalformed)?;
        message = message.question(name_of(block, Some(name))?, Rtype(rtype), Class(class));
    }
    if let Some(list) = questions {
        for question in block.questions(list) {
            let [name, classtype] = question.ok_or(UnreadReason::HeaderMalformed)?;
            let (rtype, class) = block.classtype(number(&classtype)).ok_or(UnreadReason::HeaderMalformed)?;
            message = within(message.question(name_of(block, number(&name))?, Rtype(rtype), Class(class)))?;
        }
    }
    for (section, list) in [(Section::Answer, answer), (Section::Authority, authority)] {
        for record in records(block, list)? {
            message = within(record.push(message, section))?;
        }
    }
    let mut additional = records(block, additional)?;
    if flags & has_opt != 0 && additional.iter().all(|record| record.rtype != Rtype::OPT) {
        // In a response, OPT is among the records, if these were recorded.
        let opt =
            if side == Side::Query { opt(block, signature, rcode)? } else { return Err(UnreadReason::NoMessage) };
        // The signature of a message comes last (RFC 8945 5.1, RFC 2931 3.1).
        let is_signed = additional.last().is_some_and(|last| matches!(last.rtype, Rtype::TSIG | Rtype::SIG));
        additional.insert(additional.len() - usize::from(is_signed), opt);
    }
    for record in additional {
        message = within(record.push(message, Section::Additional))?;
    }
    let bytes = message.build();
    if side == Side::Query && !has_counts(&bytes, signature) {
        return Err(UnreadReason::NoMessage);
    }
    Ok(bytes)
}

fn header(
    item: &[Option<Item>; 13],
    signature: &[Option<Item>; 17],
    side: Side,
    rcode: u64,
) -> Result<Header, UnreadReason> {
    let flags = number(&signature[DNS_FLAGS]).unwrap_or_default();
    let flags = if side == Side::Query { flags } else { flags >> RESPONSE_SHIFT };
    let id = number(&item[TRANSACTION_ID]).unwrap_or_default();
    let opcode = number(&signature[OPCODE]).unwrap_or_default();
    Ok(Header {
        id: u16::try_from(id).map_err(|_| UnreadReason::HeaderMalformed)?,
        qr: side == Side::Response,
        opcode: u8::try_from(opcode)
            .ok()
            .filter(|opcode| *opcode < 16)
            .map(Opcode)
            .ok_or(UnreadReason::HeaderMalformed)?,
        aa: flags & AA != 0,
        tc: flags & TC != 0,
        rd: flags & RD != 0,
        ra: flags & RA != 0,
        z: flags & Z != 0,
        ad: flags & AD != 0,
        cd: flags & CD != 0,
        rcode: (rcode & 0x0F) as u8,
        counts: [0; 4],
    })
}

/// Whether the numbers of questions and records match the header. Otherwise some were not recorded.
fn has_counts(bytes: &[u8], signature: &[Option<Item>; 17]) -> bool {
    let counts = Header::parse(bytes).unwrap_or_default().counts;
    let mut recorded = QUERY_COUNTS.into_iter().map(|key| number(&signature[key])).zip(counts);
    recorded.all(|(recorded, rebuilt)| recorded.is_none_or(|recorded| recorded == u64::from(rebuilt)))
}

/// Checks the size of the message.
fn within(message: MessageBuilder) -> Result<MessageBuilder, UnreadReason> {
    if message.byte_count() <= MESSAGE_BYTES_MAX { Ok(message) } else { Err(UnreadReason::NotSendable) }
}

/// Size of the smallest record: root, type, class, TTL, length.
const RECORD_BYTES_MIN: usize = 11;

struct Record<'b> {
    owner: NameRef<'b>,
    rtype: Rtype,
    class: Class,
    ttl: u32,
    rdata: &'b [u8],
}

impl Record<'_> {
    fn push(&self, message: MessageBuilder, section: Section) -> MessageBuilder {
        message.record(section, self.owner, self.rtype, self.class, self.ttl, self.rdata)
    }
}

/// The records of a list. Empty if there is no list.
fn records(block: &Block, list: Option<u64>) -> Result<Vec<Record<'_>>, UnreadReason> {
    let mut records = Vec::new();
    let Some(list) = list else { return Ok(records) };
    for values in block.records(list) {
        if records.len() > MESSAGE_BYTES_MAX / RECORD_BYTES_MIN {
            return Err(UnreadReason::NotSendable);
        }
        let [name, classtype, ttl, rdata] = values.ok_or(UnreadReason::HeaderMalformed)?;
        let (rtype, class) = block.classtype(number(&classtype)).ok_or(UnreadReason::HeaderMalformed)?;
        // Files may omit TTLs or rdata.
        let (Some(ttl), Some(rdata)) = (number(&ttl), number(&rdata)) else { return Err(UnreadReason::NoMessage) };
        let ttl = u32::try_from(ttl).map_err(|_| UnreadReason::HeaderMalformed)?;
        let owner = name_of(block, number(&name))?;
        records.push(Record { owner, rtype: Rtype(rtype), class: Class(class), ttl, rdata: rdata_of(block, rdata)? });
    }
    Ok(records)
}

/// The OPT record of a query (RFC 6891 6.1.3), from its signature.
fn opt<'b>(block: &'b Block, signature: &[Option<Item>; 17], rcode: u64) -> Result<Record<'b>, UnreadReason> {
    let [version, size, rdata] = [EDNS_VERSION, UDP_SIZE, OPT_RDATA].map(|key| number(&signature[key]));
    let (Some(version), Some(size), Some(rdata)) = (version, size, rdata) else { return Err(UnreadReason::NoMessage) };
    let dnssec_ok = number(&signature[DNS_FLAGS]).unwrap_or_default() & QUERY_DO != 0;
    let [version, extended] =
        [version, rcode >> 4].map(|part| u8::try_from(part).map_err(|_| UnreadReason::HeaderMalformed));
    let ttl = u32::from_be_bytes([extended?, version?, u8::from(dnssec_ok) << 7, 0]);
    let size = u16::try_from(size).map_err(|_| UnreadReason::HeaderMalformed)?;
    let rdata = rdata_of(block, rdata)?;
    Ok(Record { owner: NameRef::ROOT, rtype: Rtype::OPT, class: Class(size), ttl, rdata })
}

fn name_of(block: &Block, index: Option<u64>) -> Result<NameRef<'_>, UnreadReason> {
    let bytes = block.name_or_rdata(index).ok_or(UnreadReason::HeaderMalformed)?;
    NameRef::from_bytes(bytes).map_err(|_| UnreadReason::NotSendable)
}

fn rdata_of(block: &Block, index: u64) -> Result<&[u8], UnreadReason> {
    let rdata = block.name_or_rdata(Some(index)).ok_or(UnreadReason::HeaderMalformed)?;
    if rdata.len() <= MESSAGE_BYTES_MAX { Ok(rdata) } else { Err(UnreadReason::NotSendable) }
}

/// Keys of an item of `malformed-messages` (RFC 8618 7.3.2.6) and of its data (7.3.2.3.5).
const MESSAGE_DATA: usize = 3;
const PAYLOAD: usize = 3;

/// Returns a message that could not be parsed when it was recorded. It is stored as it was.
fn malformed(block: &Block, start: u32) -> Result<RebuiltMessage, UnreadReason> {
    let item: [Option<Item>; 4] = block.fields(start);
    let data = block.malformed(number(&item[MESSAGE_DATA]));
    let Some(Item::Bytes(payload)) = &data[PAYLOAD] else { return Err(UnreadReason::NoMessage) };
    let bytes = block.bytes(payload).to_vec();
    if !has_header(&bytes) {
        return Err(UnreadReason::TooShort);
    }
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(UnreadReason::NotSendable);
    }
    let flags = number(&data[TRANSPORT_FLAGS]);
    let client = socket_address(block, flags, &item[CLIENT_ADDRESS], &item[CLIENT_PORT])?;
    let server = socket_address(block, flags, &data[SERVER_ADDRESS], &data[SERVER_PORT])?;
    // QR shows the direction (RFC 1035 4.1.1).
    let (source, destination) = if bytes[2] & 0x80 == 0 { (client, server) } else { (server, client) };
    Ok(RebuiltMessage { source, destination, transport: transport(flags)?, bytes })
}
