//! `shotgun.jsonl`, the format of a branch of DNS Shotgun (commit 05161509): one JSON value per line. The master branch
//! uses version 20200527 instead. The names are those of dns-metrics, times are in milliseconds, and latency is a count
//! for each millisecond.

use super::shotgun::{RCODES, connections_of, connections_of_all, milliseconds, sending};
use crate::{ConnectionRow, Recording, Row, Validity};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::UNIX_EPOCH;

/// Version of the format, as a date.
const SCHEMA_VERSION: u32 = 20_221_207;

#[derive(Serialize)]
struct Header<'a> {
    runid: &'a str,
    r#type: &'static str,
    schema_version: u32,
    generator: &'static str,
    generator_version: &'static str,
    time_units_per_sec: u64,
    stats_interval: u64,
    timeout: u64,
    discarded: u64,
    merged: bool,
    /// Ignored by its scripts.
    validity: &'a Validity,
}

#[derive(Serialize)]
struct Statistics<'a> {
    runid: &'a str,
    r#type: &'static str,
    since: u64,
    until: u64,
    queries: u64,
    responses: u64,
    timeouts: u64,
    response_rcodes: BTreeMap<&'a str, u64>,
    response_latency: Latency,
    conn_active: u64,
    conn_handshakes: u64,
    conn_handshakes_failed: u64,
    conn_resumed: u64,
    conn_quic_0rtt_loaded: u64,
    quic_0rtt_sent: u64,
    quic_0rtt_answered: u64,
}

/// Counts by milliseconds. The last element, at the timeout, counts unanswered queries.
#[derive(Serialize)]
struct Latency {
    buckets: Vec<u64>,
}

/// Writes the file.
pub(super) fn write(out: &mut impl Write, recording: &Recording, validity: &Validity) -> io::Result<()> {
    let timeout = recording.timeout.as_millis() as u64;
    let total = Row::sum(&sending(recording).cloned().collect::<Vec<_>>());
    let started = recording.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let runid = format!("catlab-{}", started.as_millis());
    let header = Header {
        runid: &runid,
        r#type: "header",
        schema_version: SCHEMA_VERSION,
        generator: "catlab",
        generator_version: env!("CARGO_PKG_VERSION"),
        time_units_per_sec: 1_000,
        stats_interval: 1_000,
        timeout,
        discarded: total.send_errors,
        merged: false,
        validity,
    };
    line(out, &header)?;
    for row in sending(recording) {
        let connections = connections_of(recording, row);
        line(out, &statistics(&runid, "stats_periodic", row, &connections, timeout))?;
    }
    line(out, &statistics(&runid, "stats_sum", &total, &connections_of_all(recording), timeout))
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

fn statistics<'a>(
    runid: &'a str,
    kind: &'static str,
    row: &'a Row,
    connections: &ConnectionRow,
    timeout: u64,
) -> Statistics<'a> {
    let ms = |seconds: f64| (seconds * 1e3).round() as u64;
    let mut rcodes = BTreeMap::new();
    for (rcode, count) in &row.rcodes {
        let known = RCODES.into_iter().find(|known| rcode.eq_ignore_ascii_case(known));
        *rcodes.entry(known.unwrap_or("other")).or_default() += count;
    }
    Statistics {
        runid,
        r#type: kind,
        since: ms(row.start_seconds),
        until: ms(row.start_seconds + row.span_seconds),
        queries: row.sent,
        responses: row.answered,
        timeouts: row.timed_out,
        response_rcodes: rcodes,
        response_latency: Latency { buckets: milliseconds(row, timeout) },
        conn_active: connections.open,
        conn_handshakes: connections.opened + connections.failed,
        conn_handshakes_failed: connections.failed,
        conn_resumed: connections.resumed,
        conn_quic_0rtt_loaded: connections.early_data,
        quic_0rtt_sent: connections.early_queries,
        quic_0rtt_answered: connections.early_answers,
    }
}
