//! Counts of the queries to the servers of a hierarchy.

use super::directory::Directory;
use crate::limits::{UNNAMED_ADDRESSES_MAX, UPSTREAM_MAX};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::name::Name;
use wire::number::Rtype;
use zone::answer::{AnswerKind, ResponseInfo, Transport};
use zone::text::print_rtype;

/// The sum of the counts of all threads.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Queries in datagrams.
    pub datagram_count: u64,
    /// Queries over TCP.
    pub stream_count: u64,
    /// Answers that did not fit into a datagram.
    pub truncated_count: u64,
    /// Messages that got no answer or only an error, and do not count as queries.
    pub other_count: u64,
    /// Queries that a server under test did not answer.
    pub silent_count: u64,
    /// Queries for names outside all zones of the queried server.
    pub elsewhere_count: u64,
    /// Answers by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Queries by number of the zone.
    pub zones: BTreeMap<usize, u64>,
    /// Queries by number of the server.
    pub servers: BTreeMap<usize, u64>,
    /// The first addresses that no zone names.
    pub unnamed_addresses: BTreeMap<IpAddr, UnnamedAddress>,
    /// Queries to further such addresses.
    pub unnamed_beyond_count: u64,
    /// The first queries, if they are recorded.
    pub upstream: Vec<Upstream>,
    /// Number of further queries.
    pub upstream_beyond_count: u64,
    keeps_upstream: bool,
}

/// An address that no zone names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnnamedAddress {
    /// Queries to it.
    pub count: u64,
    /// The first question.
    pub name: Name,
    /// Its type.
    pub rtype: Rtype,
}

/// A query to one of the servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Upstream {
    /// Time by the clock of the receiver.
    pub at_ns: u64,
    /// Destination address.
    pub server: IpAddr,
    /// Transport.
    pub transport: Transport,
    /// QNAME, with its case.
    pub name: Name,
    /// QTYPE.
    pub rtype: Rtype,
    /// Number of the zone that answered.
    pub zone: Option<usize>,
    /// Kind of the answer.
    pub kind: AnswerKind,
}

/// A query and its result.
pub(super) struct QueryResult<'n> {
    pub(super) at_ns: u64,
    pub(super) address: IpAddr,
    pub(super) transport: Transport,
    pub(super) name: Name,
    pub(super) rtype: Rtype,
    /// Number of the server, if there is one.
    pub(super) server: Option<usize>,
    /// Number of the zone, if there is one.
    pub(super) zone: Option<usize>,
    pub(super) answered: &'n ResponseInfo,
}

impl Tally {
    pub(super) fn new(keeps_upstream: bool) -> Self {
        Self { keeps_upstream, ..Self::default() }
    }

    /// Number of queries.
    #[must_use]
    pub fn query_count(&self) -> u64 {
        self.datagram_count + self.stream_count
    }

    /// Queries to addresses that no zone names.
    #[must_use]
    pub fn unnamed_address_count(&self) -> u64 {
        self.unnamed_addresses.values().map(|unnamed| unnamed.count).sum::<u64>() + self.unnamed_beyond_count
    }

    pub(super) fn note(&mut self, result: QueryResult<'_>) {
        match result.transport {
            Transport::Udp => self.datagram_count += 1,
            Transport::Tcp => self.stream_count += 1,
        }
        self.truncated_count += u64::from(result.answered.truncated);
        *self.kinds.entry(result.answered.kind.label()).or_default() += 1;
        match (result.server, result.zone) {
            (None, _) => self.note_unnamed_address(&result),
            (Some(server), zone) => {
                *self.servers.entry(server).or_default() += 1;
                match zone {
                    Some(zone) => *self.zones.entry(zone).or_default() += 1,
                    None => self.elsewhere_count += 1,
                }
            }
        }
        if self.keeps_upstream {
            self.keep_upstream(Upstream {
                at_ns: result.at_ns,
                server: result.address,
                transport: result.transport,
                name: result.name,
                rtype: result.rtype,
                zone: result.zone,
                kind: result.answered.kind,
            });
        }
    }

    fn note_unnamed_address(&mut self, result: &QueryResult<'_>) {
        if self.unnamed_addresses.len() == UNNAMED_ADDRESSES_MAX
            && !self.unnamed_addresses.contains_key(&result.address)
        {
            self.unnamed_beyond_count += 1;
            return;
        }
        let new = || UnnamedAddress { count: 0, name: result.name.clone(), rtype: result.rtype };
        self.unnamed_addresses.entry(result.address).or_insert_with(new).count += 1;
    }

    fn keep_upstream(&mut self, upstream: Upstream) {
        match self.upstream.len() < UPSTREAM_MAX {
            true => self.upstream.push(upstream),
            false => self.upstream_beyond_count += 1,
        }
    }

