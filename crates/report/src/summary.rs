//! `summary.json`: the results of a run.

use super::{
    AgentFigures, ClientLatency, Limit, LimitSide, MonitorFigures, Recording, ReplayFigures, RttLatency, SecondFigures,
    Validity,
};
use crate::limits::START_LATE_MAX;
use measure::{CheckCounts, ConnectionSecond, Quantiles, QueryFileCounts, Row, Second, Transport, WrongAnswer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::number::Rcode;

/// Version of the format: year, month, day.
pub const SCHEMA_VERSION: u32 = 20_261_128;

/// The contents of `summary.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the format, as a date.
    pub schema_version: u32,
    /// The results of each transport.
    pub transports: BTreeMap<Transport, TransportSummary>,
    /// The results of all transports together.
    #[serde(flatten)]
    pub total: TransportSummary,
    /// How closely a replay followed its trace. None for other runs.
    #[serde(flatten)]
    pub replay: Option<ReplayFigures>,
    /// The size of the answers, and whether the run was steady.
    #[serde(flatten)]
    pub seconds: SecondFigures,
    /// The monitored processes and control groups, numbered from 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub monitor: BTreeMap<usize, MonitorFigures>,
    /// Latency in round trips, if their length was given.
    #[serde(flatten)]
    pub rtt: Option<RttLatency>,
    /// Latency by class of clients, if there are clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_latency: Option<ClientLatency>,
    /// Planned queries per second. In a closed loop, the sent ones.
    pub offered_rate: f64,
    /// Correct answers per second.
    pub achieved_rate: f64,
    /// Seconds in which queries were sent.
    pub duration_seconds: f64,
    /// Whether the results are valid.
    pub validity: Validity,
    /// What limited the rate.
    pub limit: Limit,
    /// The first wrong answers, if answers were checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_answers: Vec<WrongAnswer>,
    /// Names of the machines that took part.
    pub hosts: Vec<String>,
    /// Each agent of a run with agents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentFigures>,
    /// Whether an agent was lost and its results are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The contents of `queries.parquet`, if it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_query: Option<QueryFileCounts>,
}

/// The results of one transport.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportSummary {
    /// Queries sent.
    pub sent: u64,
    /// Answered in time, with the right ID and question.
    pub answered: u64,
    /// Answers that arrived after the timeout.
    pub late: u64,
    /// Queries without an answer in time.
    pub timed_out: u64,
    /// Messages with the ID of a query in flight that have another question or are not responses.
    pub mismatched: u64,
    /// Further answers to answered queries.
    pub duplicate: u64,
    /// Messages with an ID that was never sent, or without an ID.
    pub stray: u64,
    /// Messages from another address or port than the queried one (RFC 2181 4.1).
    pub other_address: u64,
    /// Answers with an RCODE that was not expected.
    pub unexpected: u64,
    /// The results of checking the other answers.
    pub checked: CheckCounts,
    /// Answers with the TC bit.
    pub truncated: u64,
    /// Queries in flight when the run was interrupted.
    pub interrupted: u64,
    /// Queries whose connection could not be opened, or ended before the answer arrived.
    pub connection_lost: u64,
    /// Answered queries by RCODE.
    pub rcodes: BTreeMap<String, u64>,
    /// Time from planned sending to the answer in microseconds, including timeouts.
    pub latency_us: Quantiles,
    /// Time from actual sending to the answer in microseconds, including timeouts.
    pub service_us: Quantiles,
    /// Time from planned to actual sending in microseconds.
    pub send_lag_us: Quantiles,
    /// Its connections. None for UDP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionSummary>,
}

/// The connections of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionSummary {
    /// Completed handshakes.
    pub opened: u64,
    /// Failed attempts: refused, or timed out.
    pub failed: u64,
    /// Of the opened connections: resumed an earlier TLS session.
    pub resumed: u64,
    /// Of the opened connections: the server accepted early data.
    pub early_data: u64,
    /// Queries sent as early data, over QUIC.
    pub early_queries: u64,
    /// Of these: answered, if the server accepted the early data.
    pub early_answers: u64,
    /// Closed by the server.
    pub closed_by_peer: u64,
    /// Closed by the client.
    pub closed_by_us: u64,
    /// Queries on connections that already had sent or queued queries.
    pub reused_queries: u64,
    /// Peak number of open connections. With several workers, the sum of their peaks in one second.
    pub open_max: u64,
    /// Time from the first packet until the connection was usable, in microseconds.
    pub handshake_us: Quantiles,
    /// Time until TCP was connected, in microseconds.
    pub tcp_connect_us: Quantiles,
    /// Lifetime of closed connections in microseconds.
    pub lifetime_us: Quantiles,
    /// Latency of the first query of each connection in microseconds. Includes queries that found no connection.
    pub first_query_us: Quantiles,
    /// Latency of all other queries in microseconds.
    pub reused_query_us: Quantiles,
}

