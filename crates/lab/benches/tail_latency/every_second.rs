//! A CSV file with the latency quantiles of each second of a side.

use report::Run;
use std::fmt::Write;

/// Latency columns, in microseconds from the planned time of a query.
const QUANTILES: [(&str, f64); 5] = [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999), ("max", 1.0)];

/// One row for each whole second of each turn, in order (RFC 4180).
pub(crate) fn csv(runs: &[Run]) -> String {
    let mut out = String::from("turn,second,sent,timed_out");
    // Writing into a string cannot fail.
    QUANTILES.iter().for_each(|(name, _)| _ = write!(out, ",{name}_us"));
    out.push('\n');
    for (turn, run) in runs.iter().enumerate() {
        for row in run.sending() {
            _ = write!(out, "{},{:.0},{},{}", turn + 1, row.start_seconds, row.sent, row.timed_out);
            let latency = |quantile| row.latency.quantile(quantile) as f64 / 1e3;
            QUANTILES.iter().for_each(|&(_, quantile)| _ = write!(out, ",{:.0}", latency(quantile)));
            out.push('\n');
        }
    }
    out
}
