//! Charts of the server's CPU and memory.

use super::chart::{Chart, Colour, Scale};
use super::common::{end, steps, titled};
use crate::{Run, Sample};
use std::collections::BTreeMap;

/// Cores in use, of each source of each run.
pub(super) fn processor(runs: &[Run]) -> Option<Chart> {
    draw(runs, "Server: processor", "cores", |sample| sample.cpu_cores)
}

/// Resident memory, of each source of each run.
pub(super) fn memory(runs: &[Run]) -> Option<Chart> {
    draw(runs, "Server: memory", "resident, MB", |sample| sample.rss_bytes.map(|bytes| bytes / 1e6))
}

fn draw(runs: &[Run], name: &str, axis: &str, value: fn(&Sample) -> Option<f64>) -> Option<Chart> {
    let mut all: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for run in runs {
        let mut sources: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for sample in run.recording.samples.iter().filter(|sample| sample.at >= 0.0) {
            if let Some(value) = value(sample) {
                sources.entry(&sample.source).or_default().push((sample.at, value));
            }
        }
        let named = |source: &str| if runs.len() == 1 { source.to_owned() } else { format!("{} {source}", run.label) };
        all.extend(sources.into_iter().map(|(source, points)| (named(source), points)));
    }
    let most = all.iter().flat_map(|(_, points)| points).map(|(_, value)| *value).reduce(f64::max)?;
    let mut chart = titled(name, runs);
    chart.x = Scale::time(end(&runs.iter().map(steps).collect::<Vec<_>>()));
    chart.y = Scale::linear(0.0, most.max(0.01) * 1.05, axis, None);
    for (colour, (name, points)) in all.into_iter().enumerate() {
        chart.line(&name, points, Colour::of(colour));
    }
    chart.events(runs);
    Some(chart)
}
