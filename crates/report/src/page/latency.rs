//! Charts of latency.

use super::figure::{Figure, GREY, colour, dash, duration_text, escape, line, linear, log_seconds, of_run, seconds};
use super::intervals::Interval;
use crate::{Distribution, Run};
use serde_json::{Value, json};

/// Steps per decade of the percentile plot.
const PERCENTILE_STEPS: f64 = 24.0;
/// Rows per decade of the heat map.
const HEAT_STEPS: f64 = 12.0;

/// Latency at 1 in 1, 1 in 10, 1 in 100 queries: a logarithmic percentile plot.
pub(super) fn percentiles(runs: &[Run]) -> Figure {
    let mut figure = Figure::new("percentiles", "Latency by percentile", &runs.iter().collect::<Vec<_>>()).caption(
        "Latency at each percentile, from the planned time of a query. From 90 % on, each step to the right leaves a \
         tenth of the slow queries. Queries without an answer count with the timeout. With one run, the thin line is \
         the service time, from the actual sending.",
    );
    let mut n_max = 10;
    for (index, run) in runs.iter().enumerate() {
        let timings = [("", &run.total.latency, 2.0), (" service", &run.total.service, 1.0)];
        // With several runs, lines for the service time would fill the legend.
        let count = if runs.len() > 1 { 1 } else { 2 };
        let timings = timings.into_iter().take(count).filter(|(_, distribution, _)| !distribution.is_empty());
        for (suffix, distribution, width) in timings {
            n_max = n_max.max(distribution.n());
            let (x, y): (Vec<_>, Vec<_>) = percentile_points(distribution).unzip();
            let share: Vec<_> = x.iter().map(|x| format!("{:.4} %", 100.0 * (1.0 - 1.0 / x))).collect();
            let mut trace = line(
                &format!("{}{suffix}", run.label),
                x,
                y.iter().copied().map(Some).collect(),
                colour(index),
                dash(index),
            );
            trace["line"]["width"] = width.into();
            trace["customdata"] = share.into();
            trace["hovertemplate"] = "%{y:.3s}s at %{customdata}".into();
            figure.traces.push(trace);
        }
    }
    let decades = (n_max as f64).log10().ceil() as i32;
    let mut ticks = vec![
        (1.0, "min".to_owned()),
        (2.0, "50 %".to_owned()),
        (4.0, "75 %".to_owned()),
        (10.0, "90 %".to_owned()),
        (100.0, "99 %".to_owned()),
    ];
    ticks.extend((3..=decades).map(|decade| (10f64.powi(decade), format!("99.{} %", "9".repeat(decade as usize - 2)))));
    let (values, texts): (Vec<_>, Vec<_>) = ticks.into_iter().unzip();
    let x = json!({
        "title": { "text": "share that was as fast or faster" }, "type": "log", "tickvals": values,
        "ticktext": texts, "range": [0.0, (n_max as f64).log10()], "tickprefix": "1 in ", "hoverformat": ",.4~r",
    });
    let mut figure = figure.axes(x, log_seconds("latency"));
    if figure.traces.is_empty() {
        figure.note("no run measured latency");
    }
    figure
}

fn percentile_points(distribution: &Distribution) -> impl Iterator<Item = (f64, f64)> {
    let n = distribution.n() as f64;
    let steps = (n.log10() * PERCENTILE_STEPS).ceil() as u32;
    (0..=steps).map(move |step| {
        let x = 10f64.powf(f64::from(step) / PERCENTILE_STEPS).min(n);
        (x, seconds(distribution.quantile(1.0 - 1.0 / x)))
    })
}

/// Cumulative shares of queries by latency.
pub(super) fn cumulative(runs: &[Run]) -> Figure {
    let mut figure = Figure::new("cdf", "Cumulative distribution of latency", &runs.iter().collect::<Vec<_>>())
        .caption("Share of the queries that were answered within a time. A step is a time that many queries took.");
    for (index, run) in runs.iter().enumerate().filter(|(_, run)| !run.total.latency.is_empty()) {
        let (x, y) = shares(&run.total.latency);
        let mut trace = line(&run.label, x, y.into_iter().map(Some).collect(), colour(index), dash(index));
        trace["line"]["shape"] = "hv".into();
        trace["hovertemplate"] = "%{y:.4%} within %{x:.3s}s".into();
        figure.traces.push(trace);
    }
    let y = json!({ "title": { "text": "share of queries" }, "tickformat": ".0%", "range": [0.0, 1.005] });
    let mut figure = figure.axes(log_seconds("latency"), y);
    figure.layout["hovermode"] = "closest".into();
    if figure.traces.is_empty() {
        figure.note("no run measured latency");
    }
    figure
}