    /// Adds the counts of another thread. Sorts the queries by time.
    pub fn add(&mut self, other: Self) {
        self.datagram_count += other.datagram_count;
        self.stream_count += other.stream_count;
        self.truncated_count += other.truncated_count;
        self.other_count += other.other_count;
        self.silent_count += other.silent_count;
        self.elsewhere_count += other.elsewhere_count;
        self.unnamed_beyond_count += other.unnamed_beyond_count;
        self.upstream_beyond_count += other.upstream_beyond_count;
        add_counts(&mut self.kinds, other.kinds);
        add_counts(&mut self.zones, other.zones);
        add_counts(&mut self.servers, other.servers);
        for (address, unnamed) in other.unnamed_addresses {
            let known = self.unnamed_addresses.entry(address).or_insert(UnnamedAddress { count: 0, ..unnamed });
            known.count += unnamed.count;
        }
        self.upstream.extend(other.upstream);
        self.upstream.sort_by_key(|upstream| upstream.at_ns);
    }
}

fn add_counts<K: Ord>(counts: &mut BTreeMap<K, u64>, others: BTreeMap<K, u64>) {
    for (key, count) in others {
        *counts.entry(key).or_default() += count;
    }
}

/// The counts in the form of the JSON report.
#[derive(Clone, Debug, Serialize)]
pub struct TallyReport {
    /// Number of queries.
    pub queries: u64,
    /// Queries over TCP.
    pub over_tcp: u64,
    /// Answers that did not fit into a datagram.
    pub truncated: u64,
    /// Messages that do not count as queries.
    pub no_queries: u64,
    /// Queries that a server under test did not answer.
    pub unanswered_by_backend: u64,
    /// Queries for names outside all zones of the queried server.
    pub names_elsewhere: u64,
    /// Queries to addresses that no zone names.
    pub to_unnamed_addresses: u64,
    /// Answers by kind.
    pub answers: BTreeMap<&'static str, u64>,
    /// Queries by zone, highest first.
    pub zones: Vec<ZoneQueries>,
    /// Queries by address, highest first.
    pub servers: Vec<ServerQueries>,
    /// Addresses that no zone names.
    pub unnamed_addresses: Vec<UnnamedAddressQueries>,
}

/// A queried zone.
#[derive(Clone, Debug, Serialize)]
pub struct ZoneQueries {
    /// Its apex.
    pub zone: String,
    /// Number of queries.
    pub queries: u64,
}

/// A queried server.
#[derive(Clone, Debug, Serialize)]
pub struct ServerQueries {
    /// Its address.
    pub address: IpAddr,
    /// A zone of it.
    pub zone: String,
    /// How many zones it has.
    pub zone_count: usize,
    /// Number of queries.
    pub queries: u64,
}

/// An address that no zone names.
#[derive(Clone, Debug, Serialize)]
pub struct UnnamedAddressQueries {
    /// The address.
    pub address: IpAddr,
    /// Number of queries.
    pub queries: u64,
    /// The first queried name.
    pub name: String,
    /// Its type.
    pub rtype: String,
}

impl TallyReport {
    /// Of a tally.
    #[must_use]
    pub fn new(tally: &Tally, directory: &Directory) -> Self {
        let mut zones: Vec<_> = tally
            .zones
            .iter()
            .map(|(&zone, &queries)| ZoneQueries { zone: directory.apex(zone).to_string(), queries })
            .collect();
        zones.sort_by_key(|zone| std::cmp::Reverse(zone.queries));
        let server = |(&server, &queries): (&usize, &u64)| {
            let mut zones = directory.zones_of(server);
            let zone_count = zones.len();
            let zone = zones.next().map_or_else(String::new, |zone| directory.apex(zone).to_string());
            ServerQueries { address: directory.address(server), zone, zone_count, queries }
        };
        let mut servers: Vec<_> = tally.servers.iter().map(server).collect();
        servers.sort_by_key(|server| std::cmp::Reverse(server.queries));
        let unnamed = |(&address, unnamed): (&IpAddr, &UnnamedAddress)| {
            let mut rtype = String::new();
            print_rtype(unnamed.rtype, &mut rtype);
            UnnamedAddressQueries { address, queries: unnamed.count, name: unnamed.name.to_string(), rtype }
        };
        Self {
            queries: tally.query_count(),
            over_tcp: tally.stream_count,
            truncated: tally.truncated_count,
            no_queries: tally.other_count,
            unanswered_by_backend: tally.silent_count,
            names_elsewhere: tally.elsewhere_count,
            to_unnamed_addresses: tally.unnamed_address_count(),
            answers: tally.kinds.clone(),
            zones,
            servers,
            unnamed_addresses: tally.unnamed_addresses.iter().map(unnamed).collect(),
        }
    }
}
