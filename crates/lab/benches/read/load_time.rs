//! Judges the time to load a zone.

use super::table::Verdict;

/// The zone must load no later than on any rival (docs/history/budgets.md), so the fastest rival counts. A rival that
/// could not be measured is NaN.
pub(crate) fn judge(seconds: f64, rivals: &[f64]) -> (String, Verdict) {
    let quickest = rivals.iter().copied().fold(f64::NAN, f64::min);
    let verdict = match rivals.iter().any(|rival| rival.is_nan()) {
        _ if rivals.is_empty() => return (String::new(), Verdict::Informs),
        _ if seconds > quickest => Verdict::Missed,
        true => Verdict::Absent,
        false => Verdict::Met,
    };
    let least = if quickest.is_nan() { String::new() } else { format!("{quickest:.2} s: ") };
    (format!("<= {least}NSD and Knot"), verdict)
}