impl Summary {
    /// Adds the figures of its recording: of the seconds, and of the monitored sources.
    pub fn note_recording(&mut self, recording: &Recording) {
        self.monitor = super::monitor_figures::all(recording, self.duration_seconds);
        self.seconds = SecondFigures::of(&recording.rows, self.duration_seconds);
    }

    /// Adds the results of each agent. The summary has no other results of a lost agent.
    pub fn note_agents(&mut self, agents: Vec<AgentFigures>) {
        for agent in agents.iter().filter(|agent| agent.lost.is_some()) {
            self.partial = true;
            self.validity.reasons.extend(agent.validity.reasons.iter().cloned());
        }
        let limit_us = START_LATE_MAX.as_secs_f64() * 1e6;
        for late in agents.iter().filter(|agent| agent.start_late_us > limit_us) {
            let (name, late) = (&late.name, late.start_late_us / 1e3);
            self.validity.reasons.push(format!("agent {name} started {late:.0} ms later than the others"));
        }
        self.validity.valid = self.validity.reasons.is_empty();
        self.agents = agents;
    }

    /// Adds the verdict of the same plan against an echo server in this process. Shortcomings of the tool are then not
    /// blamed on the server.
    pub fn note_self_check(&mut self, checked: &Self) {
        let reasons = checked.validity.reasons.join("; ");
        let verdict = if checked.validity.valid { "was valid".to_owned() } else { format!("was not valid: {reasons}") };
        self.limit.evidence.push(format!(
            "the self-check against an echo server {verdict}; its p99 latency is {:.0} us",
            checked.total.latency_us.p99
        ));
        if !checked.validity.valid {
            self.limit.side = LimitSide::Tool;
            self.validity.valid = false;
            self.validity.reasons.push(format!("the self-check {verdict}"));
        }
    }
}

impl TransportSummary {
    /// Correct answers: those with an expected RCODE that also passed the checks, if there were any.
    #[must_use]
    pub fn right(&self) -> u64 {
        self.checked.right_of(self.answered.saturating_sub(self.unexpected))
    }

    /// The summary of measured results.
    #[must_use]
    pub fn new(total: &Second) -> Self {
        let rcodes = total.rcodes.iter().enumerate().filter(|&(_, &count)| count > 0);
        Self {
            sent: total.sent,
            answered: total.answered,
            late: total.late,
            timed_out: total.timed_out,
            mismatched: total.mismatched,
            duplicate: total.duplicate,
            stray: total.stray,
            other_address: total.other_address,
            unexpected: total.unexpected,
            checked: total.checked,
            truncated: total.truncated,
            interrupted: total.interrupted,
            connection_lost: total.connection_lost,
            rcodes: rcodes.map(|(rcode, &count)| (format!("{:?}", Rcode(rcode as u16)), count)).collect(),
            latency_us: Quantiles::of(&total.latency),
            service_us: Quantiles::of(&total.service),
            send_lag_us: Quantiles::of(&total.send_lag),
            connections: None,
        }
    }

    /// The summary of one transport with connections. `open_max` is the peak number of open connections.
    #[must_use]
    pub fn with_connections(queries: &Second, connections: &ConnectionSecond, open_max: u64) -> Self {
        let has_any = connections.opened + connections.failed > 0;
        Self {
            connections: has_any.then(|| ConnectionSummary::new(connections, open_max, queries)),
            ..Self::new(queries)
        }
    }
}

impl ConnectionSummary {
    fn new(total: &ConnectionSecond, open_max: u64, queries: &Second) -> Self {
        Self {
            opened: total.opened,
            failed: total.failed,
            resumed: total.resumed,
            early_data: total.early_data,
            early_queries: total.early_queries,
            early_answers: total.early_answers,
            closed_by_peer: total.closed_by_peer,
            closed_by_us: total.closed_by_us,
            reused_queries: total.reused_queries,
            open_max,
            handshake_us: Quantiles::of(&total.handshake),
            tcp_connect_us: Quantiles::of(&total.tcp_connect),
            lifetime_us: Quantiles::of(&total.lifetime),
            first_query_us: Quantiles::of(&total.first_query),
            reused_query_us: Quantiles::of(&total.reused_query(&queries.latency)),
        }
    }
}

impl From<&Row> for TransportSummary {
    fn from(row: &Row) -> Self {
        Self {
            sent: row.sent,
            answered: row.answered,
            late: row.late,
            timed_out: row.timed_out,
            mismatched: row.mismatched,
            duplicate: row.duplicate,
            stray: row.stray,
            other_address: row.other_address,
            unexpected: row.unexpected,
            checked: row.checked,
            truncated: row.truncated,
            interrupted: row.interrupted,
            connection_lost: row.connection_lost,
            rcodes: row.rcodes.clone(),
            latency_us: Quantiles::from(&row.latency),
            service_us: Quantiles::from(&row.service),
            send_lag_us: Quantiles::from(&row.send_lag),
            connections: None,
        }
    }
}
