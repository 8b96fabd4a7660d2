//! A population as TOML.

use super::ClientScheduler;
use super::Server;
use super::draw::Distribution;
use super::known::{plain, unknown_key};
use crate::engine::{ConnectionPolicy, Endpoint, Transport};
use crate::limits::{CLIENTS_MAX, CONNECTION_IN_FLIGHT_DEFAULT, GROUPS_MAX};
use crate::workload::{Extras, Generator, NameDistribution, Popularity};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::number::Rtype;

/// Clients in groups, and what they ask.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "tables of a population")]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// What is asked; without it a query file is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<Queries>,
    /// Ports of servers that are named without one.
    #[serde(default)]
    pub ports: Ports,
    /// The groups.
    pub clients: Vec<Group>,
}

/// What is asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { pattern = \"q{n}.example.com\" }")]
#[serde(deny_unknown_fields)]
pub struct Queries {
    /// A name with `{n}` where its number goes.
    pub pattern: String,
    /// How many names.
    pub names: u64,
    /// `uniform`, `zipf`, `sequential` or `random`.
    #[serde(default = "uniform")]
    pub popularity: String,
    /// Of zipf.
    #[serde(default = "one")]
    pub exponent: f64,
    /// Share of queries, 0 to 1, for names that do not exist.
    #[serde(default)]
    pub nxdomain_share: f64,
    /// Weights of types; A alone otherwise.
    #[serde(default = "only_a")]
    pub types: BTreeMap<String, f64>,
    /// Share of queries with EDNS.
    #[serde(default)]
    pub edns_share: f64,
    /// Share of queries with DO; they have EDNS.
    #[serde(default)]
    pub dnssec_ok_share: f64,
    /// UDP payload size in EDNS.
    #[serde(default = "payload")]
    pub payload: u16,
}

/// Ports by transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { dot = 853 }")]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the fields are the transports")]
pub struct Ports {
    pub udp: u16,
    pub tcp: u16,
    pub dot: u16,
    pub doh: u16,
    pub doq: u16,
}

/// Clients that are alike but for what is drawn for each.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table for each group of clients: [[clients]]")]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// For messages.
    #[serde(default)]
    pub name: String,
    /// How many.
    pub count: usize,
    /// Share of clients by transport.
    pub transports: BTreeMap<Transport, f64>,
    /// Share of clients by server, with or without a port; those of the command line, alike, otherwise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, f64>,
    /// Queries a second of each client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Seconds between an answer and the next query, instead of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Distribution>,
    /// How connections are treated.
    #[serde(default)]
    pub connections: Connections,
    /// Activity and silence in turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// From when to when the group asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
}

/// Queries a second of each client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { distribution = \"constant\", mean = 0.2 }")]
pub struct Rate {
    /// Over the clients.
    #[serde(flatten)]
    pub over: Distribution,
    /// Over time.
    #[serde(default)]
    pub arrivals: Arrivals,
}

/// How one client's queries lie in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(expecting = "poisson or even")]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At random distances.
    #[default]
    Poisson,
    /// At even distances.
    Even,
}

/// How connections are treated; see [`ConnectionPolicy`].
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { idle_timeout_s = 10.0 }")]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the fields are those of ConnectionPolicy")]
pub struct Connections {
    pub reuse: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_max: Option<u64>,
    pub in_flight_max: usize,
    pub resumption: f64,
    pub early_data: f64,
    pub tcp_fallback: bool,
}

/// Activity and silence in turns, each client at its own point of the cycle.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { on_s = 1.0, off_s = 9.0 }")]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Seconds of activity.
    pub on_s: f64,
    /// Seconds of silence.
    pub off_s: f64,
}

/// From when to when.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { start_s = 5.0, stop_s = 20.0 }")]
#[serde(deny_unknown_fields)]
pub struct Active {
    /// Seconds from the start of the run.
    #[serde(default)]
    pub start_s: f64,
    /// Over how many seconds clients join, at even distances.
    #[serde(default)]
    pub ramp_s: f64,
    /// The same; the end of the run otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
}

