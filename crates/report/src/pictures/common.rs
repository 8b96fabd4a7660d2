//! Parts that several charts share.

use super::chart::Chart;
use crate::{Row, Run};

/// Maximum number of bars of boxes and answers. Longer runs combine several seconds.
pub(super) const INTERVALS_MAX: usize = 120;
/// Maximum number of points of a cumulative curve.
pub(super) const CURVE_POINTS_MAX: usize = 600;

/// An empty chart with this title. It says which runs are invalid, and why.
pub(super) fn titled(name: &str, runs: &[Run]) -> Chart {
    let invalid: Vec<_> = runs.iter().filter(|run| run.is_invalid()).collect();
    if invalid.is_empty() {
        return Chart::new(name, "");
    }
    let labels: Vec<_> = invalid.iter().map(|run| run.label.as_str()).collect();
    let reason = |run: &&Run| {
        let (first, others) = run.reasons_invalid().split_first()?;
        let more = if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
        Some(if runs.len() > 1 { format!("{}: {first}{more}", run.label) } else { format!("{first}{more}") })
    };
    let reasons: Vec<_> = invalid.iter().filter_map(reason).collect();
    Chart::new(&format!("{name} (INVALID: {})", labels.join(", ")), &reasons.join("; "))
}

pub(super) fn steps(run: &Run) -> Vec<Row> {
    let rows: Vec<Row> = run.recording.rows.iter().filter(|row| row.sent + row.answered > 0).cloned().collect();
    let step = rows.len().div_ceil(INTERVALS_MAX).max(1);
    rows.chunks(step).map(Row::sum).collect()
}

pub(super) fn end(rows: &[Vec<Row>]) -> f64 {
    rows.iter().flatten().map(|row| row.start_seconds + row.span_seconds).fold(1.0, f64::max)
}
