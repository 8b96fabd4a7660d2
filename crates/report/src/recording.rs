//! The recorded data of a run by second. The run folder is written from it, and read into it.

use super::{Client, Event, Sample, Sighting};
use measure::{ConnectionRow, Row};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The recorded data of a run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// When the run began.
    pub started: SystemTime,
    /// Timeout of queries. Zero if unknown.
    pub timeout: Duration,
    /// Timeouts of connections.
    pub timeouts: Timeouts,
    /// The sum of all transports, in order of time.
    pub rows: Vec<Row>,
    /// Each transport.
    pub transports: BTreeMap<String, TransportRows>,
    /// Samples of the server.
    pub samples: Vec<Sample>,
    /// Events during the run.
    pub events: Vec<Event>,
    /// Each client.
    pub clients: Vec<Client>,
    /// Each update on each watched server.
    pub sightings: Vec<Sighting>,
}

/// Timeouts of connections. Zero if there is none, or if clients have different ones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Timeouts {
    /// Timeout of a connection attempt including its handshake.
    pub handshake: Duration,
    /// Idle timeout.
    pub idle: Duration,
}

impl Timeouts {
    /// The values that are equal in both. Others become zero.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        let same = |one, other| if one == other { one } else { Duration::ZERO };
        Self { handshake: same(self.handshake, other.handshake), idle: same(self.idle, other.idle) }
    }
}

/// Complete intervals in which queries were sent, of a run in which queries were sent for this long. Queries that were
/// planned in the last interval and sent late are left out.
pub(super) fn whole_intervals(rows: &[Row], duration_seconds: f64) -> impl Iterator<Item = &Row> {
    let end = duration_seconds + 1e-3;
    rows.iter().filter(move |row| row.sent > 0 && row.start_seconds + row.span_seconds <= end)
}

/// One transport of a recording.
#[derive(Clone, Debug, Default)]
pub struct TransportRows {
    /// Its seconds.
    pub rows: Vec<Row>,
    /// Its connections by second. Empty for UDP.
    pub connections: Vec<ConnectionRow>,
}

impl Recording {
    /// An empty recording that begins at `started`.
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

    /// The sum of all intervals.
    #[must_use]
    pub fn total(&self) -> Row {
        Row::sum(&self.rows)
    }
}
