//! Merges simultaneous runs of several processes or machines.
//!
//! Adds counts and distributions second by second, without loss. A run that began later is shifted by whole seconds, so
//! its times are off by up to half a second.

use super::replay::ReplayFigures;
use super::summary::{ConnectionSummary, Summary, TransportSummary};
use super::{
    ClientLatency, ConnectionRow, Limit, LimitSide, Quantiles, Recording, Row, Run, SecondFigures, TransportRows,
    Validity,
};
use measure::{Transport, WrongAnswer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

/// Why runs cannot be merged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MergeError {
    /// Fewer than two runs, or one of another program.
    NoRun(String),
    /// Their timeouts differ.
    Timeouts(String, String),
    /// They did not overlap.
    Apart(String, String),
}

impl std::fmt::Display for MergeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRun(what) => write!(formatter, "{what}; name two or more folders of `catlab load --out`"),
            Self::Timeouts(one, other) => {
                write!(formatter, "{one} and {other} have different timeouts, so their results cannot be added")
            }
            Self::Apart(one, other) => {
                write!(formatter, "{one} and {other} did not overlap in time; `catlab report` draws both")
            }
        }
    }
}

impl std::error::Error for MergeError {}

/// Merges several runs.
///
/// # Errors
/// If they did not run at the same time, or cannot be merged.
pub fn merge(runs: &[Run]) -> Result<(Recording, Summary), MergeError> {
    if runs.len() < 2 {
        return Err(MergeError::NoRun("cannot merge one run".into()));
    }
    sum_up(runs, true)
}

/// Merges runs of agents, which started together. One run is allowed.
///
/// # Errors
/// If there is no run, or their timeouts differ.
pub fn merge_agents(runs: &[Run]) -> Result<(Recording, Summary), MergeError> {
    sum_up(runs, false)
}

/// Checks for an overlap only if the times are not known to agree.
fn sum_up(runs: &[Run], is_checking_times: bool) -> Result<(Recording, Summary), MergeError> {
    let parts = parts(runs, is_checking_times)?;
    let first = parts.iter().map(|part| part.run.recording.started).min().unwrap_or(SystemTime::UNIX_EPOCH);
    let mut merged = Recording::new(first, runs[0].recording.timeout);
    merged.timeouts = runs[0].recording.timeouts;
    for run in runs {
        merged.timeouts = merged.timeouts.common(run.recording.timeouts);
    }
    let mut rows = BTreeMap::new();
    for part in &parts {
        let recording = &part.run.recording;
        part.add_rows(&mut rows, &recording.rows);
        for (transport, transport_rows) in &recording.transports {
            merged
                .transports
                .entry(transport.clone())
                .or_default()
                .connections
                .extend(part.connections(transport_rows));
        }
        part.append(&mut merged);
    }
    merged.rows = sums(rows);
    let end = merged.rows.len();
    for (transport, transport_rows) in &mut merged.transports {
        let mut rows = BTreeMap::new();
        for part in &parts {
            let recorded = part.run.recording.transports.get(transport);
            part.add_rows(&mut rows, recorded.map_or(&[], |transport_rows| &transport_rows.rows));
        }
        // A transport has a row for each second of the run, as in a single run.
        for second in 0..end as u64 {
            rows.entry(second).or_default();
        }
        transport_rows.rows = sums(rows);
        transport_rows.connections = sum_connections(std::mem::take(&mut transport_rows.connections));
    }
    merged.events.sort_by(|one, other| one.at.total_cmp(&other.at));
    merged.samples.sort_by(|one, other| one.at.total_cmp(&other.at));
    let summary = summary(&parts, &merged);
    Ok((merged, summary))
}

/// A run and its position in the merged run.
struct Part<'a> {
    run: &'a Run,
    summary: &'a Summary,
    /// Seconds from the start of the first run.
    offset: f64,
}

fn parts(runs: &[Run], is_checking_times: bool) -> Result<Vec<Part<'_>>, MergeError> {
    if runs.is_empty() {
        return Err(MergeError::NoRun("no runs to merge".into()));
    }
    let start = runs.iter().map(|run| run.recording.started).min().unwrap_or(SystemTime::UNIX_EPOCH);
    let mut parts = Vec::new();
    for run in runs {
        let Run { label, summary, recording, .. } = run;
        let summary = summary.as_ref().ok_or_else(|| MergeError::NoRun(format!("{label} has no summary")))?;
        let offset = recording.started.duration_since(start).unwrap_or_default().as_secs_f64();
        parts.push(Part { run, summary, offset });
    }
    let names = |one: &Part<'_>, other: &Part<'_>| (one.run.label.clone(), other.run.label.clone());
    for (index, one) in parts.iter().enumerate() {
        for other in &parts[..index] {
            if one.run.recording.timeout != other.run.recording.timeout {
                let (one, other) = names(one, other);
                return Err(MergeError::Timeouts(one, other));
            }
            if is_checking_times && (one.offset >= other.end() || other.offset >= one.end()) {
                let (one, other) = names(one, other);
                return Err(MergeError::Apart(one, other));
            }
        }
    }
    Ok(parts)
}

