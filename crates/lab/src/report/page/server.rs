//! Pictures of the server under the same clock: processor, memory, drops, and whatever its metrics say.

use super::figure::{Figure, colour, dash, line, linear, of_run};
use super::metrics;
use crate::report::{Run, Sample};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Metrics that are shown at once; the others wait in the legend.
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
    add("memory", "Server: memory", "Resident bytes.", "bytes", &|run| levels(run, "", |sample| sample.rss_bytes));
    add(
        "drops",
        "Server: drops",
        "Datagrams that its sockets dropped because they were not read in time: queries that it never saw.",
        "datagrams a second",
        &|run| rates(run, "dropped", |sample| sample.udp_drops.map(|count| count as f64)),
    );
    add("tcp", "Server: TCP sockets", "By state, as the kernel counts them.", "sockets", &|run| {
        let states: BTreeSet<_> = run.recording.samples.iter().flat_map(|sample| sample.tcp_states.keys()).collect();
        states.into_iter().flat_map(|state| tcp_sockets(run, state)).collect()
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
    let (counters, gauges) = metrics::chosen(runs);
    let which = |chosen: &metrics::Chosen| match chosen.count > chosen.names.len() {
        true => format!("The {} of {} that changed most often", chosen.names.len(), chosen.count),
        false => format!("All {}", chosen.count),
    };
    let choice = "Choose in the legend; as scraped they are in monitor.jsonl.";
    add(
        "counters",
        "Server: counters",
        &format!("How fast its metrics that only grow (_total, _sum, _count) did. {}. {choice}", which(&counters)),
        "a second",
        &|run| metrics::counters(run, &counters.names),
    );
    add(
        "metrics",
        "Server: metrics",
        &format!("As they stood, from each change to the next. {}. {choice}", which(&gauges)),
        "",
        &|run| metrics::gauges(run, &gauges.names),
    );
    figures
}

/// What one source said, over time.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<Option<f64>>,
    /// How its points are joined, as plotly.js calls it.
    pub(super) shape: &'static str,
}

/// Straight from one reading to the next.
const STRAIGHT: &str = "linear";

impl Series {
    fn is_zero(&self) -> bool {
        self.y.iter().all(|y| *y == Some(0.0))
    }
}

pub(super) fn by_source(run: &Run) -> BTreeMap<&str, Vec<&Sample>> {
    let mut sources: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in &run.recording.samples {
        sources.entry(&sample.source).or_default().push(sample);
    }
    sources
}

pub(super) fn named(source: &str, what: &str) -> String {
    if what.is_empty() { source.to_owned() } else { format!("{source} {what}") }
}

/// Values as they are; a gap where the source could not be read.
fn levels(run: &Run, what: &str, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Series> {
    let series = by_source(run).into_iter().map(|(source, samples)| {
        let found = samples.iter().filter_map(|sample| match &sample.error {
            Some(_) => Some((sample.at, None)),
            None => Some((sample.at, Some(value(sample)?))),
        });
        let (x, y) = found.unzip();
        Series { name: named(source, what), x, y, shape: STRAIGHT }
    });
    series.filter(|series| series.y.iter().any(Option::is_some)).collect()
}

/// Sockets in one state: what a sample with others does not name is not there.
fn tcp_sockets(run: &Run, state: &str) -> Vec<Series> {
    let sources = by_source(run);
    let sources = sources.into_iter().filter(|(_, samples)| samples.iter().any(|one| !one.tcp_states.is_empty()));
    let sources: BTreeSet<_> = sources.map(|(source, _)| source).collect();
    levels(run, state, |sample| {
        let count = sample.tcp_states.get(state).copied().unwrap_or_default();
        sources.contains(sample.source.as_str()).then_some(count as f64)
    })
}

/// What is told of the time since the sample before, by the second. A source's first sample has none before it.
fn rates(run: &Run, what: &str, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Series> {
    let series = by_source(run).into_iter().map(|(source, samples)| {
        let pairs = samples.windows(2).filter_map(|pair| {
            let span = pair[1].at - pair[0].at;
            Some((pair[1].at, Some(value(pair[1])? / span))).filter(|_| span > 0.0)
        });
        let (x, y) = pairs.unzip();
        Series { name: named(source, what), x, y, shape: STRAIGHT }
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
            trace["line"]["shape"] = series.shape.into();
            if !is_alone {
                of_run(&mut trace, &run.label, &series.name);
            }
            if matches!(id, "counters" | "metrics") && at >= METRICS_SHOWN {
                trace["visible"] = "legendonly".into();
            }
            figure.traces.push(trace);
        }
    }
    let all: Vec<_> = runs.iter().enumerate().collect();
    let mut axis: Value = linear(axis);
    if matches!(id, "memory" | "counters" | "metrics") {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Recording;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_state_that_is_not_named_has_no_sockets_and_an_error_is_a_gap() {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        let states: [&[(&str, u64)]; 4] = [&[("LISTEN", 1), ("TIME_WAIT", 9)], &[("LISTEN", 1)], &[], &[("LISTEN", 1)]];
        recording.samples = (0..4u8)
            .map(|at| Sample {
                at: f64::from(at),
                source: "pid 1".into(),
                error: (at == 2).then(|| "gone".into()),
                tcp_states: states[usize::from(at)].iter().map(|&(state, count)| (state.into(), count)).collect(),
                ..Sample::default()
            })
            .collect();
        recording.samples.push(Sample { source: "cgroup /a".into(), ..Sample::default() });
        let (label, origin, total) = ("one".into(), "catlab load".into(), recording.total());
        let run = Run { label, origin, summary: None, manifest: None, total, recording, notes: Vec::new() };
        let series = tcp_sockets(&run, "TIME_WAIT");
        assert_eq!(series.len(), 1);
        assert_eq!(series[0].y, [Some(9.0), Some(0.0), None, Some(0.0)]);
    }
}
