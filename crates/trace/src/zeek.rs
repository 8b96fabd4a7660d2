//! Zeek's `dns.log`: a line for each query, with tabs between its columns, or an object in JSON. It does not have the
//! bytes of responses, so only queries are read. Zeek also logs NetBIOS, mDNS and LLMNR; their ports differ from DNS.

use crate::error::TraceError;
use crate::lines::{Lines, columns_of, seconds, socket_address};
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use serde_json::{Map, Value};
use std::io::BufRead;
use std::net::SocketAddr;
use wire::builder::MessageBuilder;
use wire::number::{Class, Opcode, Rtype};
use wire::parse::Header;
use wire::{Name, number};

const FORMAT: &str = "zeek";
/// Value of an empty column.
const UNSET: &str = "-";
/// The columns that a query needs.
const COLUMNS: [&str; 9] =
    ["ts", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "trans_id", "query", "qtype"];

/// Reads a log.
pub(crate) struct ZeekReader {
    lines: Lines,
    /// Server ports.
    ports: Vec<u16>,
    /// Positions of [`COLUMNS`], `qclass` and `RD`.
    columns: Option<[usize; COLUMNS.len()]>,
    qclass: Option<usize>,
    rd: Option<usize>,
}

impl ZeekReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>, ports: Vec<u16>) -> Self {
        Self { lines: Lines::new(bytes), ports, columns: None, qclass: None, rd: None }
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        let number = self.lines.number + 1;
        let Some(line) = self.lines.next(FORMAT)? else { return Ok(false) };
        let line = String::from_utf8_lossy(line);
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(names) = comment.strip_prefix("fields\t") {
                let column_of = |wanted: &str| names.split('\t').position(|name| name == wanted);
                self.columns = Some(columns_of(FORMAT, number, names.split('\t'), COLUMNS)?);
                (self.qclass, self.rd) = (column_of("qclass"), column_of("RD"));
            }
            return Ok(true);
        }
        let read = if line.starts_with('{') {
            tally.records += 1;
            query_of_object(&line)
        } else {
            let Some(columns) = self.columns else {
                let what = "a line before the one that names the columns (#fields)".into();
                return Err(TraceError::Format { format: FORMAT, at: number, what });
            };
            tally.records += 1;
            let fields: Vec<&str> = line.split('\t').collect();
            let field = |column: usize| fields.get(column).copied().filter(|field| *field != UNSET);
            query(columns.map(field), self.qclass.and_then(field), self.rd.and_then(field))
        };
        match read.and_then(|query| self.at_port(query)) {
            Ok((at_ns, source, destination, transport, bytes)) => {
                queue.push(Message { at_ns, source, destination, transport, bytes: &bytes });
                tally.messages += 1;
            }
            Err(unread) => tally.count(unread),
        }
        Ok(true)
    }

    fn at_port(&self, query: Query) -> Result<Query, UnreadReason> {
        let ports = [query.1.port(), query.2.port()];
        if ports.iter().any(|port| self.ports.contains(port)) { Ok(query) } else { Err(UnreadReason::of_port(ports)) }
    }
}

/// Whether JSON is a Zeek log: its first line has the keys of a connection and of a DNS message.
pub(crate) fn begins_json(bytes: &[u8]) -> bool {
    let line = bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
    let has = |name: &str| line.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    line.starts_with(b"{") && has("\"id.orig_h\"") && has("\"trans_id\"")
}

/// Parses a line of JSON. Empty fields are absent.
fn query_of_object(line: &str) -> Result<Query, UnreadReason> {
    let object: Map<String, Value> = serde_json::from_str(line).map_err(|_| UnreadReason::LineMalformed)?;
    let text_of = |name: &str| match object.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_set) => Some(if *is_set { "T" } else { "F" }.into()),
        _ => None,
    };
    let texts = COLUMNS.map(text_of);
    query(texts.each_ref().map(Option::as_deref), text_of("qclass").as_deref(), text_of("RD").as_deref())
}

type Query = (u64, SocketAddr, SocketAddr, Transport, Vec<u8>);

/// Converts the columns, some of which may be empty.
fn query(fields: [Option<&str>; COLUMNS.len()], qclass: Option<&str>, rd: Option<&str>) -> Result<Query, UnreadReason> {
    let [ts, source, source_port, destination, destination_port, protocol, id, qname, qtype] = fields;
    let [ts, source, source_port] = [ts, source, source_port].map(Option::unwrap_or_default);
    let [destination, destination_port, protocol] =
        [destination, destination_port, protocol].map(Option::unwrap_or_default);
    let socket_address = |address: &str, port: &str| socket_address(address, port).ok_or(UnreadReason::LineMalformed);
    let (source, destination) = (socket_address(source, source_port)?, socket_address(destination, destination_port)?);
    let at_ns = seconds(ts).ok_or(UnreadReason::LineMalformed)?;
    let transport: Transport = protocol.parse().map_err(|()| UnreadReason::OtherProtocol)?;
    // A response without its query, or a query without a question.
    let (Some(qname), Some(qtype)) = (qname, qtype) else { return Err(UnreadReason::NoMessage) };
    let number = |text: &str| text.parse::<u16>().map_err(|_| UnreadReason::LineMalformed);
    let class = qclass.map_or(Ok(Class::IN), |qclass| number(qclass).map(number::Class))?;
    let id = number(id.unwrap_or_default())?;
    let header = Header { id, opcode: Opcode::QUERY, rd: rd == Some("T"), ..Header::default() };
    // Zeek does not escape labels, so a name with a dot or a backslash in a label becomes another name.
    let qname: Name =
        if qname.is_empty() { Name::root() } else { qname.parse().map_err(|_| UnreadReason::NotSendable)? };
    let message = MessageBuilder::new(header).question(qname.as_ref(), Rtype(number(qtype)?), class);
    Ok((at_ns, source, destination, transport, message.build()))
}
