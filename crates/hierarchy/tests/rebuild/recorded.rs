//! Traffic that was recorded, zones that are built from it, and whether these answer as the servers did.

use hierarchy::construct::{Assembly, Built, Dnssec, Survey};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use trace::{Options, Transport};
use wire::builder::MessageBuilder;
use wire::number::Rtype;
use wire::parse::{FirstQuestion, Message, Section};
use zone::record::ZoneId;
use zone::set::{StoreConfig, ZoneSet, ZoneSetConfig};

/// A file of the real data; `None`, said plainly, when it is absent.
pub(crate) fn data(file: &str) -> Option<PathBuf> {
    let named = std::env::var_os("CATAMARAN_DATA").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"));
    let found = Some(folder.join(file)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: {file} is absent");
    }
    found
}

/// A query, and what was answered.
pub(crate) struct Exchange {
    pub(crate) server: IpAddr,
    pub(crate) is_udp: bool,
    pub(crate) query: Vec<u8>,
    pub(crate) response: Vec<u8>,
}

/// What a trace holds.
pub(crate) struct Recorded {
    /// All messages: who sent it, and its octets.
    pub(crate) messages: Vec<(IpAddr, Vec<u8>)>,
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) query_count: usize,
}

impl Recorded {
    /// A query for each response, where the trace has none: its question, over a stream, with DO if the response has.
    pub(crate) fn asked_again(&self) -> Vec<Exchange> {
        let ask = |(server, octets): &(IpAddr, Vec<u8>)| {
            let message = Message::parse(octets).ok().filter(|message| message.header().qr)?;
            let question = message.question()?;
            let has_signatures = message.records(Section::Answer).flatten().any(|record| record.rtype == Rtype::RRSIG);
            let dnssec_ok = has_signatures || message.edns().is_some_and(|edns| edns.dnssec_ok);
            let query = MessageBuilder::query(1, question.qname.as_ref(), question.qtype);
            let query = query.edns(4_096, dnssec_ok).build();
            Some(Exchange { server: *server, is_udp: false, query, response: octets.clone() })
        };
        self.messages.iter().filter_map(ask).collect()
    }
}

/// Client, server, transport and ID.
type Asking = (SocketAddr, SocketAddr, Transport, [u8; 2]);

pub(crate) fn read(path: &Path) -> Recorded {
    let mut reader = trace::open(path, &Options::default()).unwrap();
    let mut recorded = Recorded { messages: Vec::new(), exchanges: Vec::new(), query_count: 0 };
    // Queries that wait, by who asks whom: an ID may be in use twice.
    let mut waiting: BTreeMap<Asking, Vec<Vec<u8>>> = BTreeMap::new();
    while let Some(message) = reader.next().unwrap() {
        let octets = message.octets.to_vec();
        let key = (message.client(), message.server(), message.transport, [octets[0], octets[1]]);
        let queries = waiting.entry(key).or_default();
        if message.is_response() {
            let question = FirstQuestion::read(&octets).ok();
            let is_same = |query: &Vec<u8>| FirstQuestion::read(query).ok() == question;
            if let Some(at) = queries.iter().position(is_same) {
                let query = queries.remove(at);
                let (server, is_udp) = (message.server().ip(), message.transport == Transport::Udp);
                recorded.exchanges.push(Exchange { server, is_udp, query, response: octets.clone() });
            }
        } else {
            recorded.query_count += 1;
            queries.push(octets.clone());
        }
        recorded.messages.push((message.source.ip(), octets));
    }
    recorded
}

pub(crate) fn build<'m>(messages: impl Iterator<Item = &'m (IpAddr, Vec<u8>)> + Clone, dnssec: Dnssec) -> Built {
    let mut survey = Survey::default();
    messages.clone().for_each(|(server, octets)| survey.add(*server, octets));
    let mut assembly = Assembly::new(survey.finish(), dnssec);
    messages.for_each(|(server, octets)| assembly.add(*server, octets));
    assembly.finish()
}

/// Zones as they are served: each address has those that it is said to have.
pub(crate) struct Served {
    sets: Vec<ZoneSet>,
    by_server: BTreeMap<IpAddr, usize>,
}

impl Served {
    pub(crate) fn new(built: &Built) -> Self {
        let mut of_server: BTreeMap<IpAddr, Vec<usize>> = BTreeMap::new();
        for (number, zone) in built.zones.iter().enumerate() {
            zone.servers.iter().for_each(|server| of_server.entry(*server).or_default().push(number));
        }
        let mut known: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let (mut sets, mut by_server) = (Vec::new(), BTreeMap::new());
        for (server, zones) in of_server {
            let set = *known.entry(zones.clone()).or_insert_with(|| {
                sets.push(load(built, &zones));
                sets.len() - 1
            });
            by_server.insert(server, set);
        }
        Self { sets, by_server }
    }

    pub(crate) fn of(&self, server: IpAddr) -> Option<&ZoneSet> {
        self.by_server.get(&server).map(|set| &self.sets[*set])
    }
}

fn load(built: &Built, zones: &[usize]) -> ZoneSet {
    let store = StoreConfig { reserve_bytes: 256 << 20, huge_pages: false };
    let mut set = ZoneSet::new(ZoneSetConfig { store }).unwrap();
    let mut edit = set.edit();
    for zone in zones.iter().map(|number| &built.zones[*number]) {
        let id = ZoneId { view: 0, apex: zone.apex.clone() };
        edit.add_records(&id, zone.records.iter().map(|built| &built.record)).unwrap();
        edit.commit_stage(&id).unwrap_or_else(|error| panic!("{}: {error:?}", zone.apex));
    }
    let version = edit.seal();
    set.publish(version);
    set
}
