//! Pictures of the server under the same clock: processor, memory, drops, and whatever its metrics say.

use super::figure::{Figure, colour, dash, line, linear};
use crate::report::{Run, Sample};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Server: metrics that are drawn; the others are in `monitor.jsonl`.
const METRICS_MAX: usize = 40;
/// Of these: shown at once; the others wait in the legend.
const METRICS_SHOWN: usize = 4;

/// One picture for each kind of thing that was watched; nothing for runs that watched nothing.
pub(super) fn all(runs: &[Run]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut add = |id: &str, name: &str, caption: &str, axis: &str, values: &dyn Fn(&Run) -> Vec<Series>| {
        let each: Vec<_> = runs.iter().map(values).collect();
        if each.iter().any(|series| !series.is_empty()) {
            figures.push(draw(runs, id, name, axis, &each).caption(caption));
        }
    };
    add(
        "cpu",
        "Server: processor",
        "Cores in use. Throttled, if ever: share of the time in which the cgroup was denied any.",
        "cores",
        &|run| {
            let mut series = levels(run, "cores", |sample| sample.cpu_cores);
            let throttled = rates(run, "throttled", |sample| sample.throttled_seconds).into_iter();
            series.extend(throttled.filter(|series| !series.is_zero()));
            series
        },
    );
    add("memory", "Server: memory", "Resident octets.", "octets", &|run| levels(run, "", |sample| sample.rss_bytes));
    add(
        "drops",
        "Server: drops",
        "Datagrams that its sockets dropped because they were not read in time: queries that it never saw.",
        "datagrams a second",
        &|run| rates(run, "dropped", |sample| sample.udp_drops.map(|count| count as f64)),
    );
    add("tcp", "Server: TCP sockets", "By state, as the kernel counts them.", "sockets", &|run| {
        let states: BTreeSet<_> = run.recording.samples.iter().flat_map(|sample| sample.tcp_states.keys()).collect();
        let states = states.into_iter();
        states
            .flat_map(|state| levels(run, state, |sample| sample.tcp_states.get(state).map(|&count| count as f64)))
            .collect()
    });
    add("threads", "Server: threads", "Of the process.", "threads", &|run| {
        levels(run, "", |sample| sample.threads.map(|count| count as f64))
    });
    add(
        "switches",
        "Server: context switches",
        "Voluntary when a thread waits, involuntary when it is made to.",
        "switches a second",
        &|run| {
            let mut series = rates(run, "voluntary", |sample| sample.voluntary_switches.map(|count| count as f64));
            series.extend(rates(run, "involuntary", |sample| sample.involuntary_switches.map(|count| count as f64)));
            series
        },
    );
    add(
        "metrics",
        "Server: metrics",
        "As scraped: counters grow. Choose in the legend; all are in monitor.jsonl.",
        "",
        &|run| {
            let names: BTreeSet<_> = run.recording.samples.iter().flat_map(|sample| sample.metrics.keys()).collect();
            let names = names.into_iter().take(METRICS_MAX);
            names.flat_map(|name| levels(run, name, |sample| sample.metrics.get(name).copied())).collect()
        },
    );
    figures
}

/// What one source said, over time.
struct Series {
    name: String,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
}

impl Series {
    fn is_zero(&self) -> bool {
        self.y.iter().all(|y| *y == Some(0.0))
    }
}

fn by_source(run: &Run) -> BTreeMap<&str, Vec<&Sample>> {
    let mut sources: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in &run.recording.samples {
        sources.entry(&sample.source).or_default().push(sample);
    }
    sources
}

fn named(source: &str, what: &str) -> String {
    if what.is_empty() { source.to_owned() } else { format!("{source} {what}") }
}

/// Values as they are.
fn levels(run: &Run, what: &str, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Series> {
    let series = by_source(run).into_iter().map(|(source, samples)| {
        let found = samples.iter().filter_map(|sample| Some((sample.at, Some(value(sample)?))));
        let (x, y) = found.unzip();
        Series { name: named(source, what), x, y }
    });
    series.filter(|series| !series.x.is_empty()).collect()
}

/// What is told of the time since the sample before, by the second. A source's first sample has none before it.
fn rates(run: &Run, what: &str, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Series> {
    let series = by_source(run).into_iter().map(|(source, samples)| {
        let pairs = samples.windows(2).filter_map(|pair| {
            let span = pair[1].at - pair[0].at;
            Some((pair[1].at, Some(value(pair[1])? / span))).filter(|_| span > 0.0)
        });
        let (x, y) = pairs.unzip();
        Series { name: named(source, what), x, y }
    });
    series.filter(|series| !series.x.is_empty()).collect()
}

fn draw(runs: &[Run], id: &str, name: &str, axis: &str, each: &[Vec<Series>]) -> Figure {
    let mut figure = Figure::new(id, name, &runs.iter().collect::<Vec<_>>());
    for (index, (run, series)) in runs.iter().zip(each).enumerate() {
        for (at, series) in series.iter().enumerate() {
            let is_alone = runs.len() == 1;
            let name = if is_alone { series.name.clone() } else { format!("{} {}", run.label, series.name) };
            let (colour, dash) = if is_alone { (colour(at), dash(at / 6)) } else { (colour(index), dash(at)) };
            let mut trace = line(&name, series.x.clone(), series.y.clone(), colour, dash);
            trace["hovertemplate"] = "%{y:,.3~s}".into();
            if id == "metrics" {
                // A metric that stands still is not told again.
                trace["line"]["shape"] = "hv".into();
                if at >= METRICS_SHOWN {
                    trace["visible"] = "legendonly".into();
                }
            }
            figure.traces.push(trace);
        }
    }
    let all: Vec<_> = runs.iter().enumerate().collect();
    let mut axis: Value = linear(axis);
    if matches!(id, "memory" | "metrics") {
        axis["tickformat"] = "~s".into();
    }
    let is_clean = id == "drops" && each.iter().flatten().all(Series::is_zero);
    let mut figure = figure.timed(&all, axis);
    if is_clean {
        figure.traces.clear();
        figure.nothing("none");
    }
    figure
}
