//! Charts of a population: measured and expected rate, share of the load, and latency of each client.

use super::figure::{Figure, GREY, colour, dash, line, log_rates, log_seconds, of_run};
use crate::{Client, Run};
use serde_json::json;

/// Suffix of the name of an expected curve.
const EXPECTED: &str = " expected";
/// Maximum number of points of a curve. A population can have thousands of clients.
const POINTS_MAX: usize = 2_000;

/// Three charts. None for runs without clients.
pub(super) fn all(runs: &[Run]) -> Vec<Figure> {
    if runs.iter().all(|run| run.recording.clients.is_empty()) {
        return Vec::new();
    }
    vec![rates(runs), shares(runs), latencies(runs)]
}

fn rates(runs: &[Run]) -> Figure {
    let mut figure = Figure::new("client-rates", "Rate of each client", &runs.iter().collect::<Vec<_>>()).caption(
        "Queries per second of each client, from the busiest to the quietest. Dotted: the rates of the population \
         file. Clients with few queries deviate by chance. Clients without a query are not shown.",
    );
    let (mut low, mut high) = (f64::MAX, 0.0);
    for (index, run, clients) in populations(runs) {
        let seconds = run.duration_seconds().max(1e-9);
        for (suffix, width, mut rates) in measured_and_expected(clients) {
            rates.sort_by(|one, other| other.total_cmp(one));
            // Less than a hundredth of a query counts as none.
            let rate = |at: usize| Some(rates[at]).filter(|&queries| queries >= 0.01).map(|queries| queries / seconds);
            let points = sample_positions(rates.len()).map(|at| (at as f64 + 1.0, rate(at)));
            let (x, y): (Vec<_>, Vec<_>) = points.unzip();
            for &rate in y.iter().flatten() {
                (low, high) = (f64::min(low, rate), f64::max(high, rate));
            }
            let mut trace =
                line(&format!("{}{suffix}", run.label), x, y, tone(index, suffix, runs), stroke(index, suffix));
            trace["line"]["width"] = width.into();
            trace["hovertemplate"] = "%{y:.3s}/s".into();
            figure.traces.push(trace);
        }
    }
    let x = json!({ "title": { "text": "client, the busiest first" }, "type": "log", "dtick": 1, "tickformat": ",~r" });
    let extent = if low <= high { (low, high) } else { (1.0, 10.0) };
    let y = log_rates("queries a second", extent);
    figure.axes(x, y)
}

