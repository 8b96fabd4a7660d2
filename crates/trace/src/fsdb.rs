//! LDplayer's text (Fsdb). The first line names the columns: `#fsdb time src_ip qname qclass qtype protocol`.

use crate::error::TraceError;
use crate::lines::{Lines, columns_of, seconds};
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::mnemonics;
use crate::tally::{Tally, UnreadReason};
use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use wire::Name;
use wire::builder::MessageBuilder;

const FORMAT: &str = "fsdb";
const COLUMNS: [&str; 6] = ["time", "src_ip", "qname", "qclass", "qtype", "protocol"];

/// Reads a file. Queries go to port 53 of the unspecified address, unless the file has other columns.
pub(crate) struct FsdbReader {
    lines: Lines,
    columns: Option<[usize; COLUMNS.len()]>,
}

impl FsdbReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self { lines: Lines::new(bytes), columns: None }
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        let Some(line) = self.lines.next(FORMAT)? else { return Ok(false) };
        let line = String::from_utf8_lossy(line).into_owned();
        if let Some(names) = line.strip_prefix("#fsdb") {
            self.columns = Some(self.columns(names)?);
            return Ok(true);
        }
        if line.is_empty() || line.starts_with('#') {
            return Ok(true);
        }
        let Some(columns) = self.columns else {
            let what = "a line before the one that names the columns (#fsdb)".into();
            return Err(TraceError::Format { format: FORMAT, at: self.lines.number, what });
        };
        tally.records += 1;
        let fields: Vec<&str> = line.split_whitespace().collect();
        match query(columns.map(|column| fields.get(column).copied().unwrap_or("-"))) {
            Ok((at_ns, source, transport, bytes)) => {
                let unspecified = match source.ip() {
                    IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                    IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let destination = SocketAddr::new(unspecified, 53);
                queue.push(Message { at_ns, source, destination, transport, bytes: &bytes });
                tally.messages += 1;
            }
            Err(unread) => tally.count(unread),
        }
        Ok(true)
    }

    fn columns(&self, names: &str) -> Result<[usize; COLUMNS.len()], TraceError> {
        // Options such as `-F t` name the separator. Any white space is accepted.
        let names: Vec<&str> =
            names.split_whitespace().skip_while(|field| field.starts_with('-') || field.len() == 1).collect();
        columns_of(FORMAT, self.lines.number, names.into_iter(), COLUMNS)
    }
}

fn query(
    [at, source, qname, qclass, qtype, protocol]: [&str; 6],
) -> Result<(u64, SocketAddr, Transport, Vec<u8>), UnreadReason> {
    let at_ns = seconds(at).ok_or(UnreadReason::LineMalformed)?;
    let source = SocketAddr::new(source.parse().map_err(|_| UnreadReason::LineMalformed)?, 0);
    let transport = protocol.parse().map_err(|()| UnreadReason::OtherProtocol)?;
    let qname: Name = qname.parse().map_err(|_| UnreadReason::NotSendable)?;
    let qtype = mnemonics::rtype(qtype).ok_or(UnreadReason::NotSendable)?;
    let qclass = mnemonics::class(qclass).ok_or(UnreadReason::NotSendable)?;
    let message = MessageBuilder::new(wire::parse::Header::default()).question(qname.as_ref(), qtype, qclass);
    Ok((at_ns, source, transport, message.build()))
}