impl Part<'_> {
    fn end(&self) -> f64 {
        self.offset + self.summary.duration_seconds
    }

    /// The second of the merged run at this time of the run.
    fn second(&self, at: f64) -> u64 {
        (at + self.offset.round()).round() as u64
    }

    fn add_rows<'a>(&self, into: &mut BTreeMap<u64, Vec<&'a Row>>, rows: &'a [Row]) {
        for row in rows {
            into.entry(self.second(row.start_seconds)).or_default().push(row);
        }
    }

    fn connections(&self, transport_rows: &TransportRows) -> Vec<ConnectionRow> {
        let shifted = |row: &ConnectionRow| ConnectionRow { at: self.second(row.at) as f64, ..row.clone() };
        transport_rows.connections.iter().map(shifted).collect()
    }

    /// Appends clients, events and samples, which are not added up.
    fn append(&self, merged: &mut Recording) {
        let recording = &self.run.recording;
        // Agents that share a population number its clients alike.
        let known: BTreeSet<u64> = merged.clients.iter().map(|client| client.client).collect();
        let is_known = recording.clients.iter().any(|client| known.contains(&client.client));
        let first = known.last().filter(|_| is_known).map_or(0, |last| last + 1);
        merged.clients.extend(recording.clients.iter().cloned().map(|mut client| {
            client.client += first;
            client
        }));
        merged.events.extend(recording.events.iter().cloned().map(|mut event| {
            event.at += self.offset;
            event
        }));
        // Two runs may have monitored the same source, which must appear once.
        let known: BTreeSet<String> = merged.samples.iter().map(|sample| sample.source.clone()).collect();
        let new_samples = recording.samples.iter().filter(|sample| !known.contains(&sample.source));
        merged.samples.extend(new_samples.cloned().map(|mut sample| {
            sample.at += self.offset;
            sample
        }));
    }
}

fn sums(rows: BTreeMap<u64, Vec<&Row>>) -> Vec<Row> {
    let Some(end) = rows.last_key_value().map(|(second, _)| second + 1) else { return Vec::new() };
    let sum = |second: u64| {
        let parts: Vec<Row> = rows.get(&second).into_iter().flatten().copied().cloned().collect();
        Row { start_seconds: second as f64, span_seconds: 1.0, ..Row::sum(&parts) }
    };
    (0..end).map(sum).collect()
}

/// Sums the connections of each second. Runs only have quantiles of connection times, so the larger ones are kept as an
/// upper bound.
fn sum_connections(rows: Vec<ConnectionRow>) -> Vec<ConnectionRow> {
    let mut seconds: BTreeMap<u64, ConnectionRow> = BTreeMap::new();
    for row in rows {
        let sum = seconds.entry(row.at as u64).or_insert_with(|| ConnectionRow {
            at: row.at,
            transport: row.transport.clone(),
            ..ConnectionRow::default()
        });
        sum.opened += row.opened;
        sum.failed += row.failed;
        sum.resumed += row.resumed;
        sum.early_data += row.early_data;
        sum.early_queries += row.early_queries;
        sum.early_answers += row.early_answers;
        sum.closed_by_peer += row.closed_by_peer;
        sum.closed_by_us += row.closed_by_us;
        sum.reused_queries += row.reused_queries;
        sum.open += row.open;
        sum.open_max += row.most_open();
        sum.handshake_us = Quantiles::bound(sum.handshake_us, row.handshake_us);
        sum.tcp_connect_us = Quantiles::bound(sum.tcp_connect_us, row.tcp_connect_us);
        sum.lifetime_us = Quantiles::bound(sum.lifetime_us, row.lifetime_us);
        sum.first_query_us = Quantiles::bound(sum.first_query_us, row.first_query_us);
        sum.reused_query_us = Quantiles::bound(sum.reused_query_us, row.reused_query_us);
    }
    seconds.into_values().collect()
}

