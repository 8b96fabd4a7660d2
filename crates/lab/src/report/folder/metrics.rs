//! `seconds.jsonl`: DNS-OARC dns-metrics, JSON Schema of 2024-05-30, one object a line.
//!
//! A header, a `stats_periodic` for each second, a `stats_sum`; then, with `subid` the transport, the same two of each
//! transport. What the schema has no word for stands in `additional_info`, where kxdpgun puts such things.

use super::unix_ns;
use crate::report::{Account, ConnectionRow, Distribution, Manifest, Recording, Row, Validity};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Version of the schema, as a date.
const SCHEMA_VERSION: u32 = 20_240_530;

/// Buckets to each power of two: 3 % wide, as dnsperf's are; the interval logs have all digits.
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
            "response_latency": "from the planned time of the query; time-outs are among them",
            "validity": validity,
            "handshake_timeout": recording.timeouts.handshake.as_secs_f64(),
            "idle_timeout": recording.timeouts.idle.as_secs_f64(),
        },
    }))?;
    let mut block = |subid: Option<&str>, account: &Account| {
        let mut connections = account.connections.iter();
        for row in &account.rows {
            let info = subid.map(|transport| connection_info(transport, row, connections.next()));
            line(stats(recording, "stats_periodic", &run, subid, row, info))?;
        }
        let sum = Row::sum(&account.rows);
        let opened = account.connections.iter().fold(ConnectionRow::default(), |sum, row| ConnectionRow {
            opened: sum.opened + row.opened,
            failed: sum.failed + row.failed,
            resumed: sum.resumed + row.resumed,
            ..sum
        });
        let opened = Some(opened).filter(|_| !account.connections.is_empty());
        let info = subid.map(|transport| connection_info(transport, &sum, opened.as_ref()));
        line(stats(recording, "stats_sum", &run, subid, &sum, info))
    };
    block(None, &Account { rows: recording.rows.clone(), connections: Vec::new() })?;
    recording.transports.iter().try_for_each(|(transport, account)| block(Some(transport), account))
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

/// The schema knows four kinds; DoH is TLS.
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
pub(in crate::report) fn buckets_us(distribution: &Distribution) -> Vec<[u64; 3]> {
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

/// Lines of dns-metrics, ours or another program's, read back.
#[derive(Debug, Default)]
pub(in crate::report) struct Metrics {
    /// The header's objects; empty when there is none.
    pub(in crate::report) header: Map<String, Value>,
    /// Intervals by `subid`; "" for those without one.
    pub(in crate::report) periodic: BTreeMap<String, Vec<Row>>,
    /// Whole runs, in the order of the file.
    pub(in crate::report) sums: BTreeMap<String, Row>,
    /// When the first interval began, nanoseconds since 1970.
    pub(in crate::report) since_ns: u64,
}

/// Reads lines of dns-metrics. Other types than the schema's are passed over; so are fields it does not name. What was
/// sent is taken as `queries`, as `sent.queries` of the proposed successor, or as `requests` of the form from which the
/// schema came (dnsperf's branch `json_output`); the rest alike.
///
/// # Errors
/// With the number of the line and the reason.
pub(in crate::report) fn read(text: &str) -> Result<Metrics, String> {
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

/// Times since 1970 in nanoseconds do not fit into the 53 bits of the fraction: microseconds do.
fn clean(seconds: f64) -> f64 {
    (seconds * 1e4).round() / 1e4
}

fn counts(value: &Value, per_second: f64) -> Row {
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let first = |found: [&Value; 3]| found.into_iter().find_map(Value::as_u64).unwrap_or_default();
    let more = &value["additional_info"];
    // Runs of earlier builds say `octets_sent` and `octets_received`.
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
        // Other programs check nothing.
        checked: serde_json::from_value(more["answer_check"].clone()).unwrap_or_default(),
        rcodes: rcodes
            .as_object()
            .map(|rcodes| rcodes.iter().map(|(name, count)| (name.clone(), number(count))).collect())
            .unwrap_or_default(),
        bytes_sent: bytes("sent"),
        send_errors: number(&value["discarded"]),
        // Programs that do not tell when answers came count them when they come.
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
