//! A population out of a trace: it can be shared where the trace cannot.
//!
//! Clients are addresses. What is kept of each is its rate; of names only how many there are and how popularity falls;
//! of queries the shares of types, transports, EDNS and DO.

use super::file::{Arrivals, Connections, Group, Population, Ports, Queries, Rate};
use super::{Distribution, names::fit_names};
use crate::engine::Transport;
use crate::trace::{Observed, Transport as Seen};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use wire::number::Rtype;

/// Share of clients that are a group of their own: the heaviest.
const HEAVY_SHARE: f64 = 0.01;
/// Quantiles of rates that are kept for a group with more clients.
const QUANTILE_COUNT_MAX: usize = 101;
/// EDNS payload size when none was seen.
const PAYLOAD_DEFAULT: u16 = 1_232;

/// What is seen in a query.
struct Query {
    name: Vec<u8>,
    rtype: Rtype,
    payload: Option<u16>,
    is_dnssec_ok: bool,
}

/// Fits a population.
///
/// # Errors
/// A sentence, when the trace holds too little: no query that can be read, or all at the same time.
pub fn fit(trace: &[Observed]) -> Result<Population, String> {
    let queries: Vec<(&Observed, Query)> =
        trace.iter().filter_map(|observed| read(&observed.recorded.octets).map(|seen| (observed, seen))).collect();
    let times = queries.iter().map(|(observed, _)| observed.at);
    let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
        return Err("the trace holds no query that can be read".into());
    };
    // `count` queries end `count - 1` distances.
    let seconds = (last - first).as_secs_f64() * queries.len() as f64 / (queries.len() as f64 - 1.0).max(1.0);
    if seconds <= 0.0 {
        return Err("all queries of the trace are of the same moment: there is no rate".into());
    }
    let connections = connections(trace);
    Ok(Population {
        queries: Some(asked(&queries)),
        ports: Ports::default(),
        clients: groups(&queries, seconds, &connections),
    })
}

/// The question and EDNS of a query; `None` for what is no query of one question.
fn read(message: &[u8]) -> Option<Query> {
    let count = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    if message.len() < 12 || message[2] & 0xF8 != 0 || count(4)? != 1 {
        return None;
    }
    let mut at = 12;
    while *message.get(at)? != 0 {
        if message[at] > 63 {
            return None;
        }
        at += 1 + usize::from(message[at]);
    }
    let name = message.get(12..=at)?.to_ascii_lowercase();
    let rtype = Rtype(count(at + 1)?);
    // OPT is the only record of most queries: root, type 41, payload size, extended RCODE, version, flags.
    let opt = message.get(at + 5..).filter(|rest| count(10) != Some(0) && rest.starts_with(&[0, 0, 41]));
    let payload = opt.and_then(|opt| Some(u16::from_be_bytes([*opt.get(3)?, *opt.get(4)?])));
    let is_dnssec_ok = opt.and_then(|opt| opt.get(7)).is_some_and(|flags| flags & 0x80 != 0);
    Some(Query { name, rtype, payload, is_dnssec_ok })
}

fn asked(queries: &[(&Observed, Query)]) -> Queries {
    let count = queries.len() as f64;
    let mut names: BTreeMap<&[u8], u64> = BTreeMap::new();
    let mut types: BTreeMap<String, f64> = BTreeMap::new();
    let mut payloads: BTreeMap<u16, u64> = BTreeMap::new();
    for (_, seen) in queries {
        *names.entry(&seen.name).or_default() += 1;
        let mnemonic = seen.rtype.mnemonic().map_or_else(|| format!("TYPE{}", seen.rtype.0), str::to_owned);
        *types.entry(mnemonic).or_default() += 1.0 / count;
        seen.payload.into_iter().for_each(|payload| *payloads.entry(payload).or_default() += 1);
    }
    let share = |which: &dyn Fn(&Query) -> bool| queries.iter().filter(|(_, seen)| which(seen)).count() as f64 / count;
    let payload = payloads.iter().max_by_key(|(_, count)| **count).map_or(PAYLOAD_DEFAULT, |(payload, _)| *payload);
    let fitted = fit_names(names.into_values().collect());
    Queries {
        pattern: "q{n}.example.com".into(),
        names: fitted.count,
        popularity: if fitted.exponent < 0.01 { "uniform" } else { "zipf" }.into(),
        exponent: fitted.exponent.max(0.01),
        nxdomain_share: 0.0,
        types: types.into_iter().map(|(name, share)| (name, round(share))).collect(),
        edns_share: round(share(&|seen| seen.payload.is_some())),
        dnssec_ok_share: round(share(&|seen| seen.is_dnssec_ok)),
        payload,
    }
}

