//! The output of dnsperf, for scripts.

use super::{Distribution, Recording, Row, Validity};
use std::fmt::Write;

/// The `Statistics:` block of dnsperf 2.14 with its histogram. `seconds` is the time of sending. As in dnsperf, latency
/// starts at the sending of each query and excludes unanswered queries. If the run is invalid, a status line before the
/// block says so.
#[must_use]
pub fn dnsperf_text(recording: &Recording, seconds: f64, validity: &Validity) -> String {
    let total = recording.total();
    let answered = answered(&total);
    let share = |count: u64, of: u64| if of == 0 { 0.0 } else { 100.0 * count as f64 / of as f64 };
    let each = |bytes: u64, count: u64| bytes.checked_div(count).unwrap_or_default();
    let rcodes: Vec<_> = total
        .rcodes
        .iter()
        .map(|(rcode, &count)| format!("{rcode} {count} ({:.2}%)", share(count, total.answered)))
        .collect();
    let (mean, deviation) = answered.mean_and_deviation();
    let s = |ns: f64| format!("{:.6}", ns / 1e9);
    let mut out = if validity.valid { String::new() } else { format!("[Status] {validity}\n\n") };
    out += "Statistics:\n\n";
    let mut line = |text: String| {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "{text}");
    };
    line(format!("  Queries sent:         {}", total.sent));
    line(format!("  Queries completed:    {} ({:.2}%)", total.answered, share(total.answered, total.sent)));
    // Sent queries are completed, lost or interrupted. A query with a broken connection is lost, as after a timeout.
    let lost = total.timed_out + total.connection_lost;
    line(format!("  Queries lost:         {lost} ({:.2}%)", share(lost, total.sent)));
    if total.interrupted > 0 {
        line(format!("  Queries interrupted:  {} ({:.2}%)", total.interrupted, share(total.interrupted, total.sent)));
    }
    let unexpected = total.late + total.duplicate + total.mismatched + total.stray;
    if unexpected > 0 {
        line(format!("  Unexpected IDs:       {unexpected} ({:.2}%)", share(unexpected, total.sent)));
    }
    line(String::new());
    line(format!("  Response codes:       {}", rcodes.join(", ")));
    line(format!(
        "  Average packet size:  request {}, response {}",
        each(total.bytes_sent, total.sent),
        each(total.bytes_received, total.arrived)
    ));
    line(format!("  Run time (s):         {seconds:.6}"));
    line(format!("  Queries per second:   {:.6}", total.answered as f64 / seconds.max(1e-9)));
    line(String::new());
    line(format!(
        "  Average Latency (s):  {} (min {}, max {})",
        s(mean),
        s(answered.min() as f64),
        s(answered.max() as f64)
    ));
    if total.answered > 1 {
        line(format!("  Latency StdDev (s):   {}", s(deviation)));
        line("  Latency bucket (s):   answer count".into());
        for [min, max, count] in super::folder::metrics::buckets_us(&answered) {
            let us = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
            line(format!("  {} - {}:  {count}", us(min), us(max)));
        }
    }
    line(String::new());
    out
}

/// Service times of answered queries. Unanswered queries have larger values, because answers after the timeout do not
/// count.
fn answered(total: &Row) -> Distribution {
    let mut remaining = total.answered;
    Distribution::of(total.service.entries().iter().map(|&(value, count)| {
        let used = count.min(remaining);
        remaining -= used;
        (value, used)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn sent_queries_are_completed_lost_or_interrupted() {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        let (timed_out, connection_lost, interrupted) = (7, 20, 3);
        let row = Row { sent: 100, answered: 70, timed_out, connection_lost, interrupted, ..Row::default() };
        recording.rows.push(row);
        let text = dnsperf_text(&recording, 1.0, &Validity { valid: true, reasons: Vec::new() });
        let count = |label: &str| -> u64 {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(label)).unwrap();
            line.split_ascii_whitespace().next().unwrap().parse().unwrap()
        };
        assert_eq!(count("Queries lost:"), 27, "{text}");
        let ends = count("Queries completed:") + count("Queries lost:") + count("Queries interrupted:");
        assert_eq!(count("Queries sent:"), ends, "{text}");
    }

    #[test]
    fn the_totals_block_matches_dnsperf() {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(2));
        recording.rows.push(Row {
            span_seconds: 1.0,
            sent: 190,
            answered: 180,
            arrived: 180,
            timed_out: 10,
            mismatched: 2,
            rcodes: [("NOERROR".to_owned(), 170), ("NXDOMAIN".to_owned(), 10)].into(),
            bytes_sent: 190 * 33,
            bytes_received: 180 * 49,
            service: Distribution::of([(130_500, 100), (2_400_000, 80), (2_000_000_000, 10)]),
            ..Row::default()
        });
        let validity = Validity { valid: true, reasons: Vec::new() };
        let text = dnsperf_text(&recording, 3.5, &validity);
        let run = include_str!("../testdata/dnsperf-2.14.txt");
        let golden = &run[run.find("Statistics:").unwrap()..];
        assert_eq!(text, golden);
        let validity = Validity { valid: false, reasons: vec!["one".into(), "two".into()] };
        assert_eq!(dnsperf_text(&recording, 3.5, &validity), format!("[Status] INVALID: one; two\n\n{golden}"));
    }
}
