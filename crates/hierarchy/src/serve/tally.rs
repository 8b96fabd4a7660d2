//! What the servers of a hierarchy were asked.

use super::directory::Directory;
use crate::limits::{STRANGERS_MAX, UPSTREAM_MAX};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::name::Name;
use wire::number::Rtype;
use zone::answer::{AnswerKind, Answered, Transport};
use zone::text::print_rtype;

/// What was asked of all servers: the sum of what each thread has counted.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Queries in datagrams.
    pub datagram_count: u64,
    /// Queries over TCP.
    pub stream_count: u64,
    /// Answers that did not fit into a datagram.
    pub truncated_count: u64,
    /// Messages without an answer, or with an error alone: they are no queries.
    pub other_count: u64,
    /// Queries that a server under test did not answer.
    pub silent_count: u64,
    /// Queries for names that no zone of the server asked has.
    pub elsewhere_count: u64,
    /// Answers by what they were.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Queries by the number of the zone that answered.
    pub zones: BTreeMap<usize, u64>,
    /// Queries by the number of the server.
    pub servers: BTreeMap<usize, u64>,
    /// Addresses that no zone names, the first ones.
    pub strangers: BTreeMap<IpAddr, Stranger>,
    /// Queries to others of them.
    pub stranger_beyond_count: u64,
    /// Each query, the first ones, where that was asked for.
    pub upstream: Vec<Upstream>,
    /// How many there were beyond.
    pub upstream_beyond_count: u64,
    keeps_upstream: bool,
}

/// An address that no zone names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stranger {
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
    /// When it came, by the clock of whoever took it in.
    pub at_ns: u64,
    /// Whom it was sent to.
    pub server: IpAddr,
    /// Over what.
    pub transport: Transport,
    /// QNAME, case kept.
    pub name: Name,
    /// QTYPE.
    pub rtype: Rtype,
    /// The number of the zone that answered.
    pub zone: Option<usize>,
    /// What the answer was.
    pub kind: AnswerKind,
}

/// A query and what was found for it.
pub(super) struct Noted<'n> {
    pub(super) at_ns: u64,
    pub(super) address: IpAddr,
    pub(super) transport: Transport,
    pub(super) name: Name,
    pub(super) rtype: Rtype,
    /// The number of the server, if there is one.
    pub(super) server: Option<usize>,
    /// The number of the zone, if there is one.
    pub(super) zone: Option<usize>,
    pub(super) answered: &'n Answered,
}

impl Tally {
    pub(super) fn new(keeps_upstream: bool) -> Self {
        Self { keeps_upstream, ..Self::default() }
    }

    /// Queries in all.
    #[must_use]
    pub fn query_count(&self) -> u64 {
        self.datagram_count + self.stream_count
    }

    /// Queries to addresses that no zone names.
    #[must_use]
    pub fn stranger_count(&self) -> u64 {
        self.strangers.values().map(|stranger| stranger.count).sum::<u64>() + self.stranger_beyond_count
    }

    pub(super) fn note(&mut self, noted: Noted<'_>) {
        match noted.transport {
            Transport::Udp => self.datagram_count += 1,
            Transport::Tcp => self.stream_count += 1,
        }
        self.truncated_count += u64::from(noted.answered.truncated);
        *self.kinds.entry(noted.answered.kind.label()).or_default() += 1;
        match (noted.server, noted.zone) {
            (None, _) => self.note_stranger(&noted),
            (Some(server), zone) => {
                *self.servers.entry(server).or_default() += 1;
                match zone {
                    Some(zone) => *self.zones.entry(zone).or_default() += 1,
                    None => self.elsewhere_count += 1,
                }
            }
        }
        if self.keeps_upstream {
            self.keep(Upstream {
                at_ns: noted.at_ns,
                server: noted.address,
                transport: noted.transport,
                name: noted.name,
                rtype: noted.rtype,
                zone: noted.zone,
                kind: noted.answered.kind,
            });
        }
    }

    fn note_stranger(&mut self, noted: &Noted<'_>) {
        if self.strangers.len() == STRANGERS_MAX && !self.strangers.contains_key(&noted.address) {
            self.stranger_beyond_count += 1;
            return;
        }
        let new = || Stranger { count: 0, name: noted.name.clone(), rtype: noted.rtype };
        self.strangers.entry(noted.address).or_insert_with(new).count += 1;
    }