fn uniform() -> String {
    "uniform".into()
}

fn only_a() -> BTreeMap<String, f64> {
    [("A".to_owned(), 1.0)].into()
}

const fn one() -> f64 {
    1.0
}

const fn payload() -> u16 {
    1_232
}

impl Default for Ports {
    fn default() -> Self {
        let [udp, tcp, dot, doh, doq] = Transport::ALL.map(Transport::default_port);
        Self { udp, tcp, dot, doh, doq }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            reuse: 1.0,
            idle_timeout_s: None,
            queries_max: None,
            in_flight_max: CONNECTION_IN_FLIGHT_DEFAULT,
            resumption: 0.0,
            early_data: 0.0,
            tcp_fallback: true,
        }
    }
}

impl Ports {
    const fn of(&self, transport: Transport) -> u16 {
        match transport {
            Transport::Udp => self.udp,
            Transport::Tcp => self.tcp,
            Transport::Dot => self.dot,
            Transport::Doh => self.doh,
            Transport::Doq => self.doq,
        }
    }
}

impl Population {
    /// Reads a population.
    ///
    /// # Errors
    /// A sentence with the line, when it is no TOML, has a key that is not known, or a value that makes no sense.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let place = |span: Option<std::ops::Range<usize>>| match span {
            Some(span) => format!("line {}: ", line(span.start)),
            None => String::new(),
        };
        let table =
            toml::de::DeTable::parse(text).map_err(|error| format!("{}{}", place(error.span()), error.message()))?;
        if let Some((sentence, span)) = unknown_key("", table.get_ref()) {
            return Err(format!("{}{sentence}", place(Some(span))));
        }
        let population: Self =
            toml::from_str(text).map_err(|error| format!("{}{}", place(error.span()), plain(error.message())))?;
        match population.problem() {
            Some(problem) => Err(problem),
            None => Ok(population),
        }
    }

    /// As TOML.
    ///
    /// # Panics
    /// Never: a population is plain tables, numbers and strings.
    #[must_use]
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("a population is plain tables, numbers and strings")
    }

    /// What types cannot say.
    fn problem(&self) -> Option<String> {
        if self.clients.is_empty() || self.clients.len() > GROUPS_MAX {
            return Some(format!("there must be 1 to {GROUPS_MAX} groups of [[clients]]"));
        }
        let count: usize = self.clients.iter().map(|group| group.count).fold(0, usize::saturating_add);
        if count == 0 || count > CLIENTS_MAX {
            return Some(format!("{count} clients; there must be 1 to {CLIENTS_MAX}"));
        }
        self.clients.iter().enumerate().find_map(|(index, group)| {
            let name = if group.name.is_empty() { format!("{}", index + 1) } else { group.name.clone() };
            group.problem().map(|problem| format!("group {name} of [[clients]]: {problem}"))
        })
    }

    /// The generator of its queries, if it says what is asked.
    ///
    /// # Errors
    /// A sentence, when it makes no sense.
    pub fn generator(&self, extras: Extras, seed: u64) -> Result<Option<Generator>, String> {
        let Some(queries) = &self.queries else { return Ok(None) };
        let popularity = match queries.popularity.as_str() {
            "uniform" => Popularity::Uniform,
            "zipf" => Popularity::Zipf(queries.exponent),
            "sequential" => Popularity::Sequential,
            "random" => Popularity::Random,
            other => return Err(format!("[queries]: popularity {other}: uniform, zipf, sequential or random")),
        };
        let names = NameDistribution {
            pattern: queries.pattern.clone(),
            count: queries.names,
            popularity,
            nxdomain_share: queries.nxdomain_share,
        };
        let rtype = |(name, &weight): (&String, &f64)| {
            let rtype = crate::trace::rtype(name).ok_or_else(|| format!("[queries]: {name} is no type"))?;
            Ok::<(Rtype, f64), String>((rtype, weight))
        };
        let types = queries.types.iter().map(rtype).collect::<Result<Vec<_>, _>>()?;
        let generator = Generator::new(names, &types, extras, seed).map_err(|error| format!("[queries]: {error}"))?;
        let generator = generator.with_shares(queries.edns_share, queries.dnssec_ok_share, queries.payload);
        generator.map(Some).map_err(|error| format!("[queries]: {error}"))
    }

    /// The transports that its clients use.
    #[must_use]
    pub fn transports(&self) -> Vec<Transport> {
        let used = self.clients.iter().flat_map(|group| group.transports.iter());
        let mut used: Vec<_> = used.filter(|(_, share)| **share > 0.0).map(|(transport, _)| *transport).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Every client: its group, whom it asks how, and its rate; drawn from a seed.
    ///
    /// # Errors
    /// A sentence, when a server is no address.
    pub fn members(&self, servers: &[Server], seed: u64) -> Result<Vec<(u16, Endpoint, f64)>, String> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(4_000);
        let mut members = Vec::new();
        for (index, group) in self.clients.iter().enumerate() {
            let own: Vec<(Server, f64)> = if group.servers.is_empty() {
                servers.iter().map(|&server| (server, 1.0)).collect()
            } else {
                let parsed = group.servers.iter().map(|(text, &share)| text.parse().map(|server| (server, share)));
                parsed.collect::<Result<_, String>>()?
            };
            if own.is_empty() {
                return Err("there is no server; name one with --server".into());
            }
            let transports: Vec<_> = group.transports.iter().map(|(&transport, &share)| (transport, share)).collect();
            let rates = match &group.rate {
                Some(rate) => rate.over.draw_all(group.count, &mut rng),
                None => vec![1.0; group.count],
            };
            let transports = shared_out(&transports, group.count, &mut rng);
            let servers = shared_out(&own, group.count, &mut rng);
            for ((rate, transport), server) in rates.into_iter().zip(transports).zip(servers) {
                let server = server.at_or(self.ports.of(transport));
                let endpoint = Endpoint { transport, server, policy: index as u16, source: None };
                // A client that never asks is one that does not ask within this run.
                members.push((index as u16, endpoint, rate.max(1e-9)));
            }
        }
        Ok(members)
    }

    /// The clients of worker `index` of `count`.
    pub(super) fn scheduler_of(
        &self,
        members: &[(u16, Endpoint, f64)],
        (index, count): (usize, usize),
        duration: Duration,
        seed: u64,
    ) -> ClientScheduler {
        let own = members.iter().skip(index).step_by(count).copied().collect();
        let policies = self.clients.iter().map(Group::connection_policy).collect();
        ClientScheduler::new(
            self.clients.clone().into(),
            own,
            policies,
            (index, count),
            duration.as_nanos() as u64,
            seed,
        )
    }
}

