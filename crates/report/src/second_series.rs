//! Figures of each second of a run, for charts over time.

use crate::monitor_figures::of_source;
use crate::{Run, Sample};
use measure::Row;

/// Nanoseconds in a microsecond.
const US_NS: f64 = 1e3;

/// A figure of a second.
type OfRow = fn(&Row) -> Option<f64>;
/// The figures of queries, by the second in which they were sent.
const OF_ROWS: [(&str, OfRow); 6] = [
    ("rate", |row| Some(row.right() as f64 / row.span_seconds.max(1e-9))),
    ("share", |row| (row.sent > 0).then(|| row.right() as f64 / row.sent as f64)),
    ("mean_us", |row| answered(row).map(|row| row.latency.mean_and_deviation().0 / US_NS)),
    ("p50_us", |row| answered(row).map(|row| row.latency.quantile(0.5) as f64 / US_NS)),
    ("p99_us", |row| answered(row).map(|row| row.latency.quantile(0.99) as f64 / US_NS)),
    ("max_us", |row| answered(row).map(|row| row.latency.max() as f64 / US_NS)),
];

/// A figure of a sample.
type OfSample = fn(&Sample) -> Option<f64>;
/// The figures of monitored sources.
const OF_SAMPLES: [(&str, OfSample); 6] = [
    ("cpu_cores", |sample| sample.cpu_cores),
    ("rss_bytes", |sample| sample.rss_bytes),
    ("kernel_memory_bytes", |sample| sample.kernel_memory_bytes),
    ("tcp_memory_bytes", |sample| sample.tcp_memory_bytes),
    ("established", |sample| connections(sample, "ESTABLISHED")),
    ("time_wait", |sample| connections(sample, "TIME_WAIT")),
];

fn answered(row: &Row) -> Option<&Row> {
    Some(row).filter(|row| !row.latency.is_empty())
}

/// The connections in a state. A state without connections is not in the sample.
fn connections(sample: &Sample, state: &str) -> Option<f64> {
    (!sample.tcp_states.is_empty()).then(|| sample.tcp_states.get(state).copied().unwrap_or_default() as f64)
}

/// The names that [`second_series`] knows. `N` stands for the number of a source of `--monitor`, from 1.
#[must_use]
pub fn second_series_names() -> Vec<String> {
    let of_rows = OF_ROWS.map(|(name, _)| name.to_owned());
    of_rows.into_iter().chain(OF_SAMPLES.map(|(name, _)| format!("monitor.N.{name}"))).collect()
}

/// A figure of each whole second of a run: the time of its middle in seconds, and the value. For a monitored source,
/// of each sample. `None` if there is no figure of this name.
#[must_use]
pub fn second_series(run: &Run, name: &str) -> Option<Vec<(f64, f64)>> {
    if let Some((_, of)) = OF_ROWS.iter().find(|(known, _)| *known == name) {
        let points = run.sending().filter_map(|row| Some((row.start_seconds + row.span_seconds / 2.0, of(row)?)));
        return Some(points.collect());
    }
    let (number, of) = monitored(name)?;
    let samples = of_source(&run.recording, number, run.duration_seconds());
    Some(samples.into_iter().filter_map(|sample| Some((sample.at, of(sample)?))).collect())
}

/// Whether [`second_series`] knows the name.
#[must_use]
pub fn is_second_series(name: &str) -> bool {
    OF_ROWS.iter().any(|(known, _)| *known == name) || monitored(name).is_some()
}

/// The number of a source, and its figure.
fn monitored(name: &str) -> Option<(usize, OfSample)> {
    let (number, figure) = name.strip_prefix("monitor.")?.split_once('.')?;
    let (_, of) = OF_SAMPLES.iter().find(|(known, _)| *known == figure)?;
    Some((number.parse().ok().filter(|number| *number > 0)?, *of))
}
