//! Tables above the charts: results, verdicts, and how each run was made.

use super::figure::{colour, duration_text, escape};
use super::intervals::Interval;
use crate::{Client, Manifest, Quantiles, Run, TransportSummary, monitor_figures};
use std::fmt::Write;
use std::time::Duration;

/// Maximum number of listed seconds per run.
const NOTABLE_INTERVALS_MAX: usize = 20;
/// A second is listed if its p99 is this many times the median of all seconds.
const STANDING_OUT_TIMES: u64 = 10;

/// A warning for each invalid run.
pub(super) fn warnings(runs: &[Run]) -> String {
    let invalid = runs.iter().filter(|run| run.is_invalid());
    let warning = |run: &Run| {
        let reasons: Vec<_> = run.reasons_invalid().iter().map(|reason| escape(reason)).collect();
        format!("<p class=\"warning\"><b>INVALID: {}</b> {}</p>\n", escape(&run.label), reasons.join("; "))
    };
    invalid.map(warning).collect()
}

/// Results, with a column for each run.
pub(super) fn figures(runs: &[Run]) -> String {
    let mut out = head_of_figures(runs);
    let figures: Vec<_> = runs.iter().map(|run| (run, run.figures())).collect();
    let mut group = |title: &str, rows: &[(&str, &Cell)]| {
        let rows: Vec<_> = rows
            .iter()
            .map(|(label, cell)| (*label, figures.iter().map(|(run, figures)| cell(run, figures)).collect::<Vec<_>>()))
            .filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty()))
            .collect();
        if rows.is_empty() {
            return;
        }
        append(&mut out, &format!("<tr class=\"group\"><th colspan=\"{}\">{title}</th></tr>\n", figures.len() + 1));
        for (label, cells) in rows {
            let cells: String =
                cells.iter().map(|cell| format!("<td>{}</td>", if cell.is_empty() { "–" } else { cell })).collect();
            append(&mut out, &format!("<tr><th scope=\"row\">{label}</th>{cells}</tr>\n"));
        }
    };
    group("Verdict", &[("validity", &validity), ("limit set by", &limit)]);
    group(
        "Rate",
        &[
            ("duration", &|run, _| format!("{:.1} s", run.duration_seconds())),
            ("offered", &|run, _| format!("{} /s", number(run.offered_rate()))),
            ("achieved, right answers", &|run, _| format!("{} /s", number(run.achieved_rate()))),
            ("achieved, over time", &|run, _| run.seconds().describe_rate_trend()),
            ("p99 of the latency, over time", &|run, _| run.seconds().describe_p99_trend()),
            ("size of the responses", &|run, _| run.seconds().describe_responses()),
        ],
    );
    group(
        "Outcome",
        &[
            ("sent", &|_, all| grouped(all.sent)),
            ("answered", &|_, all| share(all.answered, all.sent)),
            ("timed out", &|_, all| share(all.timed_out, all.sent)),
            ("late", &|_, all| count_or_empty(all.late)),
            ("duplicate", &|_, all| count_or_empty(all.duplicate)),
            ("mismatched", &|_, all| count_or_empty(all.mismatched)),
            ("stray", &|_, all| count_or_empty(all.stray)),
            ("from another address", &|_, all| count_or_empty(all.other_address)),
            ("unexpected RCODE", &|_, all| count_or_empty(all.unexpected)),
            ("answers checked", &|_, all| count_or_empty(all.checked.checked)),
            ("wrong answers", &|_, all| wrong(all)),
            ("truncated", &|_, all| truncated(all)),
            ("connection lost", &|_, all| count_or_empty(all.connection_lost)),
            ("interrupted", &|_, all| count_or_empty(all.interrupted)),
            ("RCODEs", &|_, all| rcodes(all)),
        ],
    );
    group("Server", &[("memory", &|run, _| memory(run))]);
    group(
        "Clients",
        &[
            ("clients", &|run, _| count_or_empty(run.recording.clients.len() as u64)),
            ("never answered", &|run, _| never_answered(&run.recording.clients)),
            ("longest wait for an answer", &|run, _| longest_gap(&run.recording.clients)),
        ],
    );
    out.push_str(END);
    out
}

