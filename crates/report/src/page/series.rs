//! Values of monitored sources over time.

use crate::{Run, Sample};
use std::collections::BTreeMap;

/// A value of one source over time.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<Option<f64>>,
    /// The line shape, as named by plotly.js.
    pub(super) shape: &'static str,
}

pub(super) fn by_source(run: &Run) -> BTreeMap<&str, Vec<&Sample>> {
    let mut sources: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in &run.recording.samples {
        sources.entry(&sample.source).or_default().push(sample);
    }
    sources
}

pub(super) fn series_name(source: &str, what: &str) -> String {
    if what.is_empty() { source.to_owned() } else { format!("{source} {what}") }
}
