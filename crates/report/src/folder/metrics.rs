//! `seconds.jsonl`: DNS-OARC dns-metrics, JSON Schema of 2024-05-30, one object per line.
//!
//! A header, a `stats_periodic` for each second, and a `stats_sum`, then the latter two for each transport, named in
//! `subid`. Values that the schema does not define are in `additional_info`, as in kxdpgun.

use crate::{ConnectionRow, Distribution, Manifest, Recording, Row, TransportRows, Validity};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::UNIX_EPOCH;

/// Version of the schema, as a date.
const SCHEMA_VERSION: u32 = 20_240_530;

/// Logarithm of the number of buckets per power of two. Buckets are 3 % wide, as in dnsperf. The interval logs have
/// full precision.
const BUCKET_BITS: u32 = 5;

/// Writes all lines.
pub(super) fn write(
    out: &mut impl Write,
    recording: &Recording,
    validity: &Validity,
    manifest: &Manifest,
) -> io::Result<()> {
    let run = unix_ns(recording, 0.0).to_string();
    let mut line = |value: Value| {
        serde_json::to_writer(&mut *out, &value)?;
        out.write_all(b"\n")
    };
    line(json!({
        "runid": run,
        "type": "header",
        "schema_version": SCHEMA_VERSION,
        "generator": "catlab",
        "generator_version": manifest.version,
        "generator_params": manifest.command,
        "time_units_per_sec": 1_000_000_000,
        "stats_interval": 1.0,
        "timeout": recording.timeout.as_secs_f64(),
        "additional_info": {
            "response_latency": "from the planned time of the query; includes timeouts",
            "validity": validity,
            "handshake_timeout": recording.timeouts.handshake.as_secs_f64(),
            "idle_timeout": recording.timeouts.idle.as_secs_f64(),
        },
    }))?;
    let mut block = |subid: Option<&str>, transport_rows: &TransportRows| {
        let mut connections = transport_rows.connections.iter();
        for row in &transport_rows.rows {
            let info = subid.map(|transport| connection_info(transport, row, connections.next()));
            line(stats(recording, "stats_periodic", &run, subid, row, info))?;
        }
        let sum = Row::sum(&transport_rows.rows);
        let opened = transport_rows.connections.iter().fold(ConnectionRow::default(), |sum, row| ConnectionRow {
            opened: sum.opened + row.opened,
            failed: sum.failed + row.failed,
            resumed: sum.resumed + row.resumed,
            ..sum
        });
        let opened = Some(opened).filter(|_| !transport_rows.connections.is_empty());
        let info = subid.map(|transport| connection_info(transport, &sum, opened.as_ref()));
        line(stats(recording, "stats_sum", &run, subid, &sum, info))
    };
    block(None, &TransportRows { rows: recording.rows.clone(), connections: Vec::new() })?;
    recording.transports.iter().try_for_each(|(transport, transport_rows)| block(Some(transport), transport_rows))
}

fn stats(
    recording: &Recording,
    kind: &str,
    run: &str,
    subid: Option<&str>,
    row: &Row,
    connection: Option<Value>,
) -> Value {
    let (mean, deviation) = row.latency.mean_and_deviation();
    let mut value = json!({
        "runid": run,
        "type": kind,
        "since": unix_ns(recording, row.start_seconds),
        "until": unix_ns(recording, row.start_seconds + row.span_seconds),
        "queries": row.sent,
        "responses": row.answered,
        "timeouts": row.timed_out,
        "interrupted": row.interrupted,
        "unexpected": row.late + row.duplicate + row.mismatched + row.stray + row.other_address,
        "discarded": row.send_errors,
        "response_rcodes": row.rcodes,
        "response_latency": {
            "avg": mean as u64,
            "min": row.latency.min(),
            "max": row.latency.max(),
            "stddev": deviation as u64,
            "buckets": buckets(&row.latency),
        },
        "additional_info": {
            "arrived": row.arrived,
            "late": row.late,
            "duplicate": row.duplicate,
            "mismatched": row.mismatched,
            "stray": row.stray,
            "other_address": row.other_address,
            "connection_lost": row.connection_lost,
            "truncated": row.truncated,
            "unexpected_rcode": row.unexpected,
            "answer_check": row.checked,
            "bytes_sent": row.bytes_sent,
            "bytes_received": row.bytes_received,
        },
    });
    if let Some(subid) = subid {
        value["subid"] = subid.into();
    }
    if let Some(connection) = connection {
        value["conn_info"] = connection;
    }
    value
}

/// The schema defines four kinds. DoH counts as TLS.
fn connection_info(transport: &str, row: &Row, connections: Option<&ConnectionRow>) -> Value {
    let kind = match transport {
        "udp" | "tcp" => transport,
        "doq" => "quic_conn",
        _ => "tls_conn",
    };
    let mut info = Map::from_iter([("type".to_owned(), kind.into())]);
    if kind == "udp" {
        info.insert("packets_sent".into(), row.sent.into());
        let received = row.arrived + row.late + row.duplicate + row.mismatched + row.stray + row.other_address;
        info.insert("packets_received".into(), received.into());
    }
    info.insert("socket_errors".into(), row.send_errors.into());
    if let Some(connections) = connections.filter(|_| kind != "udp") {
        info.insert("handshakes".into(), connections.opened.into());
        info.insert("handshakes_failed".into(), connections.failed.into());
        if kind != "tcp" {
            info.insert("resumption".into(), json!({ "established": connections.resumed }));
        }
    }
    info.into()
}

/// `[min, max, count]`, bounds inclusive, in nanoseconds.
fn buckets(distribution: &Distribution) -> Vec<[u64; 3]> {
    scaled_buckets(distribution, 1)
}