fn summary(parts: &[Part<'_>], merged: &Recording) -> Summary {
    let duration_seconds = parts.iter().map(Part::end).fold(0.0, f64::max);
    let total = TransportSummary::from(&merged.total());
    let offered: f64 = parts.iter().map(|part| part.summary.offered_rate * part.summary.duration_seconds).sum();
    let collect_lines = |lines: fn(&Summary) -> &[String]| {
        let of = |part: &Part<'_>| {
            let label = part.run.label.clone();
            lines(part.summary).iter().map(|line| format!("{label}: {line}")).collect::<Vec<_>>()
        };
        parts.iter().flat_map(of).collect::<Vec<_>>()
    };
    let has = |side: LimitSide| parts.iter().any(|part| part.summary.limit.side == side);
    let sides = [LimitSide::Tool, LimitSide::Server, LimitSide::None];
    let hosts: BTreeSet<String> = parts.iter().flat_map(|part| part.summary.hosts.clone()).collect();
    let mut summary = Summary {
        schema_version: parts[0].summary.schema_version,
        transports: merged
            .transports
            .iter()
            .filter_map(|(label, transport_rows)| transport(parts, label, transport_rows))
            .collect(),
        offered_rate: offered / duration_seconds,
        achieved_rate: total.right() as f64 / duration_seconds,
        replay: parts.iter().filter_map(|part| part.summary.replay.clone()).reduce(ReplayFigures::joined).map(
            |figures| {
                // This value is exact, because all send lags are known.
                let send_error_us = figures.send_error_us.map(|_| total.send_lag_us);
                ReplayFigures { send_error_us, ..figures }
            },
        ),
        total,
        duration_seconds,
        validity: Validity {
            valid: parts.iter().all(|part| part.summary.validity.valid),
            reasons: collect_lines(|summary| &summary.validity.reasons),
        },
        limit: Limit {
            side: sides.into_iter().find(|side| has(*side)).unwrap_or(LimitSide::None),
            evidence: collect_lines(|summary| &summary.limit.evidence),
        },
        wrong_answers: wrong_answers(parts),
        hosts: hosts.into_iter().collect(),
        agents: Vec::new(),
        seconds: SecondFigures::of(&merged.rows, duration_seconds),
        monitor: super::monitor_figures::all(merged, duration_seconds),
        rtt: None,
        client_latency: parts
            .iter()
            .filter_map(|part| part.summary.client_latency.clone())
            .reduce(ClientLatency::joined),
        partial: parts.iter().any(|part| part.summary.partial),
        per_query: None,
    };
    let rtts: Vec<_> = parts.iter().map(|part| part.summary.rtt.as_ref().map(|rtt| rtt.rtt_us)).collect();
    if let Some(Some(rtt_us)) = rtts.first().filter(|first| rtts.iter().all(|rtt| rtt == *first)) {
        summary.note_rtt(Duration::from_secs_f64(rtt_us / 1e6));
    }
    summary
}

/// The wrong answers of all runs in order of time.
fn wrong_answers(parts: &[Part<'_>]) -> Vec<WrongAnswer> {
    let of = |part: &Part<'_>| {
        let shifted = |wrong: &WrongAnswer| WrongAnswer { at: wrong.at + part.offset, ..wrong.clone() };
        part.summary.wrong_answers.iter().map(shifted).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = parts.iter().flat_map(of).collect();
    all.sort_by(|one, other| one.at.total_cmp(&other.at));
    all
}

fn transport(parts: &[Part<'_>], label: &str, transport_rows: &TransportRows) -> Option<(Transport, TransportSummary)> {
    let transport: Transport = label.parse().ok()?;
    let of = |part: &Part<'_>| part.summary.transports.get(&transport)?.connections.clone();
    let connections = parts.iter().filter_map(of).reduce(|one, other| ConnectionSummary {
        opened: one.opened + other.opened,
        failed: one.failed + other.failed,
        resumed: one.resumed + other.resumed,
        early_data: one.early_data + other.early_data,
        early_queries: one.early_queries + other.early_queries,
        early_answers: one.early_answers + other.early_answers,
        closed_by_peer: one.closed_by_peer + other.closed_by_peer,
        closed_by_us: one.closed_by_us + other.closed_by_us,
        reused_queries: one.reused_queries + other.reused_queries,
        open_max: 0,
        handshake_us: Quantiles::bound(one.handshake_us, other.handshake_us),
        tcp_connect_us: Quantiles::bound(one.tcp_connect_us, other.tcp_connect_us),
        lifetime_us: Quantiles::bound(one.lifetime_us, other.lifetime_us),
        first_query_us: Quantiles::bound(one.first_query_us, other.first_query_us),
        reused_query_us: Quantiles::bound(one.reused_query_us, other.reused_query_us),
    });
    let open_max = transport_rows.connections.iter().map(ConnectionRow::most_open).max().unwrap_or_default();
    let connections = connections.map(|connections| ConnectionSummary { open_max, ..connections });
    let rows = Row::sum(&transport_rows.rows);
    Some((transport, TransportSummary { connections, ..TransportSummary::from(&rows) }))
}

#[cfg(test)]
mod tests;
