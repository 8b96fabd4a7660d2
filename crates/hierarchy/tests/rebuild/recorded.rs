//! Recorded traffic, zones built from it, and a comparison of their answers.

use hierarchy::construct::{Assembly, Built, Dnssec, Survey};
use hierarchy::serve::{Emulation, Emulator, ServerMessage, Transport};
use hierarchy::{Folder, ZoneEntry, file_name, write_zone};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use trace::Options;
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{FirstQuestion, Message, Section};

/// A file of the real data. `None` if it is absent; the test says so.
pub(crate) fn data(file: &str) -> Option<PathBuf> {
    let named = std::env::var_os("CATAMARAN_DATA").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let found = Some(folder.join(file)).filter(|path| path.exists());
    if found.is_none() {
        skip::data(file);
    }
    found
}

/// A query and its response.
pub(crate) struct Exchange {
    pub(crate) server: IpAddr,
    pub(crate) is_udp: bool,
    pub(crate) query: Vec<u8>,
    pub(crate) response: Vec<u8>,
    /// The query is not the recorded one, which may have been without EDNS or over UDP.
    pub(crate) is_asked_again: bool,
}

/// The contents of a trace.
pub(crate) struct Recorded {
    /// All messages: sender and bytes.
    pub(crate) messages: Vec<(IpAddr, Vec<u8>)>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) query_count: usize,
}

impl Recorded {
    /// A query for each response of a trace without queries: its question, over TCP, with DO if the response has it.
    pub(crate) fn asked_again(&self) -> Vec<Exchange> {
        let ask = |(server, bytes): &(IpAddr, Vec<u8>)| {
            let message = Message::parse(bytes).ok().filter(|message| message.header().qr)?;
            let question = message.question()?;
            let has_signatures = message.records(Section::Answer).flatten().any(|record| record.rtype == Rtype::RRSIG);
            let dnssec_ok = has_signatures || message.edns().is_some_and(|edns| edns.dnssec_ok);
            let query = MessageBuilder::query(1, question.qname.as_ref(), question.qtype);
            let query = query.edns(4_096, dnssec_ok).build();
            Some(Exchange { server: *server, is_udp: false, query, response: bytes.clone(), is_asked_again: true })
        };
        self.messages.iter().filter_map(ask).collect()
    }
}

/// Client, server, transport and ID.
type Asking = (SocketAddr, SocketAddr, trace::Transport, [u8; 2]);

pub(crate) fn read(path: &Path) -> Recorded {
    let mut reader = trace::open(path, &Options::default()).unwrap();
    let mut recorded = Recorded { messages: Vec::new(), exchanges: Vec::new(), query_count: 0 };
    // Unanswered queries by client and server. An ID may be in use twice.
    let mut waiting: BTreeMap<Asking, Vec<Vec<u8>>> = BTreeMap::new();
    while let Some(message) = reader.next().unwrap() {
        let bytes = message.bytes.to_vec();
        let key = (message.client(), message.server(), message.transport, [bytes[0], bytes[1]]);
        let queries = waiting.entry(key).or_default();
        if message.is_response() {
            let question = FirstQuestion::read(&bytes).ok();
            let is_same = |query: &Vec<u8>| FirstQuestion::read(query).ok() == question;
            if let Some(at) = queries.iter().position(is_same) {
                let query = queries.remove(at);
                let (server, is_udp) = (message.server().ip(), message.transport == trace::Transport::Udp);
                let response = bytes.clone();
                recorded.exchanges.push(Exchange { server, is_udp, query, response, is_asked_again: false });
            }
        } else {
            recorded.query_count += 1;
            queries.push(bytes.clone());
        }
        recorded.messages.push((message.source.ip(), bytes));
    }
    recorded
}

pub(crate) fn build<'m>(messages: impl Iterator<Item = &'m (IpAddr, Vec<u8>)> + Clone, dnssec: Dnssec) -> Built {
    let mut survey = Survey::default();
    messages.clone().for_each(|(server, bytes)| survey.add(*server, bytes));
    let mut assembly = Assembly::new(survey.finish(), dnssec);
    messages.for_each(|(server, bytes)| assembly.add(*server, bytes));
    assembly.finish()
}

/// Zones in a folder, served by the emulator.
pub(crate) struct Served {
    emulation: Emulation,
    emulator: RefCell<Emulator>,
}

impl Served {
    pub(crate) fn new(built: &Built) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("catlab-rebuild-{}-{number}", std::process::id()));
        let mut entries = Vec::new();
        for (number, zone) in built.zones.iter().enumerate() {
            let name = zone.apex.to_string();
            let file = file_name(&name, number);
            let records = zone.records.iter().map(|built| (&built.record, built.made.as_deref()));
            write_zone(&folder.join(&file), &name, records).unwrap();
            entries.push(ZoneEntry { name, file, servers: zone.servers.clone() });
        }
        Folder::new(entries).with_behaviors(built.behaviors.clone()).write(&folder).unwrap();
        let emulation = Emulation::load(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let emulator = RefCell::new(emulation.emulator(false));
        Self { emulation, emulator }
    }

    /// The answer of the server at an address, if there is one.
    pub(crate) fn ask(&self, server: IpAddr, transport: Transport, query: &[u8]) -> Option<Vec<u8>> {
        self.emulation.directory().server(server)?;
        let mut out = vec![0; 65_535];
        let message = ServerMessage { at_ns: 0, server, transport, bytes: query };
        let count = self.emulator.borrow_mut().answer(&message, &mut out);
        out.truncate(count);
        Some(out)
    }
}
