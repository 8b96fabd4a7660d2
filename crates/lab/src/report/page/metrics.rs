//! What the metrics of the server said, over time: gauges as they stood, counters as rates.
//!
//! `monitor.jsonl` has of each sample the metrics that differ from the sample before: what is not told stands.

use super::server::{Series, by_source, named};
use crate::report::{Run, Sample};
use std::collections::{BTreeMap, BTreeSet};

/// Metrics of a kind that are drawn; the others are in `monitor.jsonl`.
pub(super) const METRICS_MAX: usize = 40;

/// The names of one kind.
#[derive(Default)]
pub(super) struct Chosen {
    /// Those that changed most often, in this order.
    pub(super) names: Vec<String>,
    /// How many there are.
    pub(super) count: usize,
}

/// Names of counters and of gauges in all runs.
pub(super) fn chosen(runs: &[Run]) -> (Chosen, Chosen) {
    // How often each was told.
    let mut changes: BTreeMap<&str, usize> = BTreeMap::new();
    for name in runs.iter().flat_map(|run| &run.recording.samples).flat_map(|sample| sample.metrics.keys()) {
        *changes.entry(name).or_default() += 1;
    }
    let bases: BTreeSet<&str> = changes.keys().map(|name| base(name)).collect();
    let mut names: Vec<_> = changes.iter().collect();
    // A stable sort: those that changed as often stay in the order of their names.
    names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let (mut counters, mut gauges) = (Chosen::default(), Chosen::default());
    for (name, _) in names {
        let chosen = if is_counter(name, &bases) { &mut counters } else { &mut gauges };
        chosen.count += 1;
        if chosen.names.len() < METRICS_MAX {
            chosen.names.push((*name).to_owned());
        }
    }
    (counters, gauges)
}

/// Name without labels.
fn base(name: &str) -> &str {
    name.split_once('{').map_or(name, |(base, _)| base)
}

/// By its name, as Prometheus has it: a counter ends with `_total`; a histogram and a summary have a `_sum` and a
/// `_count`, which are counters too.
fn is_counter(name: &str, bases: &BTreeSet<&str>) -> bool {
    let name = base(name);
    let has_twin = |own: &str, other: &str| {
        name.strip_suffix(own).is_some_and(|stem| bases.contains(format!("{stem}{other}").as_str()))
    };
    name.ends_with("_total") || has_twin("_sum", "_count") || has_twin("_count", "_sum")
}

/// Gauges: each value holds until the next, the last one to the last sample.
pub(super) fn gauges(run: &Run, names: &[String]) -> Vec<Series> {
    series(run, names, "hv", levels)
}

/// Counters: growth since the sample before, by the second.
pub(super) fn counters(run: &Run, names: &[String]) -> Vec<Series> {
    series(run, names, "vh", rates)
}

/// A time, and what stood then; `None` where the source could not be read.
type Point = (f64, Option<f64>);

fn series(run: &Run, names: &[String], shape: &'static str, points: fn(&[&Sample], &str) -> Vec<Point>) -> Vec<Series> {
    let sources = by_source(run);
    let pairs = names.iter().flat_map(|name| sources.iter().map(move |(source, samples)| (name, source, samples)));
    let series = pairs.map(|(name, source, samples)| {
        let (x, y) = thinned(points(samples, name)).into_iter().unzip();
        Series { name: named(source, name), x, y, shape }
    });
    series.filter(|series| series.y.iter().any(Option::is_some)).collect()
}

/// The value at each sample, from the first that has one on.
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
    // One that came after others of its source began at zero.
    let before = samples.iter().take_while(|sample| !sample.metrics.contains_key(name)).last();
    let mut last = before.filter(|sample| sample.error.is_none()).map(|sample| (sample.at, 0.0));
    let mut points = Vec::new();
    for (at, value) in levels(samples, name) {
        let Some(value) = value else {
            points.push((at, None));
            continue;
        };
        if let Some((then, before)) = last
            && at > then
        {
            // A server that was started again counts from zero.
            let growth = if value >= before { value - before } else { value };
            let rate = Some(growth / (at - then));
            if points.last().is_none_or(|(_, rate): &Point| rate.is_none()) {
                points.push((then, rate));
            }
            points.push((at, rate));
        }
        last = Some((at, value));
    }
    points
}

