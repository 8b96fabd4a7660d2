//! What a trace holds: how many messages of what kind, between whom, over what time.

use crate::limits::CLIENT_COUNT_MAX;
use crate::message::{Message, Transport};
use crate::mnemonics;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::parse::{FirstQuestion, Header};

/// Counts messages.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Queries, and all else that is no response.
    pub queries: u64,
    /// Responses.
    pub responses: u64,
    /// Bytes of all messages.
    pub bytes: u64,
    /// The earliest and the latest time, nanoseconds since 1970.
    pub span_ns: Option<(u64, u64)>,
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
    /// Queries by type and by opcode, responses by RCODE.
    pub qtypes: BTreeMap<String, u64>,
    /// By opcode.
    pub opcodes: BTreeMap<String, u64>,
    /// By RCODE.
    pub rcodes: BTreeMap<String, u64>,
    clients: BTreeSet<IpAddr>,
    servers: BTreeSet<IpAddr>,
}

impl Summary {
    /// Counts one.
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

    /// Addresses that ask; no more are told apart than [`CLIENT_COUNT_MAX`].
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Addresses that are asked.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// From the first message to the last, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.span_ns.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9)
    }
}