fn shares(runs: &[Run]) -> Figure {
    let mut figure = Figure::new("client-shares", "Share of the load", &runs.iter().collect::<Vec<_>>()).caption(
        "Share of all queries that came from the busiest clients. Dotted: the rates of the population file. The \
         straight line stands for equal clients. Clients with few queries differ more than their rates, by chance.",
    );
    let mut alike = line("all alike", vec![0.0, 1.0], vec![Some(0.0), Some(1.0)], GREY, "dot");
    alike["mode"] = "lines".into();
    alike["hoverinfo"] = "skip".into();
    figure.traces.push(alike);
    for (index, run, clients) in populations(runs) {
        for (suffix, width, mut rates) in measured_and_expected(clients) {
            rates.sort_by(|one, other| other.total_cmp(one));
            let total: f64 = rates.iter().sum::<f64>().max(1e-9);
            let mut sum = 0.0;
            let sums: Vec<f64> = std::iter::once(0.0)
                .chain(rates.iter().map(|rate| {
                    sum += rate;
                    sum / total
                }))
                .collect();
            let (x, y) =
                sample_positions(sums.len()).map(|at| (at as f64 / rates.len() as f64, Some(sums[at]))).unzip();
            let mut trace =
                line(&format!("{}{suffix}", run.label), x, y, tone(index, suffix, runs), stroke(index, suffix));
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
    let mut figure = Figure::new("client-latency", "Latency of each client", &runs.iter().collect::<Vec<_>>()).caption(
        "Share of the clients whose median, or 99th percentile, was within a time. Each is taken from at most 64 \
         random queries of the client. Queries without an answer count with the timeout. A curve ends below 100 % if \
         no query of some clients was finished.",
    );
    type Value = fn(&Client) -> f64;
    let values: [(&str, Value, &str); 2] =
        [("p50", |client| client.p50_us, "solid"), ("p99", |client| client.p99_us, "dash")];
    for (index, run, clients) in populations(runs) {
        let n = clients.iter().filter(|client| client.sent > 0).count() as f64;
        for (at, (what, value, dash)) in values.into_iter().enumerate() {
            let mut sorted: Vec<f64> =
                clients.iter().map(|client| value(client) / 1e6).filter(|&us| us > 0.0).collect();
            sorted.sort_by(f64::total_cmp);
            let (x, y) = sample_positions(sorted.len()).map(|at| (sorted[at], Some((at as f64 + 1.0) / n))).unzip();
            let colour = colour(if runs.len() > 1 { index } else { at });
            let mut trace = line(&format!("{} {what}", run.label), x, y, colour, dash);
            trace["hovertemplate"] = "%{y:.2%} within %{x:.3s}s".into();
            if runs.len() > 1 {
                of_run(&mut trace, &run.label, what);
            }
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

/// Measured queries of each client, and expected ones if all clients have them.
fn measured_and_expected(clients: &[Client]) -> Vec<(&'static str, f64, Vec<f64>)> {
    let mut both = vec![("", 2.0, clients.iter().map(|client| client.sent as f64).collect())];
    let expected: Option<Vec<f64>> = clients.iter().map(|client| client.expected).collect();
    both.extend(expected.map(|expected| (EXPECTED, 1.25, expected)));
    both
}

/// With a single run, the expected curve has another colour.
fn tone(index: usize, suffix: &str, runs: &[Run]) -> &'static str {
    if runs.len() == 1 && !suffix.is_empty() { colour(1) } else { colour(index) }
}

/// With several runs, the expected curve has the colour of its run and another stroke.
fn stroke(index: usize, suffix: &str) -> &'static str {
    if suffix == EXPECTED { "dot" } else { dash(index) }
}

/// Positions to draw: all if there are few, otherwise the first ones and a sample.
fn sample_positions(count: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(POINTS_MAX).max(1);
    (0..count).filter(move |at| at % step == 0 || *at < 100 || at + 1 == count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;
    use std::time::{Duration, UNIX_EPOCH};

    /// The curves of p50 and p99: shares of clients by latency.
    fn curves(clients: Vec<Client>) -> Vec<Vec<(f64, f64)>> {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        recording.clients = clients;
        let total = recording.total();
        let (label, origin) = ("one".into(), "catlab load".into());
        let run = Run { label, origin, summary: None, manifest: None, total, recording, notes: Vec::new() };
        let numbers = |value: &serde_json::Value| -> Vec<f64> { serde_json::from_value(value.clone()).unwrap() };
        let figure = latencies(&[run]);
        figure.traces.iter().map(|trace| numbers(&trace["x"]).into_iter().zip(numbers(&trace["y"])).collect()).collect()
    }

    #[test]
    fn clients_without_an_answer_are_included() {
        let client = |client, sent, p50_us, p99_us| Client { client, sent, p50_us, p99_us, ..Client::default() };
        let answered = (0..7).map(|number| client(number, 5, 200.0, 900.0));
        // Two clients with only timeouts, one of them without a finished query, and a client without queries.
        let others = [client(7, 5, 1e6, 1e6), client(8, 5, 1e6, 1e6), client(9, 5, 0.0, 0.0), client(10, 0, 0.0, 0.0)];
        let curves = curves(answered.chain(others).collect());
        let shares = |curve: &[(f64, f64)]| {
            let within =
                |seconds: f64| curve.iter().filter(|(x, _)| *x <= seconds).map(|(_, y)| *y).fold(0.0, f64::max);
            [within(1e-4), within(1e-3), within(0.99), within(1.0)]
        };
        assert_eq!(shares(&curves[0]), [0.0, 0.7, 0.7, 0.9]);
        assert_eq!(shares(&curves[1]), [0.0, 0.7, 0.7, 0.9]);
    }
}
