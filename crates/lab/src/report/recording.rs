//! What a run recorded, second by second: what the run folder is written from, and what it is read into.

use super::{Client, Distribution, Event, Sample, Sighting};
use crate::engine::Outcome;
use crate::measure::{ConnectionSecond, Second};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use wire::number::Rcode;

/// A run as it was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// When it began.
    pub started: SystemTime,
    /// After how long a query counted as unanswered; zero when that is not known.
    pub timeout: Duration,
    /// All transports together, in order of time.
    pub rows: Vec<Row>,
    /// Each transport on its own.
    pub transports: BTreeMap<String, Account>,
    /// The server under the same clock.
    pub samples: Vec<Sample>,
    /// What happened meanwhile.
    pub events: Vec<Event>,
    /// Each client on its own.
    pub clients: Vec<Client>,
    /// Each update at each server that was watched for it.
    pub sightings: Vec<Sighting>,
}

/// One transport of a recording.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Its seconds.
    pub rows: Vec<Row>,
    /// Its connections, second by second; none for UDP.
    pub connections: Vec<ConnectionRow>,
}

/// One interval, a second of our own runs: what became of the queries sent in it, and what arrived in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Start, in seconds from the start of the run.
    pub start_seconds: f64,
    /// Length in seconds.
    pub span_seconds: f64,
    /// Queries sent.
    pub sent: u64,
    /// Of these: answered in time.
    pub answered: u64,
    /// Of these: not answered within the time-out.
    pub timed_out: u64,
    /// Of these: not answered when the run was broken off.
    pub interrupted: u64,
    /// Of these: their connection could not be opened, or ended before the answer came.
    pub connection_lost: u64,
    /// Of the answered: with TC.
    pub truncated: u64,
    /// Of the answered: with an RCODE that was not expected.
    pub unexpected: u64,
    /// Of the answered, by RCODE.
    pub rcodes: BTreeMap<String, u64>,
    /// Octets of the queries.
    pub octets_sent: u64,
    /// Queries that the kernel did not take.
    pub send_errors: u64,
    /// Answers that arrived in this interval, whenever their queries were sent.
    pub arrived: u64,
    /// Octets that arrived in this interval.
    pub octets_received: u64,
    /// Arrived after the time-out of their query.
    pub late: u64,
    /// Second answers to the same query.
    pub duplicate: u64,
    /// With an ID that waits, and another question or without QR.
    pub mismatched: u64,
    /// With an ID that was never sent, or no message.
    pub stray: u64,
    /// From the planned time to the answer, time-outs among them; nanoseconds.
    pub latency: Distribution,
    /// From the sending to the answer, time-outs among them; nanoseconds.
    pub service: Distribution,
    /// From the planned time to the sending; nanoseconds.
    pub send_lag: Distribution,
}

/// The connections of one transport in one second: a line of `connections.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionRow {
    /// Start, in seconds from the start of the run.
    pub at: f64,
    /// Transport.
    pub transport: String,
    /// Handshakes that were completed.
    pub opened: u64,
    /// Handshakes that were not.
    pub failed: u64,
    /// Of the opened: with a resumed TLS session.
    pub resumed: u64,
    /// Of the opened: with queries in 0-RTT data.
    pub early_data: u64,
    /// Closed by the server.
    pub closed_by_peer: u64,
    /// Closed by this program.
    pub closed_by_us: u64,
    /// Queries on a connection that had carried one before.
    pub reused_queries: u64,
    /// Open at the end of the second.
    pub open: u64,
    /// TCP connect and TLS or QUIC handshake together, microseconds.
    pub handshake_us: super::Quantiles,
    /// TCP connect alone, microseconds.
    pub tcp_connect_us: super::Quantiles,
    /// How long each closed connection had been open, microseconds.
    pub lifetime_us: super::Quantiles,
}

impl Recording {
    /// Of a run that begins at `started`, with nothing in it.
    #[must_use]
    pub fn new(started: SystemTime, timeout: Duration) -> Self {
        Self {
            started,
            timeout,
            rows: Vec::new(),
            transports: BTreeMap::new(),
            samples: Vec::new(),
            events: Vec::new(),
            clients: Vec::new(),
            sightings: Vec::new(),
        }
    }

