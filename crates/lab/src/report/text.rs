//! The outline of a run for the terminal.

use super::{Quantiles, Summary, TransportSummary};
use crate::measure::Checked;
use crate::per_query::Written;
use std::fmt::Write;
use std::time::Duration;

/// Wrong answers that are told here; more stand in the summary.
const WRONG_TOLD_MAX: usize = 3;

/// A duration in the unit that suits it, with three digits: `45.0 us`, `1.23 ms`, `2.50 s`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    microseconds(duration.as_nanos() as f64 / 1e3)
}

fn microseconds(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "us"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// How many were sent, and at which rate; that of the plan beside it when it was not kept.
fn sent(summary: &Summary) -> String {
    let rate = summary.total.sent as f64 / summary.duration_seconds.max(1e-9);
    let is_kept = (rate - summary.offered_rate).abs() <= summary.offered_rate / 1_000.0;
    let planned = if is_kept { String::new() } else { format!(" of {:.1} planned", summary.offered_rate) };
    format!("{} in {:.1} s, {rate:.1} a second{planned}", summary.total.sent, summary.duration_seconds)
}

/// A dozen lines.
#[must_use]
pub fn outline(summary: &Summary) -> String {
    let total = &summary.total;
    let share = |count: u64| 100.0 * count as f64 / (total.sent as f64).max(1.0);
    let mut out = String::new();
    let mut line = |label: &str, text: String| {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "{label:<10} {text}");
    };
    line("sent", sent(summary));
    line(
        "answered",
        format!("{} ({:.3} %), {:.1} a second", total.answered, share(total.answered), summary.achieved_rate),
    );
    line("timed out", format!("{} ({:.3} %)", total.timed_out, share(total.timed_out)));
    let others = others(total);
    if !others.is_empty() {
        line("also", others.join(", "));
    }
    if total.checked.checked > 0 {
        line("checked", checked(&total.checked));
    }
    for wrong in summary.wrong_answers.iter().take(WRONG_TOLD_MAX) {
        line("", format!("{:.3} s {}: expected {}; got {}", wrong.at, wrong.question, wrong.expected, wrong.got));
    }
    let rcodes: Vec<_> =
        total.rcodes.iter().map(|(rcode, &count)| format!("{rcode} {count} ({:.2} %)", share(count))).collect();
    line("RCODEs", rcodes.join(", "));
    line(
        "",
        ["min", "q1", "p50", "q3", "p90", "p99", "p99.9", "p99.99", "max"].map(|name| format!("{name:>9}")).join(""),
    );
    for (label, quantiles) in
        [("latency", &total.latency_us), ("service", &total.service_us), ("send lag", &total.send_lag_us)]
    {
        line(label, row(quantiles));
    }
    if let Some(replay) = &summary.replay {
        replay.lines(&mut out, microseconds);
    }
    summary.agents.iter().for_each(|agent| agent.line(&mut out, microseconds));
    let mut line = |label: &str, text: String| {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "{label:<10} {text}");
    };
    if let Some(Written { rows, dropped }) = summary.per_query {
        let lost = match dropped {
            0 => String::new(),
            count => format!("; {count} rows were dropped: the writer could not keep up"),
        };
        line("per query", format!("{rows} rows in queries.parquet{lost}"));
    }
    line("limit", summary.limit.side.label().into());
    summary.limit.evidence.iter().for_each(|evidence| line("", evidence.clone()));
    if summary.validity.valid {
        line("validity", "valid".into());
    }
    for (number, reason) in summary.validity.reasons.iter().enumerate() {
        line(if number == 0 { "INVALID" } else { "" }, reason.clone());
    }
    out
}

/// What came, or did not, beside right answers and time-outs.
fn others(total: &TransportSummary) -> Vec<String> {
    let others = [
        ("late", total.late),
        ("duplicate", total.duplicate),
        ("mismatched", total.mismatched),
        ("stray", total.stray),
        ("from another address", total.other_address),
        ("unexpected RCODE", total.unexpected),
        ("truncated", total.truncated),
        ("interrupted", total.interrupted),
        ("connection lost", total.connection_lost),
    ];
    others.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")).collect()
}

fn checked(checked: &Checked) -> String {
    let wrong = match checked.wrong() {
        0 => "none wrong".to_owned(),
        count => format!("{count} WRONG: {}", checked.told()),
    };
    let unknown = if checked.unknown > 0 { format!(", {} unknown", checked.unknown) } else { String::new() };
    format!("{} answers, {wrong}{unknown}", checked.checked)
}

fn row(quantiles: &Quantiles) -> String {
    let Quantiles { min, q1, p50, q3, p90, p99, p99_9, p99_99, max, .. } = *quantiles;
    [min, q1, p50, q3, p90, p99, p99_9, p99_99, max]
        .map(|us| format!("{:>9}", microseconds(us).replace(' ', "")))
        .join("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Limit, LimitSide, Validity};

    #[test]
    fn evidence_and_reasons_stand_one_a_line() {
        let summary = Summary {
            schema_version: 1,
            transports: std::collections::BTreeMap::new(),
            total: TransportSummary::default(),
            replay: None,
            offered_rate: 1.0,
            achieved_rate: 1.0,
            duration_seconds: 1.0,
            validity: Validity { valid: false, reasons: vec!["first".into(), "second".into()] },
            limit: Limit { side: LimitSide::None, evidence: vec!["one".into(), "two".into()] },
            wrong_answers: Vec::new(),
            hosts: Vec::new(),
            agents: Vec::new(),
            partial: false,
            per_query: None,
        };
        let text = outline(&summary);
        let end = "limit      none: the offered rate was reached\n           one\n           two\n\
                   INVALID    first\n           second\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn durations_have_three_digits() {
        let shown = [450, 45_000, 1_234_000, 999_000_000, 2_500_000_000].map(|ns| duration(Duration::from_nanos(ns)));
        assert_eq!(shown, ["0.45 us", "45.0 us", "1.23 ms", "999 ms", "2.50 s"]);
    }
}