/// The same in microseconds.
pub(crate) fn buckets_us(distribution: &Distribution) -> Vec<[u64; 3]> {
    scaled_buckets(distribution, 1_000)
}

fn scaled_buckets(distribution: &Distribution, unit: u64) -> Vec<[u64; 3]> {
    let mut counts = BTreeMap::new();
    for &(value, count) in distribution.entries() {
        let value = value / unit;
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
        let min = value >> shift << shift;
        *counts.entry((min, min + ((1 << shift) - 1))).or_insert(0) += count;
    }
    counts.into_iter().map(|((min, max), count)| [min, max, count]).collect()
}

/// Parsed lines of dns-metrics, ours or another program's.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// The header. Empty if missing.
    pub(crate) header: Map<String, Value>,
    /// Intervals by `subid`, or "" without one.
    pub(crate) periodic: BTreeMap<String, Vec<Row>>,
    /// Whole runs, in the order of the file.
    pub(crate) sums: BTreeMap<String, Row>,
    /// When the first interval began, in nanoseconds since 1970.
    pub(crate) since_ns: u64,
}

/// Parses lines of dns-metrics. Ignores unknown types and fields. The number of sent queries is read from `queries`,
/// from `sent.queries` of the proposed successor, or from `requests` of the predecessor (dnsperf's branch
/// `json_output`); other fields likewise.
///
/// # Errors
/// Says what is wrong in which line.
pub(crate) fn read(text: &str) -> Result<Metrics, String> {
    let mut metrics = Metrics::default();
    let mut per_second = 1_000_000_000.0;
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let at = |reason: String| format!("line {}: {reason}", index + 1);
        let value: Value = serde_json::from_str(line).map_err(|error| at(error.to_string()))?;
        let kind = value["type"].as_str().unwrap_or_default();
        if kind == "header" {
            per_second = value["time_units_per_sec"].as_f64().unwrap_or(per_second);
            metrics.header = value.as_object().cloned().unwrap_or_default();
        }
        if !matches!(kind, "stats_periodic" | "stats_sum") {
            continue;
        }
        let (Some(since), Some(until)) = (value["since"].as_u64(), value["until"].as_u64()) else {
            return Err(at("an object of statistics without since and until".into()));
        };
        if metrics.since_ns == 0 {
            metrics.since_ns = (since as f64 / per_second * 1e9) as u64;
        }
        let start_seconds = (since as f64 / per_second) - metrics.since_ns as f64 / 1e9;
        let span_seconds = until.saturating_sub(since) as f64 / per_second;
        let row = Row { start_seconds: clean(start_seconds), span_seconds, ..counts(&value, per_second) };
        let subid = value["subid"].as_str().map_or_else(String::new, str::to_owned);
        if kind == "stats_sum" {
            metrics.sums.insert(subid, row);
        } else {
            metrics.periodic.entry(subid).or_default().push(row);
        }
    }
    Ok(metrics)
}

/// Nanoseconds since 1970 exceed the 53 bits of a double, microseconds do not.
fn clean(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 1e4
}

fn counts(value: &Value, per_second: f64) -> Row {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let first = |found: [&Value; 3]| found.into_iter().find_map(Value::as_u64).unwrap_or_default();
    let more = &value["additional_info"];
    // Runs of earlier versions have `octets_sent` and `octets_received`.
    let bytes = |what: &str| {
        let [new, old] = ["bytes", "octets"].map(|unit| more[format!("{unit}_{what}")].as_u64());
        new.or(old).unwrap_or_default()
    };
    let to_ns = 1e9 / per_second;
    let triple = |bucket: &Value| {
        let [_, max, count] = [0, 1, 2].map(|index| bucket[index].as_u64());
        Some(((max? as f64 * to_ns) as u64, count?))
    };
    let times = if value["response_latency"].is_null() { &value["answer_latency"] } else { &value["response_latency"] };
    let buckets = times["buckets"].as_array();
    let rcodes = if value["response_rcodes"].is_null() { &value["responses"] } else { &value["response_rcodes"] };
    let answered = first([&value["responses"], &value["received"]["responses"], &value["answers"]]);
    Row {
        sent: first([&value["queries"], &value["sent"]["queries"], &value["requests"]]),
        answered,
        timed_out: number(&value["timeouts"]),
        interrupted: number(&value["interrupted"]),
        connection_lost: number(&more["connection_lost"]),
        truncated: number(&more["truncated"]),
        unexpected: number(&more["unexpected_rcode"]),
        // Other programs do not check answers.
        checked: serde_json::from_value(more["answer_check"].clone()).unwrap_or_default(),
        rcodes: rcodes
            .as_object()
            .map(|rcodes| rcodes.iter().map(|(name, count)| (name.clone(), number(count))).collect())
            .unwrap_or_default(),
        bytes_sent: bytes("sent"),
        send_errors: number(&value["discarded"]),
        // Programs without this field count answers when they arrive.
        arrived: more["arrived"].as_u64().unwrap_or(answered),
        bytes_received: bytes("received"),
        late: number(&more["late"]),
        duplicate: number(&more["duplicate"]),
        mismatched: number(&more["mismatched"]),
        stray: number(&more["stray"]),
        other_address: number(&more["other_address"]),
        latency: Distribution::of(buckets.into_iter().flatten().filter_map(triple)),
        ..Row::default()
    }
}

/// Converts a time of the run to nanoseconds since 1970.
fn unix_ns(recording: &Recording, seconds: f64) -> u64 {
    let started = recording.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    started + (seconds * 1e9) as u64
}