fn head_of_figures(runs: &[Run]) -> String {
    let cell = |(index, run)| format!("<th scope=\"col\">{}</th>", label(index, run));
    let cells: String = runs.iter().enumerate().map(cell).collect();
    format!("<div class=\"wide\"><table class=\"figures\">\n<thead><tr><th></th>{cells}</tr></thead>\n<tbody>\n")
}

/// Memory of each monitored process and control group.
fn memory(run: &Run) -> String {
    let figures = monitor_figures::all(&run.recording, run.duration_seconds());
    let described = figures.values().map(|figures| (&figures.source, figures.describe_memory()));
    let parts = described.filter(|(_, memory)| !memory.is_empty());
    parts.map(|(source, memory)| format!("{}: {memory}", escape(source))).collect::<Vec<_>>().join("<br>")
}

/// Truncated answers, as a share of all answers.
fn truncated(all: &TransportSummary) -> String {
    if all.truncated == 0 { String::new() } else { share(all.truncated, all.answered) }
}

fn never_answered(clients: &[Client]) -> String {
    count_or_empty(clients.iter().filter(|client| client.sent > 0 && client.answered == 0).count() as u64)
}

/// Empty for runs without clients, or of versions that did not record it.
fn longest_gap(clients: &[Client]) -> String {
    let longest_s = clients.iter().map(|client| client.longest_gap_s).fold(0.0, f64::max);
    if longest_s > 0.0 { microseconds(longest_s * 1e6) } else { String::new() }
}

type Cell = dyn Fn(&Run, &TransportSummary) -> String;

/// Quantiles of latency, service time and send lag, with a row for each run.
pub(super) fn times(runs: &[Run]) -> String {
    let columns = ["", "run", "min", "p5", "q1", "p50", "q3", "p90", "p95", "p99", "p99.9", "p99.99", "max", "mean"];
    let mut out = head("lines numbers", &columns);
    for (title, quantiles) in TIMES {
        for (index, run) in runs.iter().enumerate() {
            let found = quantiles(&run.figures());
            if found.n == 0 {
                continue;
            }
            append(
                &mut out,
                &format!("<tr><th scope=\"row\">{title}</th><td>{}</td>{}</tr>\n", label(index, run), times_of(&found)),
            );
        }
    }
    out.push_str(END);
    out.push_str(
        "<p>Latency counts from the planned time of a query, service time from its real sending. Queries without an \
         answer count with the timeout. The send lag shows how late the tool sent.</p>\n",
    );
    out
}

/// The cells of one row. Older runs lack some values.
fn times_of(quantiles: &Quantiles) -> String {
    let Quantiles { min, q1, p50, q3, p90, p99, p99_9, p99_99, max, mean, p5, p95, .. } = *quantiles;
    let known = [Some(min), p5, Some(q1), Some(p50), Some(q3), Some(p90), p95, Some(p99), Some(p99_9), Some(p99_99)];
    let cells = known.into_iter().chain([Some(max), mean]);
    cells.map(|us| format!("<td>{}</td>", us.map_or_else(|| "–".to_owned(), microseconds))).collect()
}

/// The end of every table.
pub(super) const END: &str = "</tbody></table></div>\n";

/// The beginning of a table with these columns.
pub(super) fn head(class: &str, columns: &[&str]) -> String {
    let cells: String = columns.iter().map(|column| format!("<th>{column}</th>")).collect();
    format!("<div class=\"wide\"><table class=\"{class}\"><thead><tr>{cells}</tr></thead><tbody>\n")
}

fn label(index: usize, run: &Run) -> String {
    format!("<i class=\"chip\" style=\"background:{}\"></i>{}", colour(index), escape(&run.label))
}

fn microseconds(us: f64) -> String {
    crate::duration(Duration::from_secs_f64(us / 1e6))
}

type Times = fn(&TransportSummary) -> Quantiles;

