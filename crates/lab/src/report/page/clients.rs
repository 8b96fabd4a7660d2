//! Pictures of a population: each client's rate, share of the load, and latency; measured beside fitted.

use super::figure::{Figure, GREY, colour, dash, line, log_seconds};
use crate::report::{Client, Run};
use serde_json::json;

/// Points of a curve over clients; a population can have many thousands.
const POINTS_MAX: usize = 2_000;

/// Three pictures; nothing for runs without clients.
pub(super) fn all(runs: &[Run]) -> Vec<Figure> {
    if runs.iter().all(|run| run.recording.clients.is_empty()) {
        return Vec::new();
    }
    vec![rates(runs), shares(runs), latencies(runs)]
}

fn rates(runs: &[Run]) -> Figure {
    let mut figure = Figure::new("client-rates", "Rate of each client", &runs.iter().collect::<Vec<_>>()).caption(
        "Clients from the busiest to the quietest, and how many queries each sent a second; thin, what the fitted \
         population foresaw.",
    );
    for (index, run, clients) in populations(runs) {
        let seconds = run.duration_seconds().max(1e-9);
        for (suffix, width, mut rates) in measured_and_fitted(clients) {
            rates.sort_by(|one, other| other.total_cmp(one));
            let points =
                thinned(rates.len()).map(|at| (at as f64 + 1.0, Some(rates[at] / seconds).filter(|rate| *rate > 0.0)));
            let (x, y) = points.unzip();
            let mut trace = line(&format!("{}{suffix}", run.label), x, y, tone(index, suffix, runs), dash(index));
            trace["line"]["width"] = width.into();
            trace["hovertemplate"] = "%{y:.3s}/s".into();
            figure.traces.push(trace);
        }
    }
    let x = json!({ "title": { "text": "client, by rate" }, "type": "log" });
    let y = json!({ "title": { "text": "queries a second" }, "type": "log", "exponentformat": "SI" });
    figure.axes(x, y)
}

fn shares(runs: &[Run]) -> Figure {
    let mut figure = Figure::new("client-shares", "Share of the load", &runs.iter().collect::<Vec<_>>()).caption(
        "Which share of all queries came from the busiest clients; thin, what the fitted population foresaw. The \
         straight line would be clients that are all alike.",
    );
    figure.traces.push(line("all alike", vec![0.0, 1.0], vec![Some(0.0), Some(1.0)], GREY, "dot"));
    for (index, run, clients) in populations(runs) {
        for (suffix, width, mut rates) in measured_and_fitted(clients) {
            rates.sort_by(|one, other| other.total_cmp(one));
            let total: f64 = rates.iter().sum::<f64>().max(1e-9);
            let mut sum = 0.0;
            let sums: Vec<f64> = std::iter::once(0.0)
                .chain(rates.iter().map(|rate| {
                    sum += rate;
                    sum / total
                }))
                .collect();
            let (x, y) = thinned(sums.len()).map(|at| (at as f64 / rates.len() as f64, Some(sums[at]))).unzip();
            let mut trace = line(&format!("{}{suffix}", run.label), x, y, tone(index, suffix, runs), dash(index));
            trace["line"]["width"] = width.into();
            trace["hovertemplate"] = "%{y:.2%}".into();
            figure.traces.push(trace);
        }
    }
    let axis = |title: &str| {
        let range = [0.0, 1.005];
        json!({ "title": { "text": title }, "tickformat": ".0%", "range": range, "hoverformat": ".2%" })
    };
    figure.axes(axis("share of clients, the busiest first"), axis("share of queries"))
}

fn latencies(runs: &[Run]) -> Figure {
    let mut figure = Figure::new("client-latency", "Latency of each client", &runs.iter().collect::<Vec<_>>())
        .caption("Which share of the clients had a median, and a 99th percentile, of no more than that.");
    type Value = fn(&Client) -> f64;
    let values: [(&str, Value, &str); 2] =
        [("p50", |client| client.p50_us, "solid"), ("p99", |client| client.p99_us, "dash")];
    for (index, run, clients) in populations(runs) {
        for (at, (what, value, dash)) in values.into_iter().enumerate() {
            let mut sorted: Vec<f64> =
                clients.iter().map(|client| value(client) / 1e6).filter(|&us| us > 0.0).collect();
            sorted.sort_by(f64::total_cmp);
            let n = sorted.len() as f64;
            let (x, y) = thinned(sorted.len()).map(|at| (sorted[at], Some((at as f64 + 1.0) / n))).unzip();
            let colour = colour(if runs.len() > 1 { index } else { at });
            let mut trace = line(&format!("{} {what}", run.label), x, y, colour, dash);
            trace["hovertemplate"] = "%{y:.2%} within %{x:.3s}s".into();
            figure.traces.push(trace);
        }
    }
    let y = json!({ "title": { "text": "share of clients" }, "tickformat": ".0%", "range": [0.0, 1.005] });
    let mut figure = figure.axes(log_seconds("latency of a client"), y);
    figure.layout["hovermode"] = "closest".into();
    figure
}

fn populations(runs: &[Run]) -> impl Iterator<Item = (usize, &Run, &[Client])> {
    let all = runs.iter().enumerate().map(|(index, run)| (index, run, run.recording.clients.as_slice()));
    all.filter(|(_, _, clients)| !clients.is_empty())
}

/// Queries of each client, and those that were foreseen, if all were.
fn measured_and_fitted(clients: &[Client]) -> Vec<(&'static str, f64, Vec<f64>)> {
    let mut both = vec![("", 2.0, clients.iter().map(|client| client.sent as f64).collect())];
    let fitted: Option<Vec<f64>> = clients.iter().map(|client| client.expected).collect();
    both.extend(fitted.map(|fitted| (" fitted", 1.0, fitted)));
    both
}

/// A fitted curve beside only one measured is told apart by colour.
fn tone(index: usize, suffix: &str, runs: &[Run]) -> &'static str {
    if runs.len() == 1 && !suffix.is_empty() { colour(1) } else { colour(index) }
}

/// Positions that are drawn: all of few, the first ones and every so many of many.
fn thinned(count: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(POINTS_MAX).max(1);
    (0..count).filter(move |at| at % step == 0 || *at < 100 || at + 1 == count)
}
