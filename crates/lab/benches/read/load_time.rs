//! How the time to load a zone is judged.

use super::table::Verdict;

/// No later than any of them (docs/history/budgets.md), so the quickest counts; one that was to be measured and was
/// not is no number.
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
