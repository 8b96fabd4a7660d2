//! Charts of the server during the run: CPU, memory, drops and metrics.

use super::figure::{Figure, colour, dash, line, linear, of_run};
use super::metrics;
use super::series::{Series, by_source, series_name};
use crate::{Run, Sample};
use serde_json::Value;
use std::collections::BTreeSet;

/// Metrics shown initially. Others can be enabled in the legend.
const METRICS_SHOWN: usize = 4;

/// One chart per kind of value. None for runs without monitoring.
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
        "Cores in use. Throttled: share of the time in which the cgroup was not allowed to run.",
        "cores",
        &cpu,
    );
    add("memory", "Server: memory", "Resident bytes.", "bytes", &|run| levels(run, "", |sample| sample.rss_bytes));
    add(
        "kernel-memory",
        "Server: memory of the kernel",
        "Kernel: what the kernel keeps for the server's memory control group, such as sockets. TCP, UDP: buffers of \
         all sockets of the machine, also of this tool.",
        "bytes",
        &kernel_memory,
    );
    add(
        "drops",
        "Server: drops",
        "Datagrams that its sockets dropped because they were not read in time: queries that it never saw.",
        "datagrams a second",
        &|run| rates(run, "dropped", |sample| sample.udp_drops.map(|count| count as f64)),
    );
    add("tcp", "Server: TCP sockets", "Number of sockets by state.", "sockets", &|run| {
        let states: BTreeSet<_> = run.recording.samples.iter().flat_map(|sample| sample.tcp_states.keys()).collect();
        states.into_iter().flat_map(|state| tcp_sockets(run, state)).collect()
    });
    add("threads", "Server: threads", "Threads of the process.", "threads", &|run| {
        levels(run, "", |sample| sample.threads.map(|count| count as f64))
    });
    add(
        "switches",
        "Server: context switches",
        "Voluntary: a thread waits. Involuntary: the kernel runs another thread.",
        "switches a second",
        &|run| {
            let mut series = rates(run, "voluntary", |sample| sample.voluntary_switches.map(|count| count as f64));
            series.extend(rates(run, "involuntary", |sample| sample.involuntary_switches.map(|count| count as f64)));
            series
        },
    );
    let (counters, gauges) = metrics::select_metrics(runs);
    let which = |selected: &metrics::SelectedMetrics| match selected.count > selected.names.len() {
        true => format!("The {} of {} that changed most often", selected.names.len(), selected.count),
        false => format!("All {}", selected.count),
    };
    let choice = "Click the legend to choose. All values are in monitor.jsonl.";
    add(
        "counters",
        "Server: counters",
        &format!("Rates of its counters (_total, _sum, _count). {}. {choice}", which(&counters)),
        "a second",
        &|run| metrics::counters(run, &counters.names),
    );
    add("metrics", "Server: metrics", &format!("Values of its gauges. {}. {choice}", which(&gauges)), "", &|run| {
        metrics::gauges(run, &gauges.names)
    });
    figures
}

fn cpu(run: &Run) -> Vec<Series> {
    let mut series = levels(run, "cores", |sample| sample.cpu_cores);
    let throttled = rates(run, "throttled", |sample| sample.throttled_seconds).into_iter();
    series.extend(throttled.filter(|series| !series.is_zero()));
    series
}

fn kernel_memory(run: &Run) -> Vec<Series> {
    let mut series = levels(run, "kernel", |sample| sample.kernel_memory_bytes);
    series.extend(levels(run, "TCP", |sample| sample.tcp_memory_bytes));
    series.extend(levels(run, "UDP", |sample| sample.udp_memory_bytes));
    series
}

/// Straight lines between samples.
const STRAIGHT: &str = "linear";

impl Series {
    fn is_zero(&self) -> bool {
        self.y.iter().all(|y| *y == Some(0.0))
    }
}

/// Values as sampled, with a gap where the source could not be read.
fn levels(run: &Run, what: &str, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Series> {
    let series = by_source(run).into_iter().map(|(source, samples)| {
        let found = samples.iter().filter_map(|sample| match &sample.error {
            Some(_) => Some((sample.at, None)),
            None => Some((sample.at, Some(value(sample)?))),
        });
        let (x, y) = found.unzip();
        Series { name: series_name(source, what), x, y, shape: STRAIGHT }
    });
    series.filter(|series| series.y.iter().any(Option::is_some)).collect()
}

/// Number of sockets in one state. A state missing in a sample is zero.
fn tcp_sockets(run: &Run, state: &str) -> Vec<Series> {
    let sources = by_source(run);
    let sources = sources.into_iter().filter(|(_, samples)| samples.iter().any(|one| !one.tcp_states.is_empty()));
    let sources: BTreeSet<_> = sources.map(|(source, _)| source).collect();
    levels(run, state, |sample| {
        let count = sample.tcp_states.get(state).copied().unwrap_or_default();
        sources.contains(sample.source.as_str()).then_some(count as f64)
    })
}

/// Converts increments since the previous sample to rates per second. The first sample of a source has none.
fn rates(run: &Run, what: &str, value: impl Fn(&Sample) -> Option<f64>) -> Vec<Series> {
    let series = by_source(run).into_iter().map(|(source, samples)| {
        let pairs = samples.windows(2).filter_map(|pair| {
            let span = pair[1].at - pair[0].at;
            Some((pair[1].at, Some(value(pair[1])? / span))).filter(|_| span > 0.0)
        });
        let (x, y) = pairs.unzip();
        Series { name: series_name(source, what), x, y, shape: STRAIGHT }
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
    if matches!(id, "memory" | "kernel-memory" | "counters" | "metrics") {
        axis["tickformat"] = "~s".into();
    }
    let is_clean = id == "drops" && each.iter().flatten().all(Series::is_zero);
    let mut figure = figure.timed(&all, axis);
    if is_clean {
        figure.traces.clear();
        figure.show_empty("none");
    }
    figure
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn unnamed_states_have_no_sockets_and_errors_leave_a_gap() {
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
