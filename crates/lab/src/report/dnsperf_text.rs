//! The summary that dnsperf prints, for scripts that read it.

use super::Recording;
use std::fmt::Write;

/// The block `Statistics:` of dnsperf 2.14 with its histogram. Latency is from the sending of each query, as dnsperf's
/// is; queries without an answer, which dnsperf leaves out of it, stand in it at the time-out.
#[must_use]
pub fn dnsperf_text(recording: &Recording) -> String {
    let total = recording.total();
    let share = |count: u64, of: u64| if of == 0 { 0.0 } else { 100.0 * count as f64 / of as f64 };
    let seconds = recording.rows.iter().filter(|row| row.sent > 0).map(|row| row.start_seconds + row.span_seconds);
    let seconds = seconds.fold(0.0, f64::max);
    let each = |octets: u64, count: u64| octets.checked_div(count).unwrap_or_default();
    let rcodes: Vec<_> = total
        .rcodes
        .iter()
        .map(|(rcode, &count)| format!("{rcode} {count} ({:.2}%)", share(count, total.answered)))
        .collect();
    let (mean, deviation) = total.service.mean_and_deviation();
    let s = |ns: f64| format!("{:.6}", ns / 1e9);
    let mut out = String::from("Statistics:\n\n");
    let mut line = |text: String| {
        // Writing into a string cannot fail.
        let _written = writeln!(out, "{text}");
    };
    line(format!("  Queries sent:         {}", total.sent));
    line(format!("  Queries completed:    {} ({:.2}%)", total.answered, share(total.answered, total.sent)));
    line(format!("  Queries lost:         {} ({:.2}%)", total.timed_out, share(total.timed_out, total.sent)));
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
        each(total.octets_sent, total.sent),
        each(total.octets_received, total.arrived)
    ));
    line(format!("  Run time (s):         {seconds:.6}"));
    line(format!("  Queries per second:   {:.6}", total.answered as f64 / seconds.max(1e-9)));
    line(String::new());
    line(format!(
        "  Average Latency (s):  {} (min {}, max {})",
        s(mean),
        s(total.service.min() as f64),
        s(total.service.max() as f64)
    ));
    if total.answered > 1 {
        line(format!("  Latency StdDev (s):   {}", s(deviation)));
        line("  Latency bucket (s):   answer count".into());
        for [min, max, count] in super::folder::metrics::buckets_us(&total.service) {
            let us = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
            line(format!("  {} - {}:  {count}", us(min), us(max)));
        }
    }
    line(String::new());
    out
}