/// Thins out a curve to a visible resolution.
fn shares(distribution: &Distribution) -> (Vec<f64>, Vec<f64>) {
    const POINTS_MAX: usize = 1_500;
    let step = distribution.entries().len().div_ceil(POINTS_MAX).max(1);
    let mut seen = 0;
    let mut points = vec![(seconds(distribution.min()), 0.0)];
    for (index, &(value, count)) in distribution.entries().iter().enumerate() {
        seen += count;
        if index % step == 0 || seen == distribution.n() {
            points.push((seconds(value), seen as f64 / distribution.n() as f64));
        }
    }
    points.into_iter().unzip()
}

/// Number of queries by latency in each second.
pub(super) fn heat(index: usize, run: &Run, intervals: &[Interval], is_alone: bool) -> Option<Figure> {
    let timed: Vec<_> = intervals.iter().filter(|interval| !interval.row.latency.is_empty()).collect();
    let low = timed.iter().map(|interval| interval.row.latency.min()).min()?;
    let high = timed.iter().map(|interval| interval.row.latency.max()).max()?;
    let bin = |ns: u64| ((ns.max(1) as f64).log10() * HEAT_STEPS).floor() as i64;
    let edge = |bin: i64| 10f64.powf(bin as f64 / HEAT_STEPS);
    let (first, last) = (bin(low), bin(high));
    let mut counts = vec![vec![0u64; timed.len()]; (last - first + 1) as usize];
    for (column, interval) in timed.iter().enumerate() {
        for &(value, count) in interval.row.latency.entries() {
            counts[(bin(value) - first) as usize][column] += count;
        }
    }
    let z: Vec<Vec<Option<f64>>> = counts
        .iter()
        .map(|row| row.iter().map(|&count| (count > 0).then(|| (count as f64).log10())).collect())
        .collect();
    let texts: Vec<Vec<String>> = (first..)
        .zip(&counts)
        .map(|(bin, row)| {
            let range = format!("{} to {}", duration_text(edge(bin) as u64), duration_text(edge(bin + 1) as u64));
            row.iter().map(|count| format!("{count} queries of {range}")).collect()
        })
        .collect();
    let most = counts.iter().flatten().copied().max().unwrap_or(1).max(10) as f64;
    let decades: Vec<i32> = (0..=most.log10().floor() as i32).collect();
    let mut figure = Figure::new(&format!("heat-{index}"), &titled("Latency over time", run, is_alone), &[run])
        .caption(format!(
            "Each column is {}. The darker the colour, the more of its queries took that long (logarithmic).",
            span(intervals)
        ));
    figure.traces.push(json!({
        "type": "heatmap", "z": z, "text": texts,
        "x": timed.iter().map(|interval| interval.middle()).collect::<Vec<_>>(),
        "y": (first..=last).map(|bin| edge(bin) * edge(1).sqrt() / 1e9).collect::<Vec<_>>(),
        "colorscale": [[0, "#C6DBEF"], [0.35, "#6BAED6"], [0.7, "#2171B5"], [1, "#08306B"]],
        "zmin": 0, "zmax": most.log10(), "hoverongaps": false, "hovertemplate": "%{x:.1f} s: %{text}<extra></extra>",
        "colorbar": {
            "title": { "text": "queries", "side": "right" }, "thickness": 10, "outlinewidth": 0,
            "tickvals": decades, "ticktext": counts_at(&decades),
        },
    }));
    figure = figure.timed(&[(index, run)], log_seconds("latency"));
    figure.layout["hovermode"] = "closest".into();
    Some(figure)
}

/// The counts at these powers of ten.
fn counts_at(decades: &[i32]) -> Vec<String> {
    decades.iter().map(|&decade| 10u64.pow(decade as u32).to_string()).collect()
}

