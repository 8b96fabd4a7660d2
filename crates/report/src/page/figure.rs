//! A chart for plotly.js: traces and a layout, in its JSON schema.
//!
//! Runs differ by colour and dash. Everything except data is coloured by the style sheet of the page.

pub(super) use crate::palette::{BAD, GREY, run as colour};
use crate::{Run, duration};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const DASHES: [&str; 4] = ["solid", "dash", "dot", "dashdot"];

/// Maximum number of intervals on a time axis. Longer runs combine several seconds.
pub(super) const INTERVALS_MAX: usize = 900;

/// Width of a mark's number as a share of the time axis.
const MARKS_NEAR: f64 = 0.015;

/// A chart.
pub(super) struct Figure {
    /// Anchor on the page.
    pub(super) id: String,
    /// Name in the list of charts.
    pub(super) name: String,
    /// Title of the chart.
    pub(super) title: String,
    /// How to read it.
    pub(super) caption: String,
    pub(super) traces: Vec<Value>,
    pub(super) layout: Value,
    /// Whether its horizontal axis is the time of the run.
    pub(super) is_timed: bool,
}

impl Figure {
    /// An empty chart of these runs. Its title has `name` and every invalid run.
    pub(super) fn new(id: &str, name: &str, runs: &[&Run]) -> Self {
        let invalid: Vec<_> = runs.iter().filter(|run| run.is_invalid()).map(|run| escape(&run.label)).collect();
        let mark = if invalid.is_empty() {
            String::new()
        } else {
            format!(" <span style=\"color:{BAD}\"><b>INVALID: {}</b></span>", invalid.join(", "))
        };
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            title: format!("{}{mark}", escape(name)),
            caption: String::new(),
            traces: Vec::new(),
            layout: json!({}),
            is_timed: false,
        }
    }

    /// Sets the caption.
    pub(super) fn caption(mut self, text: impl Into<String>) -> Self {
        self.caption = text.into();
        self
    }

    /// Sets the axes.
    pub(super) fn axes(mut self, x: Value, y: Value) -> Self {
        self.layout["xaxis"] = x;
        self.layout["yaxis"] = y;
        self
    }

    /// Uses the time of the run as the horizontal axis, with a mark at each event.
    pub(super) fn timed(mut self, runs: &[(usize, &Run)], y: Value) -> Self {
        let end = runs.iter().map(|(_, run)| end(run)).fold(1.0, f64::max);
        let mut shapes = Vec::new();
        let mut marks = Vec::new();
        for (index, run) in runs {
            for (number, event) in (1..).zip(&run.recording.events) {
                let colour = if runs.len() > 1 { colour(*index) } else { BAD };
                shapes.push(json!({
                    "type": "line", "xref": "x", "yref": "paper", "x0": event.at, "x1": event.at, "y0": 0, "y1": 1,
                    "line": { "color": colour, "width": 1, "dash": "dot" },
                }));
                let run = if runs.len() > 1 { format!("{}, ", run.label) } else { String::new() };
                let text = format!("{number}: {run}{:.3} s, {}: {}", event.at, event.kind, event.text);
                marks.push(Mark { at: event.at, number, text: escape(&text) });
            }
        }
        let annotations: Vec<_> = group_marks(marks, end * MARKS_NEAR).iter().map(|marks| annotation(marks)).collect();
        self.layout["xaxis"] = json!({
            "title": { "text": "time in the run, s" }, "range": [0.0, end], "hoverformat": ".1f",
            // At the last tick, and wherever the pointer is.
            "ticksuffix": " s", "showticksuffix": "last",
        });
        self.layout["yaxis"] = y;
        self.layout["shapes"] = shapes.into();
        self.layout["annotations"] = annotations.into();
        self.is_timed = true;
        self
    }

    /// Makes the chart low and shows a text instead of data.
    pub(super) fn show_empty(&mut self, text: &str) {
        self.note(text);
        self.layout["yaxis"] = json!({ "range": [0, 1], "dtick": 1 });
        self.layout["height"] = 180.into();
    }

    /// Shows a text in the middle of an empty chart.
    pub(super) fn note(&mut self, text: &str) {
        let note = json!({
            "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": false, "text": text,
            "font": { "size": 13 },
        });
        match self.layout["annotations"].as_array_mut() {
            Some(annotations) => annotations.push(note),
            None => self.layout["annotations"] = json!([note]),
        }
    }
}