/// The clients of a population, with everything about them drawn.
#[derive(Clone, Debug)]
pub struct Clients {
    population: Arc<Population>,
    members: Arc<[(u16, Endpoint, f64)]>,
    seed: u64,
}

impl Clients {
    /// Draws the clients.
    ///
    /// # Errors
    /// As [`Population::members`].
    pub fn new(population: Population, servers: &[Server], seed: u64) -> Result<Self, String> {
        let members = population.members(servers, seed)?.into();
        Ok(Self { population: Arc::new(population), members, seed })
    }

    /// The silence after which clients of every group close; `None` when it is not the same.
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        let mut all = self.population.clients.iter().map(|group| group.connection_policy().idle_timeout);
        let first = all.next().flatten();
        first.filter(|_| all.all(|other| other == first))
    }

    /// The clients of worker `index` of `count`.
    #[must_use]
    pub fn scheduler(&self, index: usize, count: usize, duration: Duration) -> ClientScheduler {
        self.population.scheduler_of(&self.members, (index, count), duration, self.seed)
    }

    /// The same clients, at one server that has an address for each transport.
    #[must_use]
    pub fn toward(&self, address: impl Fn(Transport) -> SocketAddr) -> Self {
        let aim = |&(group, endpoint, rate): &(u16, Endpoint, f64)| {
            (group, Endpoint { server: address(endpoint.transport), ..endpoint }, rate)
        };
        Self { members: self.members.iter().map(aim).collect(), ..self.clone() }
    }

    /// Of each group whether its clients wait for an answer before they think of the next query.
    #[must_use]
    pub fn thinks(&self) -> Vec<bool> {
        self.population.clients.iter().map(|group| group.think.is_some()).collect()
    }

    /// Every client's group, endpoint and rate.
    #[must_use]
    pub fn members(&self) -> &[(u16, Endpoint, f64)] {
        &self.members
    }
}