    fn keep(&mut self, upstream: Upstream) {
        match self.upstream.len() < UPSTREAM_MAX {
            true => self.upstream.push(upstream),
            false => self.upstream_beyond_count += 1,
        }
    }

    /// Adds what another thread has counted; queries are in the order of time afterwards.
    pub fn add(&mut self, other: Self) {
        self.datagram_count += other.datagram_count;
        self.stream_count += other.stream_count;
        self.truncated_count += other.truncated_count;
        self.other_count += other.other_count;
        self.silent_count += other.silent_count;
        self.elsewhere_count += other.elsewhere_count;
        self.stranger_beyond_count += other.stranger_beyond_count;
        self.upstream_beyond_count += other.upstream_beyond_count;
        add_counts(&mut self.kinds, other.kinds);
        add_counts(&mut self.zones, other.zones);
        add_counts(&mut self.servers, other.servers);
        for (address, stranger) in other.strangers {
            let known = self.strangers.entry(address).or_insert(Stranger { count: 0, ..stranger });
            known.count += stranger.count;
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

/// A tally in words, for JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// Queries in all.
    pub queries: u64,
    /// Of these: over TCP.
    pub over_tcp: u64,
    /// Answers that did not fit into a datagram.
    pub truncated: u64,
    /// Messages that were no queries.
    pub no_queries: u64,
    /// Queries that a server under test did not answer.
    pub unanswered_by_backend: u64,
    /// Queries for names that no zone of the server asked has.
    pub names_elsewhere: u64,
    /// Queries to addresses that no zone names.
    pub to_unnamed_addresses: u64,
    /// Answers by what they were.
    pub answers: BTreeMap<&'static str, u64>,
    /// Queries by zone, the most first.
    pub zones: Vec<ToldZone>,
    /// Queries by address, the most first.
    pub servers: Vec<ToldServer>,
    /// Addresses that no zone names.
    pub unnamed_addresses: Vec<ToldStranger>,
}

/// A zone that was asked.
#[derive(Clone, Debug, Serialize)]
pub struct ToldZone {
    /// Its apex.
    pub zone: String,
    /// How often.
    pub queries: u64,
}

/// A server that was asked.
#[derive(Clone, Debug, Serialize)]
pub struct ToldServer {
    /// Its address.
    pub address: IpAddr,
    /// A zone of it.
    pub zone: String,
    /// How many zones it has.
    pub zone_count: usize,
    /// How often.
    pub queries: u64,
}

/// An address that no zone names.
#[derive(Clone, Debug, Serialize)]
pub struct ToldStranger {
    /// It.
    pub address: IpAddr,
    /// How often.
    pub queries: u64,
    /// The first name that was asked for there.
    pub name: String,
    /// Its type.
    pub rtype: String,
}

impl Told {
    /// Of a tally.
    #[must_use]
    pub fn new(tally: &Tally, directory: &Directory) -> Self {
        let mut zones: Vec<_> = tally
            .zones
            .iter()
            .map(|(&zone, &queries)| ToldZone { zone: directory.apex(zone).to_string(), queries })
            .collect();
        zones.sort_by_key(|zone| std::cmp::Reverse(zone.queries));
        let server = |(&server, &queries): (&usize, &u64)| {
            let mut zones = directory.zones_of(server);
            let zone_count = zones.len();
            let zone = zones.next().map_or_else(String::new, |zone| directory.apex(zone).to_string());
            ToldServer { address: directory.address(server), zone, zone_count, queries }
        };
        let mut servers: Vec<_> = tally.servers.iter().map(server).collect();
        servers.sort_by_key(|server| std::cmp::Reverse(server.queries));
        let stranger = |(&address, stranger): (&IpAddr, &Stranger)| {
            let mut rtype = String::new();
            print_rtype(stranger.rtype, &mut rtype);
            ToldStranger { address, queries: stranger.count, name: stranger.name.to_string(), rtype }
        };
        Self {
            queries: tally.query_count(),
            over_tcp: tally.stream_count,
            truncated: tally.truncated_count,
            no_queries: tally.other_count,
            unanswered_by_backend: tally.silent_count,
            names_elsewhere: tally.elsewhere_count,
            to_unnamed_addresses: tally.stranger_count(),
            answers: tally.kinds.clone(),
            zones,
            servers,
            unnamed_addresses: tally.strangers.iter().map(stranger).collect(),
        }
    }
}
