//! `summary.json`: a run in figures.

use super::{AgentFigures, Limit, LimitSide, ReplayFigures, Rules, Validity, judge};
use crate::answers::WrongAnswer;
use crate::engine::{Outcome, Pace, Plan, Transport, TransportResults};
use crate::limits::START_LATE_MAX;
use crate::measure::{Checked, ConnectionSecond, Quantiles, Row, Second};
use crate::per_query::Written;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wire::number::Rcode;

/// The version of this file's form: year, month, day.
pub(crate) const SCHEMA_VERSION: u32 = 20_261_127;

/// The whole of `summary.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the form, as a date.
    pub schema_version: u32,
    /// Each transport on its own.
    pub transports: BTreeMap<Transport, TransportSummary>,
    /// All transports together.
    #[serde(flatten)]
    pub total: TransportSummary,
    /// How near to a trace it was, if it sent one.
    #[serde(flatten)]
    pub replay: Option<ReplayFigures>,
    /// Queries a second that were planned or, in a closed loop, sent.
    pub offered_rate: f64,
    /// Right answers a second.
    pub achieved_rate: f64,
    /// Seconds in which queries were sent.
    pub duration_seconds: f64,
    /// Whether the figures mean what they say.
    pub validity: Validity,
    /// Who could not have gone faster.
    pub limit: Limit,
    /// The first wrong answers, where answers were checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_answers: Vec<WrongAnswer>,
    /// Machines that took part.
    pub hosts: Vec<String>,
    /// Each agent, of a run over several hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentFigures>,
    /// An agent was lost, and nothing of it is in here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// What stands in `queries.parquet`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_query: Option<Written>,
}

/// One transport.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportSummary {
    /// Queries sent.
    pub sent: u64,
    /// Answered in time, with the right ID and question.
    pub answered: u64,
    /// Answers that came after the time-out.
    pub late: u64,
    /// Queries without an answer in time.
    pub timed_out: u64,
    /// Messages for an ID that waits, with another question or no response at all.
    pub mismatched: u64,
    /// Second answers.
    pub duplicate: u64,
    /// Messages with an ID that was never sent, or none.
    pub stray: u64,
    /// Messages from another address or port than the one that was asked (RFC 2181 4.1).
    pub other_address: u64,
    /// Answers with an RCODE that was not expected.
    pub unexpected: u64,
    /// What a look at the other answers showed.
    pub checked: Checked,
    /// Answers with TC.
    pub truncated: u64,
    /// Queries that waited when the run was broken off.
    pub interrupted: u64,
    /// Queries whose connection could not be opened, or ended before the answer came.
    pub connection_lost: u64,
    /// Answered, by RCODE.
    pub rcodes: BTreeMap<String, u64>,
    /// From the planned time to the answer, time-outs among them; microseconds.
    pub latency_us: Quantiles,
    /// From the sending to the answer, time-outs among them; microseconds.
    pub service_us: Quantiles,
    /// From the planned time to the sending; microseconds.
    pub send_lag_us: Quantiles,
    /// Its connections; of transports that have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionSummary>,
}

/// Connections of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionSummary {
    /// Handshakes that came to an end.
    pub opened: u64,
    /// Refused, or not opened in time.
    pub failed: u64,
    /// Of the opened: with an earlier TLS session.
    pub resumed: u64,
    /// Of the opened: the server took early data.
    pub early_data: u64,
    /// Queries that went out as early data, over QUIC.
    pub early_queries: u64,
    /// Of these: answered, where the server took the early data.
    pub early_answers: u64,
    /// Closed by the server.
    pub closed_by_peer: u64,
    /// Closed by this side.
    pub closed_by_us: u64,
    /// Queries on connections that others had been sent on, or were waiting for.
    pub reused_queries: u64,
    /// Peak number of open connections. With several workers, the sum of their peaks in one second.
    pub open_max: u64,
    /// From the first packet until it could be used; microseconds.
    pub handshake_us: Quantiles,
    /// Until TCP was connected; microseconds.
    pub tcp_connect_us: Quantiles,
    /// How long closed connections had been open; microseconds.
    pub lifetime_us: Quantiles,
    /// Latency of the first query of each connection, and of queries that found none; microseconds.
    pub first_query_us: Quantiles,
    /// Latency of all other queries; microseconds.
    pub reused_query_us: Quantiles,
}

impl Summary {
    /// Sums a run up.
    #[must_use]
    pub fn new(plan: &Plan, outcome: &Outcome, rules: &Rules) -> Self {
        let (validity, limit) = judge(plan, outcome, rules);
        let total = TransportSummary::new(&outcome.total);
        let planned_seconds = plan.pace.duration().as_secs_f64();
        let duration_seconds = duration_seconds(planned_seconds, outcome);
        let offered_rate = match &plan.pace {
            Pace::Open(schedule) if !outcome.is_interrupted => schedule.query_count_of(plan.part) / planned_seconds,
            Pace::Traced(replay) if !outcome.is_interrupted && planned_seconds > 0.0 => {
                replay.survey().queries as f64 / planned_seconds
            }
            _ => outcome.total.sent as f64 / duration_seconds,
        };
        let right = total.right();
        Self {
            schema_version: SCHEMA_VERSION,
            transports: outcome.transports.iter().map(|(own, account)| (*own, TransportSummary::of(account))).collect(),
            offered_rate,
            achieved_rate: right as f64 / duration_seconds,
            total,
            replay: ReplayFigures::of(plan, outcome),
            duration_seconds,
            validity,
            limit,
            wrong_answers: outcome.wrong_answers.clone(),
            hosts: vec![super::manifest::host_name()],
            agents: Vec::new(),
            partial: false,
            per_query: None,
        }
    }

    /// Takes in what each agent showed: of one that was lost nothing else is in here.
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

    /// Takes in what the same plan showed against an echo in this process: what the tool cannot do is no server's
    /// fault.
    pub fn note_self_check(&mut self, checked: &Self) {
        let reasons = checked.validity.reasons.join("; ");
        let told = if checked.validity.valid { "was valid".to_owned() } else { format!("was not valid: {reasons}") };
        self.limit.evidence.push(format!(
            "the self-check against an echo server {told}; its p99 latency is {:.0} us",
            checked.total.latency_us.p99
        ));
        if !checked.validity.valid {
            self.limit.side = LimitSide::Tool;
            self.validity.valid = false;
            self.validity.reasons.push(format!("the self-check {told}"));
        }
    }
}

/// How long queries were sent: as planned, or until it was broken off, or until the last that was overdue had gone out.
fn duration_seconds(planned_seconds: f64, outcome: &Outcome) -> f64 {
    let sending = outcome.workers.iter().map(|worker| worker.sending.as_secs_f64()).fold(0.0, f64::max);
    let seconds = if outcome.is_interrupted { sending.min(planned_seconds) } else { planned_seconds.max(sending) };
    // A trace may have no length at all, and nobody divides by that.
    seconds.max(1e-3)
}

impl TransportSummary {
    /// Right answers: with an RCODE that was expected, and what it was expected to say, as far as that was checked.
    #[must_use]
    pub fn right(&self) -> u64 {
        self.checked.right_of(self.answered.saturating_sub(self.unexpected))
    }

    /// Sums up what was measured.
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

    /// Sums up one transport, its connections with it.
    #[must_use]
    pub fn of(results: &TransportResults) -> Self {
        let total = &results.connection_total;
        let has_any = total.opened + total.failed > 0;
        Self {
            connections: has_any.then(|| ConnectionSummary::new(total, results.open_max, &results.total)),
            ..Self::new(&results.total)
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