/// The label of an event.
struct Mark {
    at: f64,
    /// Its number in the table of events.
    number: u32,
    text: String,
}

/// Groups marks within `near` seconds, because their numbers would overlap.
fn group_marks(mut marks: Vec<Mark>, near: f64) -> Vec<Vec<Mark>> {
    marks.sort_by(|one, other| one.at.total_cmp(&other.at));
    let mut groups: Vec<Vec<Mark>> = Vec::new();
    for mark in marks {
        match groups.last_mut().filter(|group| mark.at - group[0].at < near) {
            Some(group) => group.push(mark),
            None => groups.push(vec![mark]),
        }
    }
    groups
}

/// Numbers above a chart. Their texts are in the hover text and in a table, because they would cover the curves.
fn annotation(marks: &[Mark]) -> Value {
    let numbers: BTreeSet<u32> = marks.iter().map(|mark| mark.number).collect();
    let text = match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) if numbers.len() > 3 => format!("{first} … {last}"),
        _ => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    let texts: Vec<_> = marks.iter().map(|mark| mark.text.as_str()).collect();
    json!({
        "xref": "x", "yref": "paper", "x": marks[0].at, "y": 1, "yanchor": "bottom", "showarrow": false,
        "text": text, "font": { "size": 10 }, "hovertext": texts.join("<br>"),
    })
}

/// End of the recording, in seconds.
fn end(run: &Run) -> f64 {
    run.recording
        .rows
        .iter()
        .filter(|row| row.sent > 0 || row.arrived > 0)
        .map(|row| row.start_seconds + row.span_seconds)
        .fold(0.0, f64::max)
}

/// A line of a run.
pub(super) fn line(name: &str, x: Vec<f64>, y: Vec<Option<f64>>, colour: &str, dash: &str) -> Value {
    let is_there = |at: usize| y.get(at).is_some_and(Option::is_some);
    // A line of one point is invisible without a marker.
    let is_single = |at: usize| is_there(at) && !is_there(at + 1) && (at == 0 || !is_there(at - 1));
    let has_single = (0..y.len()).any(is_single);
    let size: Value = if x.len() >= 3 && has_single {
        (0..y.len()).map(|at| if is_single(at) { 5 } else { 0 }).collect::<Vec<_>>().into()
    } else {
        5.into()
    };
    let mode = if x.len() < 3 || has_single { "lines+markers" } else { "lines" };
    json!({
        "type": "scatter", "mode": mode, "name": plotly_text(name), "x": x, "y": y,
        "line": { "color": colour, "width": 1.75, "dash": dash }, "marker": { "size": size },
    })
}

/// Marks a line as one of several lines of a run. The legend names each run once, and the hover text names the line: a
/// legend with all lines would cover the picture.
pub(super) fn of_run(trace: &mut Value, run: &str, what: &str) {
    let template = trace["hovertemplate"].as_str().unwrap_or("%{y}").to_owned();
    trace["hovertemplate"] = format!("{template}<extra>{} {}</extra>", plotly_text(run), plotly_text(what)).into();
    trace["legendgroup"] = plotly_text(run).into();
    trace["name"] = plotly_text(run).into();
}

/// Shows each run only once in the legend of a picture.
fn name_once(traces: &mut [Value]) {
    let mut run_names = BTreeSet::new();
    for trace in traces.iter_mut().filter(|trace| trace["legendgroup"].is_string()) {
        let is_first = run_names.insert(trace["legendgroup"].as_str().unwrap_or_default().to_owned());
        trace["showlegend"] = is_first.into();
    }
}