/// Minimum, quartiles and maximum of each second.
pub(super) fn boxes(index: usize, run: &Run, intervals: &[Interval], is_alone: bool) -> Option<Figure> {
    let timed: Vec<_> = intervals.iter().filter(|interval| !interval.row.latency.is_empty()).collect();
    if timed.is_empty() {
        return None;
    }
    let at = |quantile: f64| {
        timed.iter().map(|interval| seconds(interval.row.latency.quantile(quantile))).collect::<Vec<_>>()
    };
    let middles: Vec<f64> = timed.iter().map(|interval| interval.middle()).collect();
    let name = titled("Latency of each second", run, is_alone);
    let mut figure = Figure::new(&format!("boxes-{index}"), &name, &[run]).caption(format!(
        "Each box is {}. The whiskers are at the fastest and the slowest query, the box reaches from 25 % to 75 %, \
         and the line is the median.",
        span(intervals)
    ));
    figure.traces.push(json!({
        "type": "box", "name": escape(&run.label), "x": middles,
        "lowerfence": timed.iter().map(|interval| seconds(interval.row.latency.min())).collect::<Vec<_>>(),
        "q1": at(0.25), "median": at(0.5), "q3": at(0.75), "upperfence": at(1.0),
        "line": { "color": colour(index), "width": 1.25 }, "whiskerwidth": 0.6, "showlegend": false,
        "hoverinfo": "skip",
    }));
    // The default hover text has five labels. One line with all five is easier to read.
    let texts: Vec<_> = timed
        .iter()
        .map(|interval| {
            let latency = &interval.row.latency;
            let [min, q1, p50, q3, max] =
                [0.0, 0.25, 0.5, 0.75, 1.0].map(|quantile| duration_text(latency.quantile(quantile)));
            format!("min {min}, 25 % {q1}, median {p50}, 75 % {q3}, max {max} of {}", latency.n())
        })
        .collect();
    figure.traces.push(json!({
        "type": "scatter", "mode": "markers", "marker": { "size": 3, "color": colour(index), "opacity": 0.0 },
        "x": middles, "y": at(0.5), "text": texts,
        "hovertemplate": "%{text}<extra></extra>", "showlegend": false,
    }));
    Some(figure.timed(&[(index, run)], log_seconds("latency")))
}

/// Median, p99 and maximum of each second, for all runs.
pub(super) fn over_time(runs: &[Run], intervals: &[Vec<Interval>]) -> Figure {
    quantiles_over_time("latency", "Percentiles of latency over time", "latency", runs, intervals, |interval| {
        &interval.row.latency
    })
    .caption("Median (solid), 99th percentile (dashed) and slowest query (dotted) of each second.")
}

/// Send lag over time.
pub(super) fn send_lag(runs: &[Run], intervals: &[Vec<Interval>]) -> Figure {
    quantiles_over_time("lag", "Send lag", "send lag", runs, intervals, |interval| &interval.row.send_lag).caption(
        "How much later than planned catlab sent. This error of the tool is part of the latency. If it is large, the \
         run is INVALID.",
    )
}

fn quantiles_over_time(
    id: &str,
    name: &str,
    axis: &str,
    runs: &[Run],
    intervals: &[Vec<Interval>],
    distribution: fn(&Interval) -> &Distribution,
) -> Figure {
    let mut figure = Figure::new(id, name, &runs.iter().collect::<Vec<_>>());
    let quantiles = [("p50", 0.5, "solid"), ("p99", 0.99, "dash"), ("max", 1.0, "dot")];
    for (index, (run, intervals)) in runs.iter().zip(intervals).enumerate() {
        for (at, (quantile_name, quantile, dash)) in quantiles.into_iter().enumerate() {
            let y: Vec<_> = intervals
                .iter()
                .map(|interval| Some(distribution(interval)).filter(|found| !found.is_empty()))
                .map(|found| found.map(|found| seconds(found.quantile(quantile))))
                .collect();
            if y.iter().all(Option::is_none) {
                continue;
            }
            let x = intervals.iter().map(Interval::middle).collect();
            // With one run, lines differ by colour. With several runs, runs differ by colour and their lines by dash.
            let (name, colour) = if runs.len() > 1 {
                (format!("{} {quantile_name}", run.label), colour(index))
            } else {
                (quantile_name.to_owned(), colour(at))
            };
            let mut trace = line(&name, x, y, colour, dash);
            trace["hovertemplate"] = "%{y:.3s}s".into();
            if runs.len() > 1 {
                of_run(&mut trace, &run.label, quantile_name);
            }
            figure.traces.push(trace);
        }
    }
    let all: Vec<_> = runs.iter().enumerate().collect();
    let mut figure = figure.timed(&all, log_seconds(axis));
    if figure.traces.is_empty() {
        figure.note("no run measured it");
    }
    figure
}

