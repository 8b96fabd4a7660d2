//! Output of dnsperf: statistics, the rates of `-S`, and the optional histogram. Also the output of resperf, which has
//! the same lines without latency.

use crate::{Distribution, Manifest, Row, Run};
use std::collections::BTreeMap;
use std::str::FromStr;

pub(super) fn read(text: &str, label: String) -> Result<Run, String> {
    let after = |mark: &str| text.lines().find_map(|line| line.trim().strip_prefix(mark).map(str::trim));
    let value = |mark: &str| after(mark).and_then(|rest| rest.split_whitespace().next());
    // Updates have the same lines under another name.
    let count = |what: &str| {
        let line = ["Queries", "Updates"].into_iter().find_map(|kind| value(&format!("{kind} {what}:")));
        line.map(parse::<u64>).transpose().map(Option::unwrap_or_default)
    };
    let seconds = parse::<f64>(value("Run time (s):").ok_or("the line with the run time is missing")?)?;
    let maximum = after("Maximum throughput:");
    let program = if maximum.is_some() { "resperf" } else { "dnsperf" };
    let (latency, mean) = (histogram(text)?, value("Average Latency (s):").unwrap_or_default());
    let total = Row {
        span_seconds: seconds,
        sent: count("sent")?,
        answered: count("completed")?,
        arrived: count("completed")?,
        timed_out: count("lost")?,
        interrupted: count("interrupted")?,
        mismatched: value("Unexpected IDs:").map(parse).transpose()?.unwrap_or_default(),
        rcodes: rcodes(after("Response codes:").unwrap_or_default())?,
        latency,
        ..Row::default()
    };
    let version = after("Version").unwrap_or_default().to_owned();
    let command = after("[Status] Command line:").unwrap_or_default();
    let manifest = Manifest {
        command: command.split_whitespace().map(str::to_owned).collect(),
        version: version.clone(),
        ..Manifest::default()
    };
    let mut notes = vec![match maximum {
        // resperf raises its rate from zero until the server drops queries.
        Some(maximum) => format!(
            "resperf raises its rate during the run: counts and rates cover the whole ramp and cannot be compared with \
             a run at one rate. The maximum throughput was {maximum}; there is no latency"
        ),
        None => "dnsperf measures latency from the actual send time and leaves out queries without an answer".into(),
    }];
    // Written by `catlab load --dnsperf-text`.
    if let Some(reasons) = after("[Status] INVALID:") {
        notes.insert(0, format!("INVALID: {reasons}"));
    }
    if total.latency.is_empty() && maximum.is_none() {
        notes.push(format!("its mean latency is {mean} s; without its histogram there are no percentiles"));
    }
    let rates = rates(text);
    let mut recording = super::recording::recording(0, 0.0);
    if rates.is_empty() {
        recording.rows = vec![total.clone()];
    } else {
        recording.rows = rates;
        notes.push("rates are of the time in which answers came".into());
    }
    let origin = format!("{program} {version}").trim().to_owned();
    Ok(Run { label, origin, summary: None, manifest: Some(manifest), total, recording, notes })
}

fn parse<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

/// Parses `NOERROR 900 (90.00%), NXDOMAIN 100 (10.00%)`.
fn rcodes(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let parts = text.split(", ").filter_map(|part| part.split_once(' '));
    parts.map(|(name, rest)| Ok((name.to_owned(), parse(rest.split(' ').next().unwrap_or_default())?))).collect()
}

/// Parses `  0.002368 - 0.002431:  1`: inclusive bounds in seconds. Only the first of two histograms is of answers.
fn histogram(text: &str) -> Result<Distribution, String> {
    let lines = text.lines().skip_while(|line| !line.trim().starts_with("Latency bucket (s):")).skip(1);
    let mut entries = Vec::new();
    for line in lines.take_while(|line| line.contains(" - ")) {
        let (_, rest) = line.split_once(" - ").unwrap_or_default();
        let (max, count) = rest.split_once(':').ok_or_else(|| format!("{line}: no bucket of a histogram"))?;
        entries.push(((parse::<f64>(max.trim())? * 1e9).round() as u64, parse(count.trim())?));
    }
    Ok(Distribution::of(entries))
}

