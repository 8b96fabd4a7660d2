//! Metrics of the server over time: values of gauges, and rates of counters.
//!
//! A sample in `monitor.jsonl` only has metrics that differ from the previous sample. Others are unchanged.

use super::series::{Series, by_source, series_name};
use crate::{Run, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of metrics drawn per kind. The others are in `monitor.jsonl`.
pub(super) const METRICS_MAX: usize = 40;

/// The chosen metrics of one kind.
#[derive(Default)]
pub(super) struct SelectedMetrics {
    /// Those that changed most often, in this order.
    pub(super) names: Vec<String>,
    /// The number of all metrics of this kind.
    pub(super) count: usize,
}

/// Chooses counters and gauges of all runs.
pub(super) fn select_metrics(runs: &[Run]) -> (SelectedMetrics, SelectedMetrics) {
    // How often each metric changed.
    let mut changes: BTreeMap<&str, usize> = BTreeMap::new();
    for name in runs.iter().flat_map(|run| &run.recording.samples).flat_map(|sample| sample.metrics.keys()) {
        *changes.entry(name).or_default() += 1;
    }
    let bases: BTreeSet<&str> = changes.keys().map(|name| base(name)).collect();
    let mut names: Vec<_> = changes.iter().collect();
    // The sort is stable, so ties stay in order of names.
    names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let (mut counters, mut gauges) = (SelectedMetrics::default(), SelectedMetrics::default());
    for (name, _) in names {
        let selected = if is_counter(name, &bases) { &mut counters } else { &mut gauges };
        selected.count += 1;
        if selected.names.len() < METRICS_MAX {
            selected.names.push((*name).to_owned());
        }
    }
    (counters, gauges)
}

/// Name without labels.
fn base(name: &str) -> &str {
    name.split_once('{').map_or(name, |(base, _)| base)
}

/// Whether the name is that of a counter by Prometheus conventions: it ends with `_total`, or is a `_sum` or `_count`
/// of a histogram or summary.
fn is_counter(name: &str, bases: &BTreeSet<&str>) -> bool {
    let name = base(name);
    let has_twin = |suffix: &str, other: &str| {
        name.strip_suffix(suffix).is_some_and(|stem| bases.contains(format!("{stem}{other}").as_str()))
    };
    name.ends_with("_total") || has_twin("_sum", "_count") || has_twin("_count", "_sum")
}

/// Gauges: each value holds until the next sample.
pub(super) fn gauges(run: &Run, names: &[String]) -> Vec<Series> {
    series(run, names, "hv", levels)
}

/// Counters: increase per second since the previous sample.
pub(super) fn counters(run: &Run, names: &[String]) -> Vec<Series> {
    series(run, names, "vh", rates)
}

/// A time and its value. `None` if the source could not be read.
type Point = (f64, Option<f64>);

fn series(run: &Run, names: &[String], shape: &'static str, points: fn(&[&Sample], &str) -> Vec<Point>) -> Vec<Series> {
    let sources = by_source(run);
    let pairs = names.iter().flat_map(|name| sources.iter().map(move |(source, samples)| (name, source, samples)));
    let series = pairs.map(|(name, source, samples)| {
        let (x, y) = without_repeats(points(samples, name)).into_iter().unzip();
        Series { name: series_name(source, name), x, y, shape }
    });
    series.filter(|series| series.y.iter().any(Option::is_some)).collect()
}

/// The value at each sample, from the first one with a value.
fn levels(samples: &[&Sample], name: &str) -> Vec<Point> {
    let mut value = None;
    let mut points = Vec::new();
    for sample in samples {
        value = sample.metrics.get(name).copied().or(value);
        if value.is_some() {
            points.push((sample.at, value.filter(|_| sample.error.is_none())));
        }
    }
    points
}

fn rates(samples: &[&Sample], name: &str) -> Vec<Point> {
    // A metric that appears later than others of its source started at zero.
    let before = samples.iter().take_while(|sample| !sample.metrics.contains_key(name)).last();
    let mut last = before.filter(|sample| sample.error.is_none()).map(|sample| (sample.at, 0.0));
    let mut points = Vec::new();
    for (at, value) in levels(samples, name) {
        let Some(value) = value else {
            points.push((at, None));
            continue;
        };
        if let Some((last_at, before)) = last
            && at > last_at
        {
            // A restarted server counts from zero.
            let growth = if value >= before { value - before } else { value };
            let rate = Some(growth / (at - last_at));
            if points.last().is_none_or(|(_, rate): &Point| rate.is_none()) {
                points.push((last_at, rate));
            }
            points.push((at, rate));
        }
        last = Some((at, value));
    }
    points
}

/// Removes points between equal values, which do not change the line.
fn without_repeats(points: Vec<Point>) -> Vec<Point> {
    let is_needed = |at: usize| {
        at == 0 || at + 1 == points.len() || points[at - 1].1 != points[at].1 || points[at + 1].1 != points[at].1
    };
    (0..points.len()).filter(|&at| is_needed(at)).map(|at| points[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;
    use std::time::{Duration, UNIX_EPOCH};

    /// A run with one sample per second and these metrics.
    fn run(seconds: u32, metrics_by_second: &[(u32, &[(&str, f64)])], errors: &[u32]) -> Run {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        let metrics_by_second: BTreeMap<u32, _> = metrics_by_second.iter().copied().collect();
        recording.samples = (0..=seconds)
            .map(|second| Sample {
                at: f64::from(second),
                source: "http://127.0.0.1/".into(),
                error: errors.contains(&second).then(|| "refused".into()),
                metrics: metrics_by_second
                    .get(&second)
                    .map(|metrics_by_second| {
                        metrics_by_second.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
                    })
                    .unwrap_or_default(),
                ..Sample::default()
            })
            .collect();
        let (label, origin, total) = ("one".into(), "catlab load".into(), recording.total());
        Run { label, origin, summary: None, manifest: None, total, recording, notes: Vec::new() }
    }

    /// The value of the only series at this time.
    fn value_at(series: &[Series], at: f64) -> Option<f64> {
        let [series] = series else { panic!("{} series", series.len()) };
        let after = series.x.iter().position(|&x| x > at)?;
        match series.shape {
            "hv" => series.y[after.checked_sub(1)?],
            _ => series.y[after],
        }
    }

    #[test]
    fn a_gauge_is_drawn_in_steps() {
        let run = run(60, &[(0, &[("depth", 3.0)]), (50, &[("depth", 90.0)])], &[]);
        let series = gauges(&run, &["depth".into()]);
        for at in [0.5, 25.0, 49.5] {
            assert_eq!(value_at(&series, at), Some(3.0), "{at}");
        }
        assert_eq!(value_at(&series, 50.5), Some(90.0));
        assert_eq!((series[0].x.last(), series[0].y.last()), (Some(&60.0), Some(&Some(90.0))), "it goes on to the end");
        assert!(series[0].x.len() <= 4, "{:?}", series[0].x);
    }

    #[test]
    fn counters_become_rates_per_second() {
        let metrics_by_second: [(u32, &[(&str, f64)]); 3] =
            [(0, &[("q_total", 1_000.0)]), (50, &[("q_total", 1_200.0)]), (51, &[("q_total", 1_500.0)])];
        let series = counters(&run(60, &metrics_by_second, &[]), &["q_total".into()]);
        for (at, rate) in [(0.5, 0.0), (48.5, 0.0), (49.5, 200.0), (50.5, 300.0), (51.5, 0.0), (59.5, 0.0)] {
            assert_eq!(value_at(&series, at), Some(rate), "{at}");
        }
    }

    #[test]
    fn a_missing_source_leaves_a_gap_and_may_reset_its_counters() {
        let metrics_by_second: [(u32, &[(&str, f64)]); 3] =
            [(0, &[("q_total", 1_000.0)]), (1, &[("q_total", 1_100.0)]), (5, &[("q_total", 40.0)])];
        let run = run(6, &metrics_by_second, &[2, 3, 4]);
        let series = counters(&run, &["q_total".into()]);
        assert_eq!(value_at(&series, 0.5), Some(100.0));
        assert_eq!(value_at(&series, 2.5), None);
        // Forty in the four seconds since the last readable sample.
        assert_eq!(value_at(&series, 4.5), Some(10.0));
        assert_eq!(value_at(&gauges(&run, &["q_total".into()]), 2.5), None);
    }

    #[test]
    fn a_counter_that_appears_later_started_at_zero() {
        let run = run(4, &[(0, &[("up", 1.0)]), (2, &[("errors_total", 7.0)])], &[]);
        let series = counters(&run, &["errors_total".into()]);
        assert_eq!((value_at(&series, 1.5), value_at(&series, 2.5)), (Some(7.0), Some(0.0)));
    }

    #[test]
    fn changing_values_are_drawn_before_constant_ones() {
        let still: Vec<String> = (0..METRICS_MAX).map(|number| format!("a{number}")).collect();
        let mut first: Vec<(&str, f64)> = still.iter().map(|name| (name.as_str(), 1.0)).collect();
        first.extend([("z_depth", 1.0), ("z_total{rcode=\"0\"}", 0.0), ("z_us_sum", 2.0), ("z_us_count", 1.0)]);
        let run = run(2, &[(0, &first), (1, &[("z_depth", 2.0)])], &[]);
        let (counters, gauges) = select_metrics(&[run]);
        assert_eq!(
            (gauges.count, gauges.names.len(), gauges.names[0].as_str()),
            (METRICS_MAX + 1, METRICS_MAX, "z_depth")
        );
        assert_eq!(counters.names, ["z_total{rcode=\"0\"}", "z_us_count", "z_us_sum"]);
    }
}
