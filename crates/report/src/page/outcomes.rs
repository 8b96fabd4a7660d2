//! Charts of the outcomes of queries and connections.

use super::figure::{BAD, Figure, GREY, colour, dash, escape, line, linear, log_seconds, of_run};
use super::intervals::Interval;
use super::latency::titled;
use crate::{ConnectionRow, Row, Run, palette};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Answers per second by RCODE, with timeouts on top. Together they are all sent queries.
pub(super) fn answers(index: usize, run: &Run, intervals: &[Interval], is_alone: bool) -> Option<Figure> {
    let rcodes: BTreeSet<&String> = intervals.iter().flat_map(|interval| interval.row.rcodes.keys()).collect();
    if intervals.is_empty() {
        return None;
    }
    let name = titled("Answers by RCODE", run, is_alone);
    let mut figure = Figure::new(&format!("answers-{index}"), &name, &[run])
        .caption("Outcomes of the queries of each second. The height of a bar is the number of queries sent.");
    let widths: Vec<f64> = intervals.iter().map(|interval| interval.row.span_seconds).collect();
    let x: Vec<f64> = intervals.iter().map(Interval::middle).collect();
    let mut bar = |name: &str, counts: Vec<u64>, colour: &str, pattern: &str| {
        let y: Vec<f64> = counts.iter().zip(&widths).map(|(&count, width)| count as f64 / width.max(1e-9)).collect();
        figure.traces.push(json!({
            "type": "bar", "name": escape(name), "x": x, "y": y, "width": widths, "hovertemplate": "%{y:,.1f}/s",
            "marker": { "color": colour, "line": { "width": 0 }, "pattern": { "shape": pattern, "size": 5 } },
        }));
    };
    let count = |rcode: &str| {
        intervals.iter().map(|interval| interval.row.rcodes.get(rcode).copied().unwrap_or(0)).collect::<Vec<_>>()
    };
    for rcode in rcodes {
        bar(rcode, count(rcode), palette::rcode(rcode), "");
    }
    let none: Vec<u64> = intervals
        .iter()
        .map(|interval| interval.row.answered.saturating_sub(interval.row.rcodes.values().sum()))
        .collect();
    if none.iter().any(|&count| count > 0) {
        bar("RCODE not told", none, GREY, "");
    }
    for (name, counts) in [
        ("timed out", intervals.iter().map(|interval| interval.row.timed_out).collect::<Vec<_>>()),
        ("connection lost", intervals.iter().map(|interval| interval.row.connection_lost).collect()),
        ("interrupted", intervals.iter().map(|interval| interval.row.interrupted).collect()),
    ] {
        if counts.iter().any(|&count| count > 0) {
            bar(name, counts, if name == "timed out" { BAD } else { GREY }, "/");
        }
    }
    let mut figure = figure.timed(&[(index, run)], linear("queries a second"));
    figure.layout["barmode"] = "stack".into();
    figure.layout["bargap"] = 0.into();
    Some(figure)
}

/// Losses and errors per second.
pub(super) fn losses(runs: &[Run], intervals: &[Vec<Interval>]) -> Figure {
    let all: Vec<_> = runs.iter().collect();
    let mut figure = Figure::new("losses", "Losses and unexpected answers", &all).caption(
        "Timeouts, wrong answers and lost connections are shown in the second in which the query was sent. Late, \
         duplicate, mismatched and stray answers, and those from another address, are shown in the second in which \
         they came.",
    );
    type Count = fn(&Row) -> u64;
    let kinds: [(&str, Count, &str); 8] = [
        ("timed out", |row| row.timed_out, BAD),
        ("late", |row| row.late, "#4477AA"),
        ("duplicate", |row| row.duplicate, "#228833"),
        ("mismatched", |row| row.mismatched, "#AA3377"),
        ("stray", |row| row.stray, "#CCBB44"),
        ("from another address", |row| row.other_address, "#66CCEE"),
        ("connection lost", |row| row.connection_lost, GREY),
        ("wrong", |row| row.checked.wrong(), "#EE6677"),
    ];
    for (index, (run, intervals)) in runs.iter().zip(intervals).enumerate() {
        for (at, (kind, count, kind_colour)) in kinds.into_iter().enumerate() {
            let y: Vec<_> = intervals.iter().map(|interval| Some(count(&interval.row) as f64)).collect();
            if y.iter().flatten().all(|&count| count == 0.0) {
                continue;
            }
            let (name, colour) = if runs.len() > 1 {
                (format!("{} {kind}", run.label), colour(index))
            } else {
                (kind.to_owned(), kind_colour)
            };
            let mut trace = line(
                &name,
                intervals.iter().map(Interval::middle).collect(),
                y,
                colour,
                dash(if runs.len() > 1 { at } else { 0 }),
            );
            trace["mode"] = "lines+markers".into();
            trace["line"]["shape"] = "hvh".into();
            trace["hovertemplate"] = "%{y:,.0f}".into();
            if runs.len() > 1 {
                of_run(&mut trace, &run.label, kind);
            }
            figure.traces.push(trace);
        }
    }
    let is_clean = figure.traces.is_empty();
    let all: Vec<_> = runs.iter().enumerate().collect();
    let mut figure = figure.timed(&all, linear("in each interval"));
    if is_clean {
        figure.show_empty("none: every query was answered in time, once");
    }
    figure
}

