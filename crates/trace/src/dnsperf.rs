//! Query files of dnsperf: a name and a type on each line, without times and clients.

use crate::error::TraceError;
use crate::lines::Lines;
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::mnemonics;
use crate::tally::{Tally, UnreadReason};
use std::io::BufRead;
use std::net::{Ipv4Addr, SocketAddr};
use wire::Name;
use wire::builder::MessageBuilder;

/// Reads a query file. Every query becomes a UDP message without EDNS and with RD, as dnsperf sends it.
pub(crate) struct DnsperfReader(Lines);

impl DnsperfReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self(Lines::new(bytes))
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        let Some(line) = self.0.next("dnsperf")? else { return Ok(false) };
        let line = String::from_utf8_lossy(line);
        let mut fields = line.split_whitespace();
        let Some(qname) = fields.next().filter(|field| !field.starts_with([';', '#'])) else { return Ok(true) };
        tally.records += 1;
        let Some(qtype) = fields.next().and_then(mnemonics::rtype) else {
            tally.count(UnreadReason::LineMalformed);
            return Ok(true);
        };
        let Ok(qname) = qname.parse::<Name>() else {
            tally.count(UnreadReason::NotSendable);
            return Ok(true);
        };
        let bytes = MessageBuilder::query(0, qname.as_ref(), qtype).header(|header| header.rd = true).build();
        let unspecified = |port| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let (source, destination) = (unspecified(0), unspecified(53));
        queue.push(Message { at_ns: 0, source, destination, transport: Transport::Udp, bytes: &bytes });
        tally.messages += 1;
        Ok(true)
    }
}