/// Gives the pictures of several runs the same axes for comparison: the time of the longest run, and in heat maps and
/// box plots the same latency range and colours.
pub(super) fn align(figures: &mut [Figure]) {
    let is_of_latency = |figure: &Figure| figure.id.starts_with("heat-") || figure.id.starts_with("boxes-");
    let values =
        |value: &Value| -> Vec<f64> { value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect() };
    let ends = figures.iter().filter_map(|figure| figure.layout["xaxis"]["range"][1].as_f64());
    let end = ends.fold(0.0, f64::max);
    let cells = figures.iter().flat_map(|figure| &figure.traces);
    let cells = cells.filter_map(|trace| Some((trace["zmax"].as_f64()?, trace["colorbar"].clone())));
    let densest = cells.max_by(|one, other| one.0.total_cmp(&other.0));
    let latencies: Vec<f64> = figures
        .iter()
        .filter(|figure| is_of_latency(figure))
        .flat_map(|figure| &figure.traces)
        .flat_map(|trace| ["y", "lowerfence", "upperfence"].map(|key| values(&trace[key])))
        .flatten()
        .collect();
    let low = latencies.iter().copied().fold(f64::INFINITY, f64::min).max(1e-9).log10();
    let high = latencies.iter().copied().fold(0.0, f64::max).max(1e-9).log10();
    for figure in figures {
        name_once(&mut figure.traces);
        if figure.is_timed {
            figure.layout["xaxis"]["range"] = json!([0.0, end]);
        }
        if is_of_latency(figure) {
            figure.layout["yaxis"]["range"] = json!([low - 0.1, high + 0.1]);
        }
        for trace in figure.traces.iter_mut().filter(|trace| trace["type"] == "heatmap") {
            if let Some((most, colours)) = &densest {
                trace["zmax"] = (*most).into();
                trace["colorbar"] = colours.clone();
            }
        }
    }
}

pub(super) fn dash(index: usize) -> &'static str {
    DASHES[index % DASHES.len()]
}

/// A logarithmic time axis, with values in seconds.
pub(super) fn log_seconds(title: &str) -> Value {
    let ticks = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3];
    let texts = [
        "1 ns", "10 ns", "100 ns", "1 us", "10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s",
        "1000 s",
    ];
    json!({
        "title": { "text": title }, "type": "log", "tickvals": ticks, "ticktext": texts, "hoverformat": ".3s",
        "minor": { "dtick": "D1", "showgrid": true },
    })
}

/// A logarithmic axis of rates. Ticks are at each decade, and also at 2 and 5 if there are few decades.
pub(super) fn log_rates(title: &str, (low, high): (f64, f64)) -> Value {
    let steps: &[f64] = if high / low < 100.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks: Vec<f64> = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade))).collect();
    let texts: Vec<String> = ticks.iter().map(|tick| format!("{}", (tick * 1e9).round() / 1e9)).collect();
    json!({
        "title": { "text": title }, "type": "log", "tickvals": ticks, "ticktext": texts,
        "minor": { "dtick": "D1", "showgrid": true },
    })
}

/// An axis of counts or rates.
pub(super) fn linear(title: &str) -> Value {
    json!({ "title": { "text": title }, "rangemode": "tozero", "tickformat": ",~r" })
}

/// Converts nanoseconds to seconds. Never zero, for a logarithmic axis.
pub(super) fn seconds(ns: u64) -> f64 {
    ns.max(1) as f64 / 1e9
}

/// `1.23 ms`.
pub(super) fn duration_text(ns: u64) -> String {
    duration(Duration::from_nanos(ns))
}

/// Escapes text that plotly.js would take for HTML. It knows few entities, so quotation marks stay.
fn plotly_text(text: &str) -> String {
    escape(text).replace("&quot;", "\"")
}

