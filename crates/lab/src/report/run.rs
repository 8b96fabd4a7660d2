//! A run as the report draws it, whoever made it.

use super::{Manifest, Recording, Row, Summary, TransportSummary, folder, import};
use std::path::Path;

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What it is called in legends.
    pub label: String,
    /// The program that measured it.
    pub origin: String,
    /// Its figures; runs of other programs have none but what is recorded.
    pub summary: Option<Summary>,
    /// How it came about; `None` for runs of other programs.
    pub manifest: Option<Manifest>,
    /// The whole run as one interval.
    pub total: Row,
    /// What was recorded.
    pub recording: Recording,
    /// What a reader must know of figures of another program.
    pub notes: Vec<String>,
}

impl Run {
    /// Reads a run folder, or what kxdpgun `-j` or dnsperf printed.
    ///
    /// # Errors
    /// When it is none of these, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        if path.is_dir() { Ok(folder::read(path)?) } else { import::read(path) }
    }

    /// Why the figures do not mean what they say; empty when they do, or when nobody judged.
    #[must_use]
    pub fn reasons_invalid(&self) -> &[String] {
        match &self.summary {
            Some(summary) if !summary.validity.valid => &summary.validity.reasons,
            _ => &[],
        }
    }

    /// Whether the run was judged, and found not to mean what it says.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| !summary.validity.valid)
    }

    /// Its figures: as summed up when it ran, otherwise from what is recorded.
    #[must_use]
    pub fn figures(&self) -> TransportSummary {
        self.summary.as_ref().map_or_else(|| TransportSummary::from(&self.total), |summary| summary.total.clone())
    }

    /// Seconds in which queries were sent.
    #[must_use]
    pub fn duration_seconds(&self) -> f64 {
        self.summary.as_ref().map_or(self.total.span_seconds, |summary| summary.duration_seconds)
    }

    /// Queries a second that were offered.
    #[must_use]
    pub fn offered_rate(&self) -> f64 {
        let recorded = || self.figures().sent as f64 / self.duration_seconds().max(1e-9);
        self.summary.as_ref().map_or_else(recorded, |summary| summary.offered_rate)
    }

    /// Right answers a second.
    #[must_use]
    pub fn achieved_rate(&self) -> f64 {
        let recorded = || self.figures().right() as f64 / self.duration_seconds().max(1e-9);
        self.summary.as_ref().map_or_else(recorded, |summary| summary.achieved_rate)
    }

    /// Whole intervals in which queries were sent. What was to be sent in the last one and went out late is left out.
    pub fn sending(&self) -> impl Iterator<Item = &Row> {
        let end = self.duration_seconds() + 1e-3;
        self.recording.rows.iter().filter(move |row| row.sent > 0 && row.start_seconds + row.span_seconds <= end)
    }
}
