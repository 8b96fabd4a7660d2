//! Populations as TOML.

mod check;
mod clients;

pub use clients::Clients;

use super::draw::Distribution;
use super::known::{TABLES, plain_message};
use super::{ClientScheduler, Server};
use crate::engine::ConnectionPolicy;
use crate::limits::CONNECTION_IN_FLIGHT_DEFAULT;
use crate::workload::{Extras, Generator, NameDistribution, Popularity};
use measure::Transport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use toml_keys::{KnownKeys, UnknownKey, line_at};
use wire::number::Rtype;

/// Groups of clients and their queries.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "tables of a population")]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// The queries. Without them a query file is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<Queries>,
    /// Default ports of servers.
    #[serde(default)]
    pub ports: Ports,
    /// The groups.
    pub clients: Vec<Group>,
}

/// The queries of a population.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { pattern = \"q{n}.example.com\" }")]
#[serde(deny_unknown_fields)]
pub struct Queries {
    /// A name in which `{n}` is replaced by a number.
    pub pattern: String,
    /// Number of names.
    pub names: u64,
    /// `uniform`, `zipf`, `sequential` or `random`.
    #[serde(default = "uniform")]
    pub popularity: String,
    /// Exponent of zipf.
    #[serde(default = "one")]
    pub exponent: f64,
    /// Share of queries, 0 to 1, for names that do not exist.
    #[serde(default)]
    pub nxdomain_share: f64,
    /// Weights of types. The default is only A.
    #[serde(default = "only_a")]
    pub types: BTreeMap<String, f64>,
    /// Share of queries with EDNS.
    #[serde(default)]
    pub edns_share: f64,
    /// Share of queries with DO. They also have EDNS.
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

/// Clients with equal properties, except those drawn for each client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table for each group of clients: [[clients]]")]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name in messages.
    #[serde(default)]
    pub name: String,
    /// Number of clients.
    pub count: usize,
    /// Share of clients by transport.
    pub transports: BTreeMap<Transport, f64>,
    /// Share of clients by server, with an optional port. By default, those of the command line in equal shares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, f64>,
    /// Queries per second of each client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Seconds between an answer and the next query, instead of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Distribution>,
    /// How connections are used.
    #[serde(default)]
    pub connections: Connections,
    /// Alternating activity and silence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// When the group is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Active>,
}

/// Queries per second of each client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { distribution = \"constant\", mean = 0.2 }")]
pub struct Rate {
    /// The distribution over the clients.
    #[serde(flatten)]
    pub over: Distribution,
    /// The distribution over time.
    #[serde(default)]
    pub arrivals: Arrivals,
}

/// The intervals between queries of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(expecting = "poisson or even")]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Random intervals.
    #[default]
    Poisson,
    /// Even intervals.
    Even,
}

/// How connections are used. See [`ConnectionPolicy`].
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

/// Alternating activity and silence. Each client starts at its own point of the cycle.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { on_s = 1.0, off_s = 9.0 }")]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Seconds of activity.
    pub on_s: f64,
    /// Seconds of silence.
    pub off_s: f64,
}

/// The active time of a group.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(expecting = "a table such as { start_s = 5.0, stop_s = 20.0 }")]
#[serde(deny_unknown_fields)]
pub struct Active {
    /// Start in seconds from the start of the run.
    #[serde(default)]
    pub start_s: f64,
    /// Seconds over which clients join, at even intervals.
    #[serde(default)]
    pub ramp_s: f64,
    /// Stop in seconds from the start of the run. The default is the end of the run.
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
    /// Parses a population.
    ///
    /// # Errors
    /// If the text is not TOML, or has an unknown key or an invalid value. The error has the line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let line_prefix = |span: Option<std::ops::Range<usize>>| match span {
            Some(span) => format!("line {}: ", line_at(text, span.start)),
            None => String::new(),
        };
        let table = toml::de::DeTable::parse(text)
            .map_err(|error| format!("{}{}", line_prefix(error.span()), error.message()))?;
        let known = KnownKeys { tables: TABLES, renamed: &[] };
        if let Some(UnknownKey { what, hint, span }) = known.first_unknown(table.get_ref()) {
            return Err(format!("{}{what}; {hint}", line_prefix(Some(span))));
        }
        let population: Self = toml::from_str(text)
            .map_err(|error| format!("{}{}", line_prefix(error.span()), plain_message(error.message())))?;
        match population.problem() {
            Some(problem) => Err(problem),
            None => Ok(population),
        }
    }

    /// Formats the population as TOML.
    ///
    /// # Panics
    /// Never: a population is plain tables, numbers and strings.
    #[must_use]
    pub fn to_text(&self) -> String {
        toml::to_string(self).expect("a population is plain tables, numbers and strings")
    }

    /// The generator of its queries, if it has any.
    ///
    /// # Errors
    /// If a value is invalid.
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
            let rtype = trace::rtype(name).ok_or_else(|| format!("[queries]: {name} is not a type"))?;
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
}

impl Group {
    /// The intervals between queries of a client.
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
}

#[cfg(test)]
mod tests;
