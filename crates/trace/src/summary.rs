//! Summary of a trace: messages by kind, endpoints, and time range.

use crate::intervals::Intervals;
use crate::limits::CLIENT_COUNT_MAX;
use crate::message::{Message, Transport};
use crate::mnemonics;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::parse::{FirstQuestion, Header};

/// Counts messages.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Queries, and all other messages that are not responses.
    pub queries: u64,
    /// Responses.
    pub responses: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// Earliest and latest time, in nanoseconds since 1970.
    pub span_ns: Option<(u64, u64)>,
    /// Times between queries.
    pub intervals: Intervals,
    /// Queries by transport, in the order of [`Transport::ALL`].
    pub transports: [u64; Transport::ALL.len()],
    /// Queries over IPv6.
    pub ipv6: u64,
    /// Queries with DO.
    pub dnssec_ok: u64,
    /// Queries with EDNS.
    pub edns: u64,
    /// Queries whose question cannot be read.
    pub unreadable: u64,
    /// Queries by type.
    pub qtypes: BTreeMap<String, u64>,
    /// Queries by opcode.
    pub opcodes: BTreeMap<String, u64>,
    /// Responses by RCODE.
    pub rcodes: BTreeMap<String, u64>,
    clients: BTreeSet<IpAddr>,
    servers: BTreeSet<IpAddr>,
}

impl Summary {
    /// Counts a message.
    pub fn add(&mut self, message: &Message<'_>) {
        let at = message.at_ns;
        self.span_ns = Some(self.span_ns.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        self.bytes += message.bytes.len() as u64;
        let note = |known: &mut BTreeSet<IpAddr>, address| {
            if known.len() < CLIENT_COUNT_MAX {
                known.insert(address);
            }
        };
        note(&mut self.clients, message.client().ip());
        note(&mut self.servers, message.server().ip());
        let header = Header::parse(message.bytes).unwrap_or_default();
        let whole = wire::parse::Message::parse(message.bytes).ok();
        if message.is_response() {
            self.responses += 1;
            let rcode = whole.map_or(wire::Rcode(header.rcode.into()), |message| message.rcode());
            *self.rcodes.entry(mnemonics::rcode_mnemonic(rcode)).or_default() += 1;
            return;
        }
        self.queries += 1;
        self.intervals.add(at);
        self.transports[message.transport as usize] += 1;
        self.ipv6 += u64::from(message.source.is_ipv6());
        *self.opcodes.entry(mnemonics::opcode_mnemonic(header.opcode)).or_default() += 1;
        match FirstQuestion::read(message.bytes) {
            Ok(question) => *self.qtypes.entry(mnemonics::rtype_mnemonic(question.qtype)).or_default() += 1,
            Err(_) => self.unreadable += 1,
        }
        if let Some(edns) = whole.and_then(|message| message.edns()) {
            self.edns += 1;
            self.dnssec_ok += u64::from(edns.dnssec_ok);
        }
    }

    /// Number of clients, at most [`CLIENT_COUNT_MAX`].
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Number of servers.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Time from the first message to the last, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.span_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9)
    }
}
