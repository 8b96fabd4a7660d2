//! `shotgun.json`: the result file of DNS Shotgun, version 20200527, field by field, so that its plot scripts work.
//! Also has `validity`, which they ignore.

use crate::{ConnectionRow, Recording, Row, Validity};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Version of the format, as a date.
const VERSION: u32 = 20_200_527;

/// RCODEs with their own fields, in the order of the file.
pub(super) const RCODES: [&str; 19] = [
    "NOERROR",
    "FORMERR",
    "SERVFAIL",
    "NXDOMAIN",
    "NOTIMP",
    "REFUSED",
    "YXDOMAIN",
    "YXRRSET",
    "NXRRSET",
    "NOTAUTH",
    "NOTZONE",
    "BADVERS",
    "BADKEY",
    "BADTIME",
    "BADMODE",
    "BADNAME",
    "BADALG",
    "BADTRUNC",
    "BADCOOKIE",
];

#[derive(Serialize)]
struct File<'a> {
    version: u32,
    merged: bool,
    validity: &'a Validity,
    stats_interval_ms: u64,
    timeout_ms: u64,
    idle_timeout_ms: u64,
    handshake_timeout_ms: u64,
    discarded: u64,
    stats_sum: Statistics,
    stats_periodic: Vec<Statistics>,
}

#[derive(Serialize)]
struct Statistics {
    since_ms: u64,
    until_ms: u64,
    requests: u64,
    ongoing: u64,
    answers: u64,
    conn_active: u64,
    conn_handshakes: u64,
    conn_resumed: u64,
    conn_quic_0rtt_loaded: u64,
    quic_0rtt_sent: u64,
    quic_0rtt_answered: u64,
    conn_handshakes_failed: u64,
    /// `rcode_noerror` and so on.
    #[serde(flatten)]
    rcodes: Map<String, Value>,
    /// Number of queries by latency in milliseconds. The last element, at the timeout, counts unanswered queries.
    latency: Vec<u64>,
}

/// Writes the file.
pub(super) fn write(out: &mut impl Write, recording: &Recording, validity: &Validity) -> io::Result<()> {
    let timeout_ms = recording.timeout.as_millis() as u64;
    let statistics = |row: &Row, connections: &ConnectionRow| statistics(row, connections, timeout_ms);
    let total = Row::sum(&sending(recording).cloned().collect::<Vec<_>>());
    let file = File {
        version: VERSION,
        merged: false,
        validity,
        stats_interval_ms: 1_000,
        timeout_ms,
        idle_timeout_ms: recording.timeouts.idle.as_millis() as u64,
        handshake_timeout_ms: recording.timeouts.handshake.as_millis() as u64,
        discarded: total.send_errors,
        stats_sum: statistics(&total, &connections_of_all(recording)),
        stats_periodic: sending(recording).map(|row| statistics(row, &connections_of(recording, row))).collect(),
    };
    serde_json::to_writer(&mut *out, &file)?;
    out.write_all(b"\n")
}

/// Seconds up to the last one with a sent query, because a script divides by the number of sent queries.
pub(super) fn sending(recording: &Recording) -> impl Iterator<Item = &Row> {
    let count = recording.rows.iter().rposition(|row| row.sent > 0).map_or(0, |last| last + 1);
    recording.rows.iter().take(count)
}

/// Connections of one second, summed over all transports.
pub(super) fn connections_of(recording: &Recording, row: &Row) -> ConnectionRow {
    let all = recording.transports.values().flat_map(|transport_rows| &transport_rows.connections);
    connections(all.filter(|other| other.at == row.start_seconds))
}

/// Connections of the whole run. Open connections are those at the end of each transport.
pub(super) fn connections_of_all(recording: &Recording) -> ConnectionRow {
    let last = recording.transports.values().filter_map(|transport_rows| transport_rows.connections.last());
    let all = connections(recording.transports.values().flat_map(|transport_rows| &transport_rows.connections));
    ConnectionRow { open: last.map(|row| row.open).sum(), ..all }
}

/// Number of queries by latency in milliseconds. The last element, at the timeout, counts unanswered queries.
pub(super) fn milliseconds(row: &Row, timeout_ms: u64) -> Vec<u64> {
    let mut latency = vec![0; timeout_ms as usize + 1];
    for &(ns, count) in row.latency.entries() {
        latency[(ns / 1_000_000).min(timeout_ms) as usize] += count;
    }
    latency
}

fn connections<'a>(rows: impl Iterator<Item = &'a ConnectionRow>) -> ConnectionRow {
    rows.fold(ConnectionRow::default(), |sum, row| ConnectionRow {
        opened: sum.opened + row.opened,
        failed: sum.failed + row.failed,
        resumed: sum.resumed + row.resumed,
        early_queries: sum.early_queries + row.early_queries,
        early_answers: sum.early_answers + row.early_answers,
        early_data: sum.early_data + if row.transport == "doq" { row.early_data } else { 0 },
        open: sum.open + row.open,
        ..sum
    })
}

fn statistics(row: &Row, connections: &ConnectionRow, timeout_ms: u64) -> Statistics {
    let ms = |seconds: f64| (seconds * 1e3).round() as u64;
    let mut rcodes: Map<String, Value> = RCODES
        .iter()
        .map(|name| {
            let count = row.rcodes.iter().find(|(rcode, _)| rcode.eq_ignore_ascii_case(name));
            (format!("rcode_{}", name.to_ascii_lowercase()), count.map_or(0, |(_, &count)| count).into())
        })
        .collect();
    let others = row.rcodes.iter().filter(|(name, _)| !RCODES.iter().any(|known| name.eq_ignore_ascii_case(known)));
    rcodes.insert("rcode_other".into(), others.map(|(_, count)| count).sum::<u64>().into());
    Statistics {
        since_ms: ms(row.start_seconds),
        until_ms: ms(row.start_seconds + row.span_seconds),
        requests: row.sent,
        ongoing: row.interrupted,
        answers: row.answered,
        conn_active: connections.open,
        conn_handshakes: connections.opened + connections.failed,
        conn_resumed: connections.resumed,
        conn_quic_0rtt_loaded: connections.early_data,
        quic_0rtt_sent: connections.early_queries,
        quic_0rtt_answered: connections.early_answers,
        conn_handshakes_failed: connections.failed,
        rcodes,
        latency: milliseconds(row, timeout_ms),
    }
}