fn groups(queries: &[(&Observed, Query)], seconds: f64, connections: &Connections) -> Vec<Group> {
    let mut counts: BTreeMap<IpAddr, (u64, u64)> = BTreeMap::new();
    for (observed, _) in queries {
        let (all, over_tcp) = counts.entry(observed.client).or_default();
        *all += 1;
        *over_tcp += u64::from(observed.recorded.transport == Seen::Tcp);
    }
    let mut clients: Vec<(u64, u64)> = counts.into_values().collect();
    clients.sort_unstable();
    let heavy = (clients.len() as f64 * HEAVY_SHARE).ceil() as usize;
    let (light, heavy) = clients.split_at(clients.len() - heavy);
    [("light", light), ("heavy", heavy)]
        .into_iter()
        .filter(|(_, clients)| !clients.is_empty())
        .map(|(name, clients)| group(name, clients, seconds, *connections))
        .collect()
}

fn group(name: &str, clients: &[(u64, u64)], seconds: f64, connections: Connections) -> Group {
    let (all, over_tcp) = clients.iter().fold((0, 0), |sum, client| (sum.0 + client.0, sum.1 + client.1));
    let tcp = over_tcp as f64 / all as f64;
    let shares = [(Transport::Udp, 1.0 - tcp), (Transport::Tcp, tcp)];
    let rates: Vec<f64> = clients.iter().map(|&(count, _)| count as f64 / seconds).collect();
    Group {
        name: name.into(),
        count: clients.len(),
        transports: shares
            .into_iter()
            .filter(|(_, share)| *share > 0.0)
            .map(|(own, share)| (own, round(share)))
            .collect(),
        servers: BTreeMap::new(),
        rate: Some(Rate { over: quantiles(&rates), arrivals: Arrivals::Poisson }),
        think: None,
        connections,
        bursts: None,
        active: None,
    }
}

/// Rates in rising order as quantiles whose mean is theirs.
fn quantiles(rates: &[f64]) -> Distribution {
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    if rates.len() == 1 || rates.first() == rates.last() {
        return Distribution::Constant { mean };
    }
    let count = rates.len().min(QUANTILE_COUNT_MAX);
    let at = |index: usize| rates[(index * (rates.len() - 1) + (count - 1) / 2) / (count - 1)];
    let mut kept: Vec<f64> = (0..count).map(at).collect();
    // Lines between quantiles lie above a distribution with a long tail.
    if rates.len() > count {
        let drawn = kept.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).sum::<f64>() / (count - 1) as f64;
        kept.iter_mut().for_each(|rate| *rate *= mean / drawn);
    }
    Distribution::Quantiles { quantiles: kept }
}

/// How many queries TCP connections carried.
fn connections(trace: &[Observed]) -> Connections {
    let over_tcp = trace.iter().filter(|observed| observed.recorded.transport == Seen::Tcp);
    let streams: BTreeSet<_> = over_tcp.clone().map(|observed| (observed.client, observed.port)).collect();
    let mean = over_tcp.count() as f64 / streams.len() as f64;
    Connections { queries_max: (mean >= 1.0).then_some(mean.round() as u64), ..Connections::default() }
}

/// Six digits are plenty, and read better.
fn round(share: f64) -> f64 {
    (share * 1e6).round() / 1e6
}
