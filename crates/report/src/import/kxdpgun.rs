//! dns-metrics of other programs. kxdpgun deviates from the schema: its `runid` is a number, threads have their own
//! objects, and its version is in `schema_version` (20240530).

use crate::folder::metrics;
use crate::{Manifest, Row, Run, TransportRows};
use serde_json::Value;

pub(super) fn read(text: &str, label: String) -> Result<Run, String> {
    let mut metrics = metrics::read(text)?;
    let total = metrics.sums.remove("").or_else(|| metrics.sums.values().next().cloned());
    let periodic = metrics.periodic.remove("");
    if total.is_none() && periodic.is_none() {
        return Err("no object with statistics is in it".into());
    }
    let header = |field: &str| metrics.header.get(field).and_then(Value::as_str).unwrap_or_default();
    let origin = format!("{} {}", header("generator"), header("generator_version"));
    let arguments = metrics.header.get("generator_params").and_then(Value::as_array);
    let manifest = Manifest {
        command: arguments.into_iter().flatten().filter_map(|argument| Some(argument.as_str()?.to_owned())).collect(),
        version: header("generator_version").to_owned(),
        started: metrics.since_ns as f64 / 1e9,
        ..Manifest::default()
    };
    let timeout = metrics.header.get("timeout").and_then(Value::as_f64).unwrap_or_default();
    let mut recording = super::recording::recording(metrics.since_ns, timeout);
    recording.rows = periodic.or_else(|| Some(vec![total.clone()?])).unwrap_or_default();
    let total = total.unwrap_or_else(|| Row::sum(&recording.rows));
    if let Some(transport) = transport(metrics.header.get("additional_info")) {
        recording.transports.insert(transport, TransportRows { rows: recording.rows.clone(), connections: Vec::new() });
    }
    let mut notes = Vec::new();
    if total.latency.is_empty() {
        notes.push(format!("{origin} measures no latency, and counts answers without comparing them with queries"));
    }
    Ok(Run {
        label,
        origin: origin.trim().to_owned(),
        summary: None,
        manifest: Some(manifest),
        total,
        recording,
        notes,
    })
}

fn transport(info: Option<&Value>) -> Option<String> {
    match info?["transport_layer_proto"].as_str()? {
        "QUIC" => Some("doq".into()),
        other => Some(other.to_ascii_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Based on `json_stats` of Knot 3.5's kxdpgun.
    const RUN: &str = include_str!("../../testdata/kxdpgun.jsonl");

    #[test]
    fn kxdpgun_seconds_and_totals_are_read() {
        let run = read(RUN, "old".into()).unwrap();
        let rates: Vec<_> = run.recording.rows.iter().map(|row| (row.start_seconds, row.sent, row.answered)).collect();
        assert_eq!(rates, [(0.0, 1_000, 990), (1.0, 1_000, 1_000)]);
        assert_eq!((run.total.sent, run.total.rcodes["NXDOMAIN"], run.total.span_seconds), (2_000, 90, 2.0));
        assert_eq!((run.origin.as_str(), run.recording.transports.len()), ("kxdpgun 3.5.6", 1));
        assert!(run.notes[0].contains("measures no latency"));
    }

    #[test]
    fn errors_name_the_broken_line() {
        assert!(read("{\"type\":\"header\"}\n{\"type\":", String::new()).unwrap_err().starts_with("line 2: "));
        assert!(read("{\"type\":\"header\"}", String::new()).unwrap_err().contains("no object with statistics"));
    }
}
