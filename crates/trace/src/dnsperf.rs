//! dnsperf's query files: a name and a type on each line. They say nothing of time and of clients.

use crate::error::TraceError;
use crate::lines::Lines;
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::mnemonics;
use crate::tally::{Tally, Unread};
use std::io::BufRead;
use std::net::{Ipv4Addr, SocketAddr};
use wire::Name;
use wire::builder::MessageBuilder;

/// Reads one: every query as a plain datagram without EDNS, RD set as dnsperf does.
pub(crate) struct DnsperfReader(Lines);

impl DnsperfReader {
    pub(crate) fn new(bytes: Box<dyn BufRead + Send>) -> Self {
        Self(Lines::new(bytes))
    }

    pub(crate) fn advance(&mut self, queue: &mut MessageQueue, tally: &mut Tally) -> Result<bool, TraceError> {
        let Some(line) = self.0.next("dnsperf")? else { return Ok(false) };
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let Some(qname) = words.next().filter(|word| !word.starts_with([';', '#'])) else { return Ok(true) };
        tally.records += 1;
        let Some(qtype) = words.next().and_then(mnemonics::rtype) else {
            tally.count(Unread::LineMalformed);
            return Ok(true);
        };
        let Ok(qname) = qname.parse::<Name>() else {
            tally.count(Unread::NotSendable);
            return Ok(true);
        };
        let bytes = MessageBuilder::query(0, qname.as_ref(), qtype).header(|header| header.rd = true).build();
        let nobody = |port| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let (source, destination) = (nobody(0), nobody(53));
        queue.push(Message { at_ns: 0, source, destination, transport: Transport::Udp, bytes: &bytes });
        tally.messages += 1;
        Ok(true)
    }
}