/// The title of a chart, with the name of the run if there are several.
pub(super) fn titled(name: &str, run: &Run, is_alone: bool) -> String {
    if is_alone { name.to_owned() } else { format!("{name}: {}", run.label) }
}

/// `a second`, or more.
fn span(intervals: &[Interval]) -> String {
    let longest = intervals.iter().map(|interval| interval.row.span_seconds).fold(0.0, f64::max);
    if longest <= 1.0 { "a second".into() } else { format!("{longest:.1} s") }
}

/// Rates of sent queries and of correct answers, for all runs.
pub(super) fn rates(runs: &[Run], intervals: &[Vec<Interval>]) -> Figure {
    let mut figure = Figure::new("rate", "Rate", &runs.iter().collect::<Vec<_>>()).caption(
        "Queries sent (dotted) and right answers (solid), by the second of the query. Thin line: answers by the second \
         in which they came, without late ones. Where the two lines differ, answers took long.",
    );
    for (index, (run, intervals)) in runs.iter().zip(intervals).enumerate() {
        let x: Vec<f64> = intervals.iter().map(Interval::middle).collect();
        let rate = |count: fn(&Interval) -> u64| -> Vec<Option<f64>> {
            intervals
                .iter()
                .map(|interval| Some(count(interval) as f64 / interval.row.span_seconds.max(1e-9)))
                .collect()
        };
        let is_alone = runs.len() == 1;
        let traces = [
            ("sent", rate(|interval| interval.row.sent), 1.0, "dot", if is_alone { GREY } else { colour(index) }),
            ("right answers", rate(|interval| interval.row.right()), 1.75, "solid", colour(index)),
            (
                "answers came",
                rate(|interval| interval.row.arrived),
                1.0,
                "dash",
                colour(if is_alone { 1 } else { index }),
            ),
        ];
        for (what, y, width, dash, colour) in traces {
            if y.iter().flatten().all(|&rate| rate == 0.0) {
                continue;
            }
            let mut trace: Value = line(
                &if is_alone { what.to_owned() } else { format!("{} {what}", run.label) },
                x.clone(),
                y,
                colour,
                dash,
            );
            trace["line"]["width"] = width.into();
            trace["hovertemplate"] = "%{y:,.1f}/s".into();
            if !is_alone {
                of_run(&mut trace, &run.label, what);
            }
            figure.traces.push(trace);
        }
    }
    let all: Vec<_> = runs.iter().enumerate().collect();
    figure.timed(&all, linear("queries a second"))
}

#[cfg(test)]
mod tests {
    use super::super::intervals;
    use super::*;
    use crate::{Recording, Row};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn answers_are_also_drawn_by_arrival_time() {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(2));
        // A server that does not answer in the first second, and catches up in the next.
        for (second, arrived) in [(0.0, 20), (1.0, 180)] {
            let row = Row { start_seconds: second, span_seconds: 1.0, sent: 100, answered: 100, ..Row::default() };
            recording.rows.push(Row { arrived, ..row });
        }
        let (label, origin, total) = ("one".into(), "catlab load".into(), recording.total());
        let run = Run { label, origin, summary: None, manifest: None, total, recording, notes: Vec::new() };
        let intervals = vec![intervals::of(&run)];
        let figure = rates(&[run], &intervals);
        let curve = |name: &str| {
            let trace = figure.traces.iter().find(|trace| trace["name"] == name).unwrap();
            serde_json::from_value::<Vec<f64>>(trace["y"].clone()).unwrap()
        };
        assert_eq!(curve("right answers"), [100.0, 100.0]);
        assert_eq!(curve("answers came"), [20.0, 180.0]);
    }
}