const TIMES: [(&str, Times); 3] =
    [("latency", |all| all.latency_us), ("service time", |all| all.service_us), ("send lag", |all| all.send_lag_us)];

/// Seconds with losses, errors or high latency.
pub(super) fn notable_intervals(runs: &[Run], intervals: &[Vec<Interval>]) -> String {
    let mut rows = String::new();
    let mut more = String::new();
    for (run, intervals) in runs.iter().zip(intervals) {
        let mut p99s: Vec<_> = intervals
            .iter()
            .filter(|interval| !interval.row.latency.is_empty())
            .map(|interval| interval.row.latency.quantile(0.99))
            .collect();
        p99s.sort_unstable();
        let middle = p99s.get(p99s.len() / 2).copied().unwrap_or_default();
        let found: Vec<_> = intervals
            .iter()
            .filter(|Interval { row }| {
                row.timed_out + row.late + row.connection_lost + row.checked.wrong() > 0
                    || (row.latency.quantile(0.99) > middle.saturating_mul(STANDING_OUT_TIMES) && middle > 0)
            })
            .collect();
        for Interval { row } in found.iter().take(NOTABLE_INTERVALS_MAX) {
            let from = row.start_seconds;
            let to = from + row.span_seconds;
            let events: Vec<_> = run
                .recording
                .events
                .iter()
                .filter(|event| (from..to).contains(&event.at))
                .map(|event| escape(&event.text))
                .collect();
            let latency = |quantile| {
                if row.latency.is_empty() { "–".to_owned() } else { duration_text(row.latency.quantile(quantile)) }
            };
            let cells = [
                escape(&run.label),
                format!("{from:.0} to {to:.0} s"),
                grouped(row.sent),
                share(row.timed_out, row.sent),
                grouped(row.late),
                latency(0.5),
                latency(0.99),
                latency(1.0),
                events.join("; "),
            ];
            let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
            append(&mut rows, &format!("<tr>{cells}</tr>\n"));
        }
        if found.len() > NOTABLE_INTERVALS_MAX {
            append(
                &mut more,
                &format!("<p>{}: {} more.</p>\n", escape(&run.label), found.len() - NOTABLE_INTERVALS_MAX),
            );
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let columns = ["run", "second", "sent", "timed out", "late", "p50", "p99", "max", "events"];
    format!(
        "<h2 id=\"seconds\">Seconds that stand out</h2>\n<p>Seconds with timeouts, late or wrong answers, or lost \
         connections, or with a p99 of more than {STANDING_OUT_TIMES} times that of the middle \
         second.</p>\n{}{rows}{END}{more}",
        head("lines", &columns)
    )
}

/// The table of numbered events.
pub(super) fn events(runs: &[Run]) -> String {
    if runs.iter().all(|run| run.recording.events.is_empty()) {
        return String::new();
    }
    let mut out = String::from("<h2 id=\"events\">Events</h2>\n") + &head("lines", &["", "run", "at", "kind", "what"]);
    for (index, run) in runs.iter().enumerate() {
        for (number, event) in (1..).zip(&run.recording.events) {
            append(
                &mut out,
                &format!(
                    "<tr><td>{number}</td><td>{}</td><td>{:.3} s</td><td>{}</td><td>{}</td></tr>\n",
                    label(index, run),
                    event.at,
                    escape(&event.kind),
                    escape(&event.text)
                ),
            );
        }
    }
    out.push_str(END);
    out
}

fn machine(manifest: &Manifest) -> String {
    let Manifest { host, kernel, cpu, cpu_count, memory_bytes, .. } = manifest;
    let memory = match memory_bytes {
        // Runs of versions that did not record it.
        0 => String::new(),
        bytes => format!(", {:.1} GB of memory", *bytes as f64 / 1e9),
    };
    format!("{host}, Linux {kernel}, {cpu_count} cores of {cpu}{memory}")
}

/// How each run was made, and the evidence for its verdict.
pub(super) fn provenance(runs: &[Run]) -> String {
    let mut out = String::from("<h2 id=\"runs\">Runs</h2>\n");
    for (index, run) in runs.iter().enumerate() {
        append(
            &mut out,
            &format!(
                "<section class=\"run\"><h3><i class=\"chip\" style=\"background:{}\"></i>{}</h3>\n<dl>\n",
                colour(index),
                escape(&run.label)
            ),
        );
        let mut item = |term: &str, text: &str| {
            if !text.is_empty() {
                append(&mut out, &format!("<dt>{term}</dt><dd>{text}</dd>\n"));
            }
        };
        if let Some(summary) = &run.summary {
            let side = summary.limit.side.label();
            let list: String = summary.limit.evidence.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
            item("limit", &format!("{side}; evidence:<ul>{list}</ul>"));
            item("hosts", &escape(&summary.hosts.join(", ")));
        }
        item("measured by", &escape(&run.origin));
        if let Some(manifest) = &run.manifest {
            item("command", &format!("<code>{}</code>", escape(&command(&manifest.command))));
            item("version", &escape(&manifest.version));
            if manifest.started > 0.0 {
                item(
                    "began",
                    &format!("<time data-unix=\"{0:.3}\">{0:.3} s after 1970 began</time>", manifest.started),
                );
            }
            if run.summary.is_some() {
                if manifest.merged.is_empty() {
                    item("seed", &manifest.seed.to_string());
                }
                item("machine", &escape(&machine(manifest)));
            }
            for part in &manifest.merged {
                let command = escape(&command(&part.command));
                item("made of", &format!("<code>{command}</code>, seed {}, on {}", part.seed, escape(&machine(part))));
            }
        }
        for note in &run.notes {
            item("mind", &escape(note));
        }
        out.push_str("</dl></section>\n");
    }
    out
}

fn validity(run: &Run, _: &TransportSummary) -> String {
    match &run.summary {
        Some(summary) if summary.validity.valid => "valid".into(),
        Some(summary) => format!("<b class=\"bad\">INVALID</b> {}", escape(&summary.validity.reasons.join("; "))),
        None => "not judged".into(),
    }
}

fn limit(run: &Run, _: &TransportSummary) -> String {
    run.summary.as_ref().map_or_else(String::new, |summary| summary.limit.side.label().into())
}

/// A command line, quoted for a shell.
fn command(arguments: &[String]) -> String {
    let is_plain = |argument: &str| {
        !argument.is_empty()
            && argument.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_./:=,@%+".contains(letter))
    };
    let quoted = |argument: &String| {
        if is_plain(argument) { argument.clone() } else { format!("'{}'", argument.replace('\'', "'\\''")) }
    };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

pub(super) fn time(quantiles: &Quantiles, value: fn(&Quantiles) -> f64) -> String {
    if quantiles.n == 0 { String::new() } else { microseconds(value(quantiles)) }
}

fn wrong(all: &TransportSummary) -> String {
    match all.checked.wrong() {
        0 => String::new(),
        count => format!("<b class=\"bad\">{}</b> {}", share(count, all.checked.checked), all.checked.describe()),
    }
}

fn rcodes(all: &TransportSummary) -> String {
    let answered = all.answered.max(1) as f64;
    let parts: Vec<_> = all
        .rcodes
        .iter()
        .map(|(rcode, &count)| {
            format!("{} {} ({:.2} %)", escape(rcode), grouped(count), 100.0 * count as f64 / answered)
        })
        .collect();
    parts.join("<br>")
}

pub(super) fn share(count: u64, of: u64) -> String {
    if of == 0 { grouped(count) } else { format!("{} ({:.3} %)", grouped(count), 100.0 * count as f64 / of as f64) }
}

fn count_or_empty(count: u64) -> String {
    if count == 0 { String::new() } else { grouped(count) }
}

/// Formats digits in groups of three.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

fn number(value: f64) -> String {
    format!("{}.{}", grouped(value.max(0.0) as u64), (value.max(0.0).fract() * 10.0) as u64)
}

pub(super) fn append(out: &mut String, text: &str) {
    // Writing into a string cannot fail.
    let _written = out.write_str(text);
}