/// Open connections, opened and closed ones, and handshake times. None for runs without connections.
pub(super) fn connections(runs: &[Run]) -> Vec<Figure> {
    let has_any =
        |run: &Run| run.recording.transports.values().any(|transport_rows| !transport_rows.connections.is_empty());
    if !runs.iter().any(has_any) {
        return Vec::new();
    }
    let counts: [Plotted; 6] = [
        ("opened", |row| row.opened as f64),
        ("resumed", |row| row.resumed as f64),
        ("0-RTT", |row| row.early_data as f64),
        ("failed", |row| row.failed as f64),
        ("closed by server", |row| row.closed_by_peer as f64),
        ("closed by us", |row| row.closed_by_us as f64),
    ];
    let times: [Plotted; 3] = [
        ("p50", |row| row.handshake_us.p50 / 1e6),
        ("p99", |row| row.handshake_us.p99 / 1e6),
        ("max", |row| row.handshake_us.max / 1e6),
    ];
    let open: [Plotted; 1] = [("open", |row| row.most_open() as f64)];
    vec![
        of_connections(runs, "connections", "Connections open", &open, linear("connections"))
            .caption("Peak number of open connections in each second."),
        of_connections(runs, "handshakes", "Connections opened and closed", &counts, linear("a second")).caption(
            "Completed handshakes, and how many of these were resumed or used 0-RTT; failed handshakes; closed \
             connections.",
        ),
        of_connections(runs, "handshake-time", "Handshakes", &times, log_seconds("from first packet to use"))
            .caption("Time until a connection could be used, by the second in which it was opened."),
    ]
}

/// A name and its values.
type Plotted = (&'static str, fn(&ConnectionRow) -> f64);

fn of_connections(runs: &[Run], id: &str, name: &str, values: &[Plotted], axis: Value) -> Figure {
    let mut figure = Figure::new(id, name, &runs.iter().collect::<Vec<_>>());
    let is_log = axis["type"] == "log";
    for (index, run) in runs.iter().enumerate() {
        for (order, (transport, transport_rows)) in run.recording.transports.iter().enumerate() {
            for (at, (what, value)) in values.iter().enumerate() {
                let y: Vec<_> = transport_rows
                    .connections
                    .iter()
                    .map(|row| Some(value(row)).filter(|value| !is_log || *value > 0.0))
                    .collect();
                if y.iter().flatten().all(|&value| value == 0.0) {
                    continue;
                }
                let name = if runs.len() > 1 {
                    format!("{} {transport} {what}", run.label)
                } else {
                    format!("{transport} {what}")
                };
                let x = transport_rows.connections.iter().map(|row| row.at + 0.5).collect();
                let mut trace = line(
                    &name,
                    x,
                    y,
                    colour(if runs.len() > 1 { index } else { at }),
                    dash(if runs.len() > 1 { at } else { order }),
                );
                trace["hovertemplate"] = if is_log { "%{y:.3s}s" } else { "%{y:,.0f}" }.into();
                if runs.len() > 1 {
                    of_run(&mut trace, &run.label, &format!("{transport} {what}"));
                }
                figure.traces.push(trace);
            }
        }
    }
    let all: Vec<_> = runs.iter().enumerate().collect();
    figure.timed(&all, axis)
}