impl Group {
    /// How its queries lie in time.
    pub(super) fn arrivals(&self) -> Arrivals {
        self.rate.as_ref().map_or(Arrivals::Poisson, |rate| rate.arrivals)
    }

    fn connection_policy(&self) -> ConnectionPolicy {
        let own = &self.connections;
        ConnectionPolicy {
            idle_timeout: own.idle_timeout_s.map(Duration::from_secs_f64),
            queries_max: own.queries_max,
            reuse: own.reuse,
            resumption: own.resumption,
            early_data: own.early_data,
            in_flight_max: own.in_flight_max,
            follows_truncation: own.tcp_fallback,
        }
    }

    fn problem(&self) -> Option<String> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let own = &self.connections;
        for (key, share) in [("reuse", own.reuse), ("resumption", own.resumption), ("early_data", own.early_data)] {
            if !is_share(share) {
                return Some(format!("{key} = {share} is no share; write 0 to 1"));
            }
        }
        let is_positive = |value: f64| value > 0.0 && value.is_finite();
        if own.in_flight_max == 0 || own.queries_max == Some(0) {
            return Some("in_flight_max and queries_max are 1 or more".into());
        }
        if own.idle_timeout_s.is_some_and(|idle| !(is_positive(idle) && idle < 1e6)) {
            return Some("idle_timeout_s is above zero, and below a million".into());
        }
        if self.bursts.is_some_and(|bursts| !is_positive(bursts.on_s) || !(0.0..1e6).contains(&bursts.off_s)) {
            return Some("bursts have on_s above zero and off_s of zero or more".into());
        }
        if self.active.is_some_and(|active| {
            !(0.0..1e6).contains(&active.start_s)
                || !(0.0..1e6).contains(&active.ramp_s)
                || active.stop_s.is_some_and(|stop| stop <= active.start_s)
        }) {
            return Some("active has start_s of zero or more, and stop_s after it".into());
        }
        for (what, shares) in [
            ("transports", self.transports.values().copied().collect::<Vec<_>>()),
            ("servers", self.servers.values().copied().collect()),
        ] {
            let is_empty = shares.is_empty() && what == "servers";
            if !is_empty
                && (shares.iter().any(|share| !(0.0..1e9).contains(share)) || shares.iter().sum::<f64>() <= 0.0)
            {
                return Some(format!("{what} need shares above zero, such as {{ udp = 0.8, dot = 0.2 }}"));
            }
        }
        match (&self.rate, &self.think) {
            (Some(rate), None) => rate.over.problem().map(|problem| format!("rate: {problem}")),
            (None, Some(think)) => think.problem().map(|problem| format!("think: {problem}")),
            (Some(_), Some(_)) => Some("it has both a rate and a think time; write one".into()),
            (None, None) => Some("it has neither a rate nor a think time".into()),
        }
    }
}

/// One of several choices for each of `count`, in proportion to their weights, in random order.
fn shared_out<T: Copy>(choices: &[(T, f64)], count: usize, rng: &mut impl Rng) -> Vec<T> {
    let sum: f64 = choices.iter().map(|(_, share)| share).sum();
    let mut shared = Vec::with_capacity(count);
    let mut up_to = 0.0;
    for &(choice, share) in choices {
        up_to += share;
        let end = (up_to / sum * count as f64).round() as usize;
        shared.resize(end.clamp(shared.len(), count), choice);
    }
    shared.shuffle(rng);
    shared
}

#[cfg(test)]
mod tests;