    /// Of a run that has ended.
    #[must_use]
    pub fn of(outcome: &Outcome, timeout: Duration) -> Self {
        let mut recording = Self::new(outcome.started, timeout);
        let client = |tally: &crate::population::ClientTally| Client {
            client: tally.client,
            transport: tally.transport.label().to_owned(),
            sent: tally.sent,
            answered: tally.answered,
            p50_us: f64::from(tally.p50_us),
            p99_us: f64::from(tally.p99_us),
            expected: None,
        };
        recording.clients = outcome.clients.iter().map(client).collect();
        for (transport, account) in &outcome.transports {
            let rows = (0..).zip(&account.seconds).map(|(index, second)| Row::new(index, second)).collect();
            let connections = (0..).zip(&account.connections);
            let connections =
                connections.map(|(index, second)| ConnectionRow::new(index, transport.label(), second)).collect();
            let has_any = account.connection_total.opened + account.connection_total.failed > 0;
            let connections = if has_any { connections } else { Vec::new() };
            recording.transports.insert(transport.label().to_owned(), Account { rows, connections });
        }
        for index in 0..outcome.second_count as usize {
            let parts: Vec<_> =
                recording.transports.values().filter_map(|account| account.rows.get(index).cloned()).collect();
            recording.rows.push(Row { start_seconds: index as f64, span_seconds: 1.0, ..Row::sum(&parts) });
        }
        recording
    }

    /// All intervals in one.
    #[must_use]
    pub fn total(&self) -> Row {
        Row::sum(&self.rows)
    }
}

impl ConnectionRow {
    /// The second `index` of a run.
    #[must_use]
    pub fn new(index: u64, transport: &str, second: &ConnectionSecond) -> Self {
        Self {
            at: index as f64,
            transport: transport.to_owned(),
            opened: second.opened,
            failed: second.failed,
            resumed: second.resumed,
            early_data: second.early_data,
            closed_by_peer: second.closed_by_peer,
            closed_by_us: second.closed_by_us,
            reused_queries: second.reused_queries,
            open: second.open,
            handshake_us: super::Quantiles::of(&second.handshake),
            tcp_connect_us: super::Quantiles::of(&second.tcp_connect),
            lifetime_us: super::Quantiles::of(&second.lifetime),
        }
    }
}

impl Row {
    /// The second `index` of a run.
    #[must_use]
    pub fn new(index: u64, second: &Second) -> Self {
        let rcodes = second.rcodes.iter().enumerate().filter(|&(_, &count)| count > 0);
        Self {
            start_seconds: index as f64,
            span_seconds: 1.0,
            sent: second.sent,
            answered: second.answered,
            timed_out: second.timed_out,
            interrupted: second.interrupted,
            connection_lost: second.connection_lost,
            truncated: second.truncated,
            unexpected: second.unexpected,
            rcodes: rcodes.map(|(rcode, &count)| (format!("{:?}", Rcode(rcode as u16)), count)).collect(),
            octets_sent: second.octets_sent,
            send_errors: second.send_errors,
            arrived: second.arrived,
            octets_received: second.octets_received,
            late: second.late,
            duplicate: second.duplicate,
            mismatched: second.mismatched,
            stray: second.stray,
            latency: Distribution::from(&second.latency),
            service: Distribution::from(&second.service),
            send_lag: Distribution::from(&second.send_lag),
        }
    }

    /// These intervals as one.
    #[must_use]
    pub fn sum(rows: &[Self]) -> Self {
        let start = rows.first().map_or(0.0, |row| row.start_seconds);
        let end = rows.last().map_or(0.0, |row| row.start_seconds + row.span_seconds);
        let of = |count: fn(&Self) -> u64| rows.iter().map(count).sum();
        let mut rcodes = BTreeMap::new();
        for (rcode, count) in rows.iter().flat_map(|row| &row.rcodes) {
            *rcodes.entry(rcode.clone()).or_default() += count;
        }
        Self {
            start_seconds: start,
            span_seconds: end - start,
            sent: of(|row| row.sent),
            answered: of(|row| row.answered),
            timed_out: of(|row| row.timed_out),
            interrupted: of(|row| row.interrupted),
            connection_lost: of(|row| row.connection_lost),
            truncated: of(|row| row.truncated),
            unexpected: of(|row| row.unexpected),
            rcodes,
            octets_sent: of(|row| row.octets_sent),
            send_errors: of(|row| row.send_errors),
            arrived: of(|row| row.arrived),
            octets_received: of(|row| row.octets_received),
            late: of(|row| row.late),
            duplicate: of(|row| row.duplicate),
            mismatched: of(|row| row.mismatched),
            stray: of(|row| row.stray),
            latency: Distribution::sum(rows.iter().map(|row| &row.latency)),
            service: Distribution::sum(rows.iter().map(|row| &row.service)),
            send_lag: Distribution::sum(rows.iter().map(|row| &row.send_lag)),
        }
    }
}
