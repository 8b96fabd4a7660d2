//! The summary of a run for the terminal.

use super::duration::microseconds;
use super::{ClassLatency, Quantiles, Summary, TransportSummary};
use measure::{CheckCounts, QueryFileCounts};
use std::fmt::Write;

/// Number of wrong answers shown here. `summary.json` has more.
const WRONG_SHOWN_MAX: usize = 3;

/// The columns of the table of times.
const COLUMNS: [&str; 12] = ["min", "p5", "q1", "p50", "q3", "p90", "p95", "p99", "p99.9", "p99.99", "max", "mean"];
const COLUMN_WIDTH: usize = 8;

/// Number and rate of sent queries, with the planned rate if it was not reached.
fn sent(summary: &Summary) -> String {
    let rate = summary.total.sent as f64 / summary.duration_seconds.max(1e-9);
    let is_kept = (rate - summary.offered_rate).abs() <= summary.offered_rate / 1_000.0;
    let planned = if is_kept { String::new() } else { format!(" of {:.1} planned", summary.offered_rate) };
    format!("{} in {:.1} s, {rate:.1} a second{planned}", summary.total.sent, summary.duration_seconds)
}

/// About fifteen lines.
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
    for wrong in summary.wrong_answers.iter().take(WRONG_SHOWN_MAX) {
        line("", format!("{:.3} s {}: expected {}; got {}", wrong.at, wrong.question, wrong.expected, wrong.got));
    }
    let rcodes: Vec<_> =
        total.rcodes.iter().map(|(rcode, &count)| format!("{rcode} {count} ({:.2} %)", share(count))).collect();
    line("RCODEs", rcodes.join(", "));
    line("", COLUMNS.map(|name| format!("{name:>COLUMN_WIDTH$}")).join(""));
    for (label, quantiles) in
        [("latency", &total.latency_us), ("service", &total.service_us), ("send lag", &total.send_lag_us)]
    {
        line(label, row(quantiles));
    }
    more_latency(summary, &mut out);
    if let Some(replay) = &summary.replay {
        replay.lines(&mut out, microseconds);
    }
    summary.agents.iter().for_each(|agent| agent.line(&mut out, microseconds));
    let mut line = |label: &str, text: String| {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "{label:<10} {text}");
    };
    if let Some(QueryFileCounts { rows, dropped }) = summary.per_query {
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

/// Latency in round trips and by class of clients, the size of the answers, and whether the run was steady.
fn more_latency(summary: &Summary, out: &mut String) {
    let mut line = |label: &str, text: String| {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "{label:<10} {text}");
    };
    if let Some(rtt) = &summary.rtt {
        line("in RTTs", format!("{} (1 RTT = {})", in_rtts(&rtt.latency_rtts), microseconds(rtt.rtt_us)));
    }
    if let Some(classes) = &summary.client_latency {
        let at_least = classes.busy_queries;
        line("busy", class(&classes.busy, &format!("with {at_least} queries or more")));
        line("non-busy", class(&classes.non_busy, &format!("with fewer than {at_least}")));
    }
    for (number, monitored) in &summary.monitor {
        let memory = monitored.describe_memory();
        if !memory.is_empty() {
            line(if *number == 1 { "memory" } else { "" }, format!("of {}: {memory}", monitored.source));
        }
    }
    let responses = summary.seconds.describe_responses();
    if !responses.is_empty() {
        line("responses", format!("{responses}, {:.2} % truncated", 100.0 * summary.seconds.truncated_share));
    }
    let [rate, p99] = [summary.seconds.describe_rate_trend(), summary.seconds.describe_p99_trend()];
    if !rate.is_empty() && !p99.is_empty() {
        line("over time", format!("rate {rate}; p99 of the latency {p99}"));
    }
}

/// The clients of one class, and their latency.
fn class(class: &ClassLatency, which: &str) -> String {
    let head = format!("{} clients {which}, {:.1} % of the queries", class.clients, 100.0 * class.query_share);
    if class.queries == 0 {
        return head;
    }
    let [q1, p50, q3] = [class.latency_us.q1, class.latency_us.p50, class.latency_us.q3].map(microseconds);
    let rtts = class.latency_rtts.as_ref().map_or_else(String::new, |rtts| format!("; in RTTs {}", in_rtts(rtts)));
    format!("{head}: q1 {q1}  median {p50}  q3 {q3}{rtts}")
}

fn in_rtts(rtts: &Quantiles) -> String {
    let Quantiles { q1, p50, q3, .. } = rtts;
    format!("q1 {q1:.2}  median {p50:.2}  q3 {q3:.2}")
}

/// Outcomes other than correct answers and timeouts.
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

fn checked(checked: &CheckCounts) -> String {
    let wrong = match checked.wrong() {
        0 => "none wrong".to_owned(),
        count => format!("{count} WRONG: {}", checked.describe()),
    };
    let unknown = if checked.unknown > 0 { format!(", {} unknown", checked.unknown) } else { String::new() };
    format!("{} answers, {wrong}{unknown}", checked.checked)
}

fn row(quantiles: &Quantiles) -> String {
    let Quantiles { min, q1, p50, q3, p90, p99, p99_9, p99_99, max, mean, p5, p95, .. } = *quantiles;
    let known = [Some(min), p5, Some(q1), Some(p50), Some(q3), Some(p90), p95, Some(p99), Some(p99_9), Some(p99_99)];
    let cells = known.into_iter().chain([Some(max), mean]);
    // Older runs lack some.
    let cell = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| microseconds(us).replace(' ', ""));
    cells.map(|us| format!("{:>COLUMN_WIDTH$}", cell(us))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limit, LimitSide, Validity};

    #[test]
    fn evidence_and_reasons_have_a_line_each() {
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
            seconds: crate::SecondFigures::default(),
            monitor: std::collections::BTreeMap::new(),
            rtt: None,
            client_latency: None,
            partial: false,
            per_query: None,
        };
        let text = outline(&summary);
        let end = "limit      none: the offered rate was reached\n           one\n           two\n\
                   INVALID    first\n           second\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn times_have_a_column_each_and_unknown_ones_a_dash() {
        let known = r#"{"min": 70.0, "p50": 120.0, "n": 4, "mean": 1500.0, "p5": 80.0}"#;
        let known: Quantiles = serde_json::from_str(known).unwrap();
        let cells: Vec<_> = row(&known).split_whitespace().map(str::to_owned).collect();
        assert_eq!(cells.len(), COLUMNS.len());
        let of = |name: &str| cells[COLUMNS.iter().position(|column| *column == name).unwrap()].as_str();
        assert_eq!([of("p5"), of("p50"), of("p95"), of("mean")], ["80.0us", "120us", "-", "1.50ms"]);
    }

    #[test]
    fn classes_of_clients_are_described() {
        let latency_us = Quantiles { q1: 20_000.0, p50: 40_000.0, q3: 50_000.0, n: 10, ..Quantiles::default() };
        let latency_rtts = Some(latency_us.scaled(1.0 / 20_000.0));
        let few =
            ClassLatency { clients: 4, queries: 10, query_share: 0.14, latency_us, latency_rtts, ..Default::default() };
        let text = class(&few, "with fewer than 250");
        let head = "4 clients with fewer than 250, 14.0 % of the queries: ";
        let times = "q1 20.0 ms  median 40.0 ms  q3 50.0 ms; in RTTs q1 1.00  median 2.00  q3 2.50";
        assert_eq!(text, format!("{head}{times}"));
    }
}
