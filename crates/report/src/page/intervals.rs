//! Intervals on a time axis.

use super::figure::INTERVALS_MAX;
use crate::{Row, Run};

/// An interval.
pub(super) struct Interval {
    pub(super) row: Row,
}

impl Interval {
    /// Its middle, in seconds from the start.
    pub(super) fn middle(&self) -> f64 {
        self.row.start_seconds + self.row.span_seconds / 2.0
    }
}

/// The intervals of a run: its seconds, or several of them combined in a long run. The idle time after the last query
/// is left out.
pub(super) fn of(run: &Run) -> Vec<Interval> {
    let is_used = |row: &Row| {
        row.sent > 0 || row.arrived > 0 || row.late + row.duplicate + row.stray + row.mismatched + row.other_address > 0
    };
    let rows = &run.recording.rows;
    let used = rows.iter().rposition(is_used).map_or(0, |last| last + 1);
    let step = used.div_ceil(INTERVALS_MAX).max(1);
    rows[..used].chunks(step).map(|rows| Interval { row: Row::sum(rows) }).collect()
}