/// Escapes text for HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_labels_are_drawn_unchanged() {
        let name = |text: &str| line(text, vec![0.0], vec![None], GREY, "solid")["name"].clone();
        assert_eq!(name("q_total{rcode=\"0\"}"), "q_total{rcode=\"0\"}");
        assert_eq!(name("<b>\"&\"</b>"), "&lt;b&gt;\"&amp;\"&lt;/b&gt;");
    }

    #[test]
    fn several_runs_have_the_same_axes_and_a_legend_of_one_line_each() {
        let figure = |id: &str, end: f64, high: f64, most: f64| {
            let mut figure = Figure::new(id, "", &[]);
            figure.is_timed = true;
            figure.layout["xaxis"] = json!({ "range": [0.0, end] });
            figure.traces.push(json!({ "type": "heatmap", "y": [0.001, high], "zmax": most, "colorbar": most }));
            figure
        };
        let mut lines = Figure::new("latency", "", &[]);
        for (run, what) in [("one", "p50"), ("one", "p99"), ("two", "p50"), ("two", "p99")] {
            let mut trace = line(&format!("{run} {what}"), vec![0.0], vec![Some(1.0)], GREY, "solid");
            of_run(&mut trace, run, what);
            lines.traces.push(trace);
        }
        let mut figures = vec![figure("heat-0", 10.0, 0.1, 2.0), figure("heat-1", 30.0, 10.0, 3.0), lines];
        align(&mut figures);
        for heat in &figures[..2] {
            assert_eq!(heat.layout["xaxis"]["range"], json!([0.0, 30.0]));
            assert_eq!(heat.layout["yaxis"]["range"], json!([-3.1, 1.1]));
            assert_eq!((&heat.traces[0]["zmax"], &heat.traces[0]["colorbar"]), (&json!(3.0), &json!(3.0)));
        }
        let in_legend = figures[2].traces.iter().filter(|trace| trace["showlegend"] == true);
        assert_eq!(in_legend.map(|trace| trace["name"].as_str().unwrap()).collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!(figures[2].traces[1]["hovertemplate"], "%{y}<extra>one p99</extra>");
    }

    #[test]
    fn isolated_points_have_markers() {
        let mode_and_sizes = |y: Vec<Option<f64>>| {
            let x = (0..y.len()).map(|at| at as f64).collect();
            let trace = line("", x, y, GREY, "solid");
            (trace["mode"].clone(), trace["marker"]["size"].clone())
        };
        // If connections open before the first query, only the first second has handshakes.
        assert_eq!(mode_and_sizes(vec![Some(1.0), None, None, None]), (json!("lines+markers"), json!([5, 0, 0, 0])));
        assert_eq!(
            mode_and_sizes(vec![Some(1.0), Some(1.0), None, Some(1.0)]),
            (json!("lines+markers"), json!([0, 0, 0, 5]))
        );
        assert_eq!(mode_and_sizes(vec![Some(1.0); 4]), (json!("lines"), json!(5)));
    }

    #[test]
    fn few_decades_have_more_ticks() {
        assert_eq!(
            log_rates("", (0.04, 2.5))["ticktext"],
            json!(["0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20", "50"])
        );
        assert_eq!(
            log_rates("", (0.01, 9_000.0))["ticktext"],
            json!(["0.01", "0.1", "1", "10", "100", "1000", "10000"])
        );
    }

    #[test]
    fn adjacent_marks_share_a_number() {
        let mark = |at, number| Mark { at, number, text: format!("{number} at {at}") };
        let marks = vec![mark(11.1, 1), mark(7.0, 1), mark(11.0, 2), mark(11.2, 3), mark(30.0, 4)];
        let groups = group_marks(marks, 0.25);
        let texts: Vec<_> = groups.iter().map(|marks| annotation(marks)["text"].clone()).collect();
        assert_eq!(texts, ["1", "1, 2, 3", "4"]);
        assert_eq!(annotation(&groups[1])["hovertext"], "2 at 11<br>1 at 11.1<br>3 at 11.2");
        let many: Vec<_> = (1..=9).map(|number| mark(1.0, number)).collect();
        assert_eq!(annotation(&many)["text"], "1 … 9");
    }
}