/// Parses lines of `-S`, such as `1675865567.760972: 28659.000000`: the time, and answers per second since the last
/// line.
fn rates(text: &str) -> Vec<Row> {
    let lines = text.lines().filter_map(|line| {
        let (at, rate) = line.split_once(": ")?;
        Some((at.parse::<f64>().ok()?, rate.parse::<f64>().ok()?))
    });
    let lines: Vec<_> = lines.collect();
    // The length of the first interval is not printed, and equals that of the others.
    let [(first, _), (second, _), ..] = lines[..] else { return Vec::new() };
    let mut before = first - (second - first);
    let start = before;
    let mut rows = Vec::new();
    for (at, rate) in lines {
        let count = (rate * (at - before)).round() as u64;
        let row = Row { answered: count, arrived: count, ..Row::default() };
        rows.push(Row { start_seconds: before - start, span_seconds: at - before, ..row });
        before = at;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of dnsperf 2.14. Version 2.10 of Debian has the same lines without a histogram.
    const RUN: &str = include_str!("../../testdata/dnsperf-2.14.txt");

    #[test]
    fn statistics_rates_and_histogram_are_read() {
        let run = read(RUN, "old".into()).unwrap();
        let total = &run.total;
        assert_eq!((total.sent, total.answered, total.timed_out, total.mismatched), (190, 180, 10, 2));
        assert_eq!((total.rcodes["NOERROR"], total.rcodes["NXDOMAIN"]), (170, 10));
        assert_eq!((total.latency.n(), total.latency.quantile(0.5), total.latency.max()), (180, 131_000, 2_431_000));
        let rows: Vec<_> =
            run.recording.rows.iter().map(|row| (row.start_seconds, row.span_seconds, row.answered)).collect();
        assert_eq!(rows, [(0.0, 1.0, 100), (1.0, 1.0, 50), (2.0, 1.5, 30)]);
        assert_eq!((run.origin.as_str(), run.manifest.unwrap().command[0].as_str()), ("dnsperf 2.14.0", "dnsperf"));
    }

    #[test]
    fn without_a_histogram_there_are_no_percentiles() {
        let text: Vec<_> = RUN.lines().filter(|line| !line.contains(" - ") && !line.contains("bucket")).collect();
        let run = read(&text.join("\n"), "old".into()).unwrap();
        assert!(run.total.latency.is_empty() && run.notes.iter().any(|note| note.contains("no percentiles")));
    }

    #[test]
    fn resperf_is_no_dnsperf() {
        let text = "DNS Resolution Performance Testing Tool\nVersion 2.14.0\n\n[Status] Testing complete\n\n\
                    Statistics:\n\n  Queries sent:         37823\n  Queries completed:    37523\n  \
                    Queries lost:         300\n  Response codes:       NOERROR 37523 (100.00%)\n  \
                    Reconnection(s):      0\n  Run time (s):         27.7\n  \
                    Maximum throughput:   2000.000000 qps\n  Lost at that point:   0.00%\n";
        let run = read(text, "ramp".into()).unwrap();
        assert_eq!((run.origin.as_str(), run.total.sent, run.total.timed_out), ("resperf 2.14.0", 37_823, 300));
        assert!(run.notes.len() == 1 && run.notes[0].contains("2000.000000 qps"), "{:?}", run.notes);
    }

    #[test]
    fn truncated_output_is_refused() {
        let cut = &RUN[..RUN.find("Run time").unwrap()];
        assert_eq!(read(cut, String::new()).unwrap_err(), "the line with the run time is missing");
        assert!(read(&RUN.replace("sent:         190", "sent:         x"), String::new()).is_err());
    }
}
