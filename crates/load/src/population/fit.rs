//! Fits a population to a trace. It can be shared where the trace cannot.
//!
//! Clients are addresses. Keeps only the rate of each client, whether it asks at even intervals, the number and
//! popularity of names, the shares of types, transports, EDNS and DO, and the share of NXDOMAIN.

use super::capture::{Capture, Observed};
use super::file::{Arrivals, Connections, Group, Population, Ports, Queries, Rate};
use super::{Distribution, names::fit_names};
use measure::Transport;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use trace::Transport as Seen;
use wire::number::{Rcode, Rtype};

/// Share of the busiest clients, which are a group of their own.
const HEAVY_SHARE: f64 = 0.01;
/// Clients with fewer queries have too few intervals to tell whether they are even.
const EVEN_QUERIES_MIN: u64 = 6;
/// Minimum share of the trace that its queries span.
const EVEN_SPAN_MIN: f64 = 0.5;
/// Maximum standard deviation of even intervals, relative to their mean. Poisson arrivals have 1.
const EVEN_DEVIATION_MAX: f64 = 0.2;
/// Maximum number of quantiles of rates for a group.
const QUANTILE_COUNT_MAX: usize = 101;
/// Default EDNS payload size.
const PAYLOAD_DEFAULT: u16 = 1_232;

/// The properties of a query.
struct Query {
    name: Vec<u8>,
    rtype: Rtype,
    payload: Option<u16>,
    is_dnssec_ok: bool,
    /// Whether its response was NXDOMAIN. `None` if it was not captured.
    is_nxdomain: Option<bool>,
}

/// Fits a population.
///
/// # Errors
/// If the trace has no readable query, or all have the same time.
pub fn fit(trace: &Capture) -> Result<Population, String> {
    let answered: BTreeMap<_, _> = trace.responses.iter().filter_map(answer).collect();
    let queries = trace.queries.iter().filter_map(|observed| {
        let query = read(&observed.bytes)?;
        Some((observed, Query { is_nxdomain: answered.get(&identity(observed)?).copied(), ..query }))
    });
    let queries: Vec<(&Observed, Query)> = queries.collect();
    let times = queries.iter().map(|(observed, _)| observed.at);
    let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
        return Err("the trace holds no query that can be read".into());
    };
    // `count` queries have `count - 1` intervals.
    let seconds = (last - first).as_secs_f64() * queries.len() as f64 / (queries.len() as f64 - 1.0).max(1.0);
    if seconds <= 0.0 {
        return Err("all queries of the trace are of the same moment: there is no rate".into());
    }
    let connections = connections(&trace.queries);
    Ok(Population {
        queries: Some(fit_queries(&queries)),
        ports: Ports::default(),
        clients: groups(&queries, seconds, &connections),
    })
}

/// The question and EDNS of a query. `None` if the message is not a query with one question.
fn read(message: &[u8]) -> Option<Query> {
    let count = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    if message.len() < 12 || message[2] & 0xF8 != 0 || count(4)? != 1 {
        return None;
    }
    let (name, rtype) = question(message)?;
    let at = 12 + name.len() - 1;
    // OPT is the only additional record of most queries: root, type 41, payload size, extended RCODE, version, flags.
    let opt = message.get(at + 5..).filter(|rest| count(10) != Some(0) && rest.starts_with(&[0, 0, 41]));
    let payload = opt.and_then(|opt| Some(u16::from_be_bytes([*opt.get(3)?, *opt.get(4)?])));
    let is_dnssec_ok = opt.and_then(|opt| opt.get(7)).is_some_and(|flags| flags & 0x80 != 0);
    Some(Query { name: name.to_ascii_lowercase(), rtype, payload, is_dnssec_ok, is_nxdomain: None })
}

/// Name and type of the first question.
fn question(message: &[u8]) -> Option<(&[u8], Rtype)> {
    let mut at = 12;
    while *message.get(at)? != 0 {
        if message[at] > 63 {
            return None;
        }
        at += 1 + usize::from(message[at]);
    }
    let rtype = message.get(at + 1..at + 3)?;
    Some((message.get(12..=at)?, Rtype(u16::from_be_bytes([rtype[0], rtype[1]]))))
}

/// Matches a response with its query: client, port, ID, name and type.
type Identity = (IpAddr, u16, [u8; 2], Vec<u8>, u16);

