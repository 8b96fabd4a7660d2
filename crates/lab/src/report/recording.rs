//! What a run recorded, second by second: what the run folder is written from, and what it is read into.

use super::{Client, Event, Sample, Sighting};
use crate::engine::{Outcome, Plan};
use crate::measure::{ConnectionRow, Row};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// A run as it was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    /// When it began.
    pub started: SystemTime,
    /// After how long a query counted as unanswered; zero when that is not known.
    pub timeout: Duration,
    /// How long connections were waited for, and left open.
    pub timeouts: Timeouts,
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

/// Times that end connections; zero where there is none, or none that all clients have in common.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Timeouts {
    /// How long a connection and its handshake may take.
    pub handshake: Duration,
    /// Silence after which a connection is closed.
    pub idle: Duration,
}

impl Timeouts {
    /// Of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self { handshake: plan.handshake_timeout, idle: plan.idle_timeout().unwrap_or_default() }
    }

    /// What two have in common.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        let same = |one, other| if one == other { one } else { Duration::ZERO };
        Self { handshake: same(self.handshake, other.handshake), idle: same(self.idle, other.idle) }
    }
}

/// One transport of a recording.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Its seconds.
    pub rows: Vec<Row>,
    /// Its connections, second by second; none for UDP.
    pub connections: Vec<ConnectionRow>,
}

impl Recording {
    /// Of a run that begins at `started`, with nothing in it.
    #[must_use]
    pub fn new(started: SystemTime, timeout: Duration) -> Self {
        Self {
            started,
            timeout,
            timeouts: Timeouts::default(),
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
            longest_gap_s: tally.longest_gap_s,
            expected: tally.expected,
        };
        recording.clients = outcome.clients.iter().map(client).collect();
        for (transport, account) in &outcome.transports {
            let total = &account.connection_total;
            let connections = if total.opened + total.failed > 0 { account.connections.clone() } else { Vec::new() };
            let kept = Account { rows: account.seconds.clone(), connections };
            recording.transports.insert(transport.label().to_owned(), kept);
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
