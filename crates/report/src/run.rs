//! A run of `catlab` or of another program, as input of the report.

use super::recording::whole_intervals;
use super::{Manifest, Recording, Row, SecondFigures, Summary, TransportSummary};

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name in legends.
    pub label: String,
    /// The program that measured it.
    pub origin: String,
    /// Its summary. None for runs of other programs.
    pub summary: Option<Summary>,
    /// How the run was made. None for runs of other programs.
    pub manifest: Option<Manifest>,
    /// The whole run as one interval.
    pub total: Row,
    /// The recorded data.
    pub recording: Recording,
    /// What a reader must know about results of another program.
    pub notes: Vec<String>,
}

impl Run {
    /// Why the results are invalid. Empty if they are valid, or if there is no verdict.
    #[must_use]
    pub fn reasons_invalid(&self) -> &[String] {
        match &self.summary {
            Some(summary) if !summary.validity.valid => &summary.validity.reasons,
            _ => &[],
        }
    }

    /// Whether the verdict is that the run is invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.summary.as_ref().is_some_and(|summary| !summary.validity.valid)
    }

    /// The results of its summary, otherwise computed from the recorded data.
    #[must_use]
    pub fn figures(&self) -> TransportSummary {
        self.summary.as_ref().map_or_else(|| TransportSummary::from(&self.total), |summary| summary.total.clone())
    }

    /// Seconds in which queries were sent.
    #[must_use]
    pub fn duration_seconds(&self) -> f64 {
        self.summary.as_ref().map_or(self.total.span_seconds, |summary| summary.duration_seconds)
    }

    /// Offered queries per second.
    #[must_use]
    pub fn offered_rate(&self) -> f64 {
        let recorded = || self.figures().sent as f64 / self.duration_seconds().max(1e-9);
        self.summary.as_ref().map_or_else(recorded, |summary| summary.offered_rate)
    }

    /// Correct answers per second.
    #[must_use]
    pub fn achieved_rate(&self) -> f64 {
        let recorded = || self.figures().right() as f64 / self.duration_seconds().max(1e-9);
        self.summary.as_ref().map_or_else(recorded, |summary| summary.achieved_rate)
    }

    /// Complete intervals in which queries were sent.
    pub fn sending(&self) -> impl Iterator<Item = &Row> {
        whole_intervals(&self.recording.rows, self.duration_seconds())
    }

    /// The size of the answers, and whether the run was steady.
    #[must_use]
    pub fn seconds(&self) -> SecondFigures {
        SecondFigures::of(&self.recording.rows, self.duration_seconds())
    }
}