fn identity(observed: &Observed) -> Option<Identity> {
    let message = &observed.bytes;
    let (name, rtype) = question(message)?;
    Some((observed.client, observed.port, *message.first_chunk()?, name.to_ascii_lowercase(), rtype.0))
}

/// A response, and whether it is NXDOMAIN (RFC 1035 4.1.1).
fn answer(observed: &Observed) -> Option<(Identity, bool)> {
    let rcode = Rcode(u16::from(observed.bytes.get(3)? & 0x0F));
    Some((identity(observed)?, rcode == Rcode::NXDOMAIN))
}

fn fit_queries(queries: &[(&Observed, Query)]) -> Queries {
    let count = queries.len() as f64;
    let mut names: BTreeMap<&[u8], u64> = BTreeMap::new();
    let mut types: BTreeMap<String, f64> = BTreeMap::new();
    let mut payloads: BTreeMap<u16, u64> = BTreeMap::new();
    let answers = queries.iter().filter_map(|(_, observed)| observed.is_nxdomain);
    let (answered, missing) = answers.fold((0u64, 0u64), |sum, is_missing| (sum.0 + 1, sum.1 + u64::from(is_missing)));
    // Names that do not exist are drawn separately, unless all names are of this kind.
    let has_others = queries.iter().any(|(_, observed)| observed.is_nxdomain != Some(true));
    for (_, observed) in queries {
        if observed.is_nxdomain != Some(true) || !has_others {
            *names.entry(&observed.name).or_default() += 1;
        }
        let mnemonic = observed.rtype.mnemonic().map_or_else(|| format!("TYPE{}", observed.rtype.0), str::to_owned);
        *types.entry(mnemonic).or_default() += 1.0 / count;
        observed.payload.into_iter().for_each(|payload| *payloads.entry(payload).or_default() += 1);
    }
    let share =
        |which: &dyn Fn(&Query) -> bool| queries.iter().filter(|(_, observed)| which(observed)).count() as f64 / count;
    let payload = payloads.iter().max_by_key(|(_, count)| **count).map_or(PAYLOAD_DEFAULT, |(payload, _)| *payload);
    let fitted = fit_names(names.into_values().collect());
    Queries {
        pattern: "q{n}.example.com".into(),
        names: fitted.count,
        popularity: if fitted.exponent < 0.01 { "uniform" } else { "zipf" }.into(),
        exponent: fitted.exponent.max(0.01),
        nxdomain_share: round(missing as f64 / (answered as f64).max(1.0)),
        types: types.into_iter().map(|(name, share)| (name, round(share))).collect(),
        edns_share: round(share(&|observed| observed.payload.is_some())),
        dnssec_ok_share: round(share(&|observed| observed.is_dnssec_ok)),
        payload,
    }
}

fn groups(queries: &[(&Observed, Query)], seconds: f64, connections: &Connections) -> Vec<Group> {
    let mut seen: BTreeMap<IpAddr, Client> = BTreeMap::new();
    for (observed, _) in queries {
        seen.entry(observed.client).or_default().add(observed);
    }
    let mut clients: Vec<Client> = seen.into_values().collect();
    clients.sort_unstable_by_key(|client| (client.queries, client.over_tcp));
    let heavy = (clients.len() as f64 * HEAVY_SHARE).ceil() as usize;
    let heavy = clients.split_off(clients.len() - heavy);
    let mut groups = Vec::new();
    for (name, clients) in [("light", clients), ("heavy", heavy)] {
        let (even, random): (Vec<_>, Vec<_>) = clients.into_iter().partition(|client| client.is_even(seconds));
        let parts = [(name.to_owned(), random, Arrivals::Poisson), (format!("{name}-even"), even, Arrivals::Even)];
        let parts = parts.into_iter().filter(|(_, clients, _)| !clients.is_empty());
        groups.extend(parts.map(|(name, clients, arrivals)| group(name, &clients, arrivals, seconds, *connections)));
    }
    groups
}

/// The queries of a client.
#[derive(Clone, Copy, Default)]
struct Client {
    queries: u64,
    over_tcp: u64,
    /// The time of its last query so far.
    last: Option<Duration>,
    /// Sums of the intervals between its queries, in seconds, and of their squares.
    intervals: [f64; 2],
}