/// Without the points between two of the same value: they change nothing that is drawn.
fn thinned(points: Vec<Point>) -> Vec<Point> {
    let is_needed = |at: usize| {
        at == 0 || at + 1 == points.len() || points[at - 1].1 != points[at].1 || points[at + 1].1 != points[at].1
    };
    (0..points.len()).filter(|&at| is_needed(at)).map(|at| points[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Recording;
    use std::time::{Duration, UNIX_EPOCH};

    /// A run with a sample a second, the metrics of which are those that are told.
    fn run(seconds: u32, told: &[(u32, &[(&str, f64)])], errors: &[u32]) -> Run {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        let told: BTreeMap<u32, _> = told.iter().copied().collect();
        recording.samples = (0..=seconds)
            .map(|second| Sample {
                at: f64::from(second),
                source: "http://127.0.0.1/".into(),
                error: errors.contains(&second).then(|| "refused".into()),
                metrics: told
                    .get(&second)
                    .map(|told| told.iter().map(|&(name, value)| (name.to_owned(), value)).collect())
                    .unwrap_or_default(),
                ..Sample::default()
            })
            .collect();
        let (label, origin, total) = ("one".into(), "catlab load".into(), recording.total());
        Run { label, origin, summary: None, manifest: None, total, recording, notes: Vec::new() }
    }

    /// What the only series has drawn at that time.
    fn drawn(series: &[Series], at: f64) -> Option<f64> {
        let [series] = series else { panic!("{} series", series.len()) };
        let after = series.x.iter().position(|&x| x > at)?;
        match series.shape {
            "hv" => series.y[after.checked_sub(1)?],
            _ => series.y[after],
        }
    }

    #[test]
    fn a_gauge_that_stands_still_and_jumps_is_no_slope() {
        let run = run(60, &[(0, &[("depth", 3.0)]), (50, &[("depth", 90.0)])], &[]);
        let series = gauges(&run, &["depth".into()]);
        for at in [0.5, 25.0, 49.5] {
            assert_eq!(drawn(&series, at), Some(3.0), "{at}");
        }
        assert_eq!(drawn(&series, 50.5), Some(90.0));
        assert_eq!((series[0].x.last(), series[0].y.last()), (Some(&60.0), Some(&Some(90.0))), "it goes on to the end");
        assert!(series[0].x.len() <= 4, "{:?}", series[0].x);
    }

    #[test]
    fn a_counter_is_a_rate_in_the_seconds_in_which_it_grew() {
        let told: [(u32, &[(&str, f64)]); 3] =
            [(0, &[("q_total", 1_000.0)]), (50, &[("q_total", 1_200.0)]), (51, &[("q_total", 1_500.0)])];
        let series = counters(&run(60, &told, &[]), &["q_total".into()]);
        for (at, rate) in [(0.5, 0.0), (48.5, 0.0), (49.5, 200.0), (50.5, 300.0), (51.5, 0.0), (59.5, 0.0)] {
            assert_eq!(drawn(&series, at), Some(rate), "{at}");
        }
    }

    #[test]
    fn a_source_that_is_away_leaves_a_gap_and_may_count_from_zero_again() {
        let told: [(u32, &[(&str, f64)]); 3] =
            [(0, &[("q_total", 1_000.0)]), (1, &[("q_total", 1_100.0)]), (5, &[("q_total", 40.0)])];
        let run = run(6, &told, &[2, 3, 4]);
        let series = counters(&run, &["q_total".into()]);
        assert_eq!(drawn(&series, 0.5), Some(100.0));
        assert_eq!(drawn(&series, 2.5), None);
        // Forty in the four seconds since it could be read.
        assert_eq!(drawn(&series, 4.5), Some(10.0));
        assert_eq!(drawn(&gauges(&run, &["q_total".into()]), 2.5), None);
    }

    #[test]
    fn a_counter_that_comes_later_began_at_zero() {
        let run = run(4, &[(0, &[("up", 1.0)]), (2, &[("errors_total", 7.0)])], &[]);
        let series = counters(&run, &["errors_total".into()]);
        assert_eq!((drawn(&series, 1.5), drawn(&series, 2.5)), (Some(7.0), Some(0.0)));
    }

    #[test]
    fn what_changes_is_drawn_before_what_stands_still() {
        let still: Vec<String> = (0..METRICS_MAX).map(|number| format!("a{number}")).collect();
        let mut first: Vec<(&str, f64)> = still.iter().map(|name| (name.as_str(), 1.0)).collect();
        first.extend([("z_depth", 1.0), ("z_total{rcode=\"0\"}", 0.0), ("z_us_sum", 2.0), ("z_us_count", 1.0)]);
        let run = run(2, &[(0, &first), (1, &[("z_depth", 2.0)])], &[]);
        let (counters, gauges) = chosen(&[run]);
        assert_eq!(
            (gauges.count, gauges.names.len(), gauges.names[0].as_str()),
            (METRICS_MAX + 1, METRICS_MAX, "z_depth")
        );
        assert_eq!(counters.names, ["z_total{rcode=\"0\"}", "z_us_count", "z_us_sum"]);
    }
}