impl Client {
    fn add(&mut self, observed: &Observed) {
        self.queries += 1;
        self.over_tcp += u64::from(observed.transport == Seen::Tcp);
        if let Some(last) = self.last.replace(observed.at) {
            let interval = observed.at.saturating_sub(last).as_secs_f64();
            self.intervals[0] += interval;
            self.intervals[1] += interval * interval;
        }
    }

    /// Whether it asks at even intervals, in a trace of this length.
    fn is_even(&self, seconds: f64) -> bool {
        let count = self.queries.saturating_sub(1) as f64;
        let [mean, mean_square] = self.intervals.map(|sum| sum / count);
        let deviation = (mean_square - mean * mean).max(0.0).sqrt();
        // A burst of queries may be even too.
        let is_long = self.intervals[0] >= EVEN_SPAN_MIN * seconds;
        self.queries >= EVEN_QUERIES_MIN && is_long && deviation <= EVEN_DEVIATION_MAX * mean
    }
}

/// A group of these clients, which are sorted by their number of queries.
fn group(name: String, clients: &[Client], arrivals: Arrivals, seconds: f64, connections: Connections) -> Group {
    let sum = |count: fn(&Client) -> u64| clients.iter().map(count).sum::<u64>() as f64;
    let tcp = sum(|client| client.over_tcp) / sum(|client| client.queries);
    let shares = [(Transport::Udp, 1.0 - tcp), (Transport::Tcp, tcp)];
    let rates: Vec<f64> = clients.iter().map(|client| client.queries as f64 / seconds).collect();
    Group {
        name,
        count: clients.len(),
        transports: shares
            .into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(own, share)| (own, round(share)))
            .collect(),
        servers: BTreeMap::new(),
        rate: Some(Rate { over: quantiles(&rates), arrivals }),
        think: None,
        connections,
        bursts: None,
        active: None,
    }
}

/// Sorted rates as quantiles with the same mean.
fn quantiles(rates: &[f64]) -> Distribution {
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    if rates.len() == 1 || rates.first() == rates.last() {
        return Distribution::Constant { mean };
    }
    let count = rates.len().min(QUANTILE_COUNT_MAX);
    let at = |index: usize| rates[(index * (rates.len() - 1) + (count - 1) / 2) / (count - 1)];
    let mut kept: Vec<f64> = (0..count).map(at).collect();
    // Linear interpolation overestimates a distribution with a long tail.
    if rates.len() > count {
        let drawn = kept.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).sum::<f64>() / (count - 1) as f64;
        kept.iter_mut().for_each(|rate| *rate *= mean / drawn);
    }
    Distribution::Quantiles { quantiles: kept }
}

/// The number of queries per TCP connection.
fn connections(trace: &[Observed]) -> Connections {
    let over_tcp = trace.iter().filter(|observed| observed.transport == Seen::Tcp);
    let streams: BTreeSet<_> = over_tcp.clone().map(|observed| (observed.client, observed.port)).collect();
    let mean = over_tcp.count() as f64 / streams.len() as f64;
    Connections { queries_max: (mean >= 1.0).then_some(mean.round() as u64), ..Connections::default() }
}

/// Rounds to six digits, which is precise enough and readable.
fn round(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_clients_ask_at_equal_intervals_through_the_whole_trace() {
        let is_even = |times: &[f64]| {
            let mut client = Client::default();
            for at in times {
                let (client_address, at) = (IpAddr::from([192, 0, 2, 1]), Duration::from_secs_f64(*at));
                let transport = Seen::Udp;
                client.add(&Observed { at, client: client_address, port: 5_300, transport, bytes: Vec::new() });
            }
            client.is_even(60.0)
        };
        assert!(is_even(&[3.0, 13.1, 22.9, 33.0, 43.0, 53.2]));
        assert!(!is_even(&[3.0, 13.0, 23.0, 33.0, 43.0]), "too few");
        assert!(!is_even(&[3.0, 5.0, 23.0, 24.0, 50.0, 53.0]), "at random times");
        assert!(!is_even(&[3.0, 3.1, 3.2, 3.3, 3.4, 3.5]), "a burst");
        assert!(!is_even(&[3.0; 6]), "at one moment");
    }
}
