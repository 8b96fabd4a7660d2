//! Charts of a population: measured and expected rates and shares of the load, and latency of the clients.

use super::chart::{Chart, Colour, Scale};
use super::common::{CURVE_POINTS_MAX, titled};
use crate::{Client, Run, palette};

/// A curve over clients: its name, whether it was measured, and the values in descending order.
type Curve = (String, bool, Vec<f64>);

/// Queries per second of each client, from the busiest to the least busy.
pub(super) fn rates(runs: &[Run]) -> Option<Chart> {
    // Less than a hundredth of a query counts as none, and cannot be drawn on a logarithmic axis.
    let seconds = |run: &Run| run.duration_seconds().max(1e-9);
    let curves = curves(runs, |run, queries| (queries >= 0.01).then(|| queries / seconds(run)));
    let rates = || curves.iter().flat_map(|(_, _, rates)| rates).copied();
    let (low, high) = (rates().reduce(f64::min)?, rates().reduce(f64::max)?);
    let most = curves.iter().map(|(_, _, rates)| rates.len()).max().unwrap_or(1);
    let mut chart = titled("Rate of each client, the busiest first", runs);
    chart.x = Scale::logarithmic(1.0, most.max(10) as f64, "client", decades(0, 9));
    chart.y = Scale::logarithmic(low * 0.8, high * 1.25, "queries a second", decades(-9, 9));
    for (order, (name, is_measured, rates)) in curves.iter().enumerate() {
        let points = sample_positions(rates.len()).map(|at| (at as f64 + 1.0, rates[at])).collect();
        chart.line(name, points, colour(order, *is_measured));
    }
    Some(chart)
}

/// Share of all queries from the busiest clients.
pub(super) fn shares(runs: &[Run]) -> Option<Chart> {
    let curves = curves(runs, |_, queries| Some(queries));
    if curves.is_empty() {
        return None;
    }
    let mut chart = titled("Share of the load", runs);
    chart.x = Scale::linear(0.0, 1.0, "share of clients, the busiest first", percents());
    chart.y = Scale::linear(0.0, 1.0, "share of queries", percents());
    chart.line("all alike", vec![(0.0, 0.0), (1.0, 1.0)], Colour::hex(palette::GREY).thin());
    for (order, (name, is_measured, queries)) in curves.iter().enumerate() {
        let total: f64 = queries.iter().sum::<f64>().max(1e-9);
        let mut sum = 0.0;
        let sums = std::iter::once(0.0).chain(queries.iter().map(|own| {
            sum += own;
            sum / total
        }));
        let sums: Vec<f64> = sums.collect();
        let points = sample_positions(sums.len()).map(|at| (at as f64 / queries.len() as f64, sums[at])).collect();
        chart.line(name, points, colour(order, *is_measured));
    }
    Some(chart)
}

/// Share of the clients whose median and p99 latency are at most this value. A client without any finished query is
/// never included.
pub(super) fn latencies(runs: &[Run]) -> Option<Chart> {
    type Value = fn(&Client) -> f64;
    let values: [(&str, Value); 2] = [("p50", |client| client.p50_us), ("p99", |client| client.p99_us)];
    let mut curves = Vec::new();
    for run in runs {
        for (what, value) in values {
            let name = if runs.len() == 1 { what.to_owned() } else { format!("{} {what}", run.label) };
            curves.push((name, within(&run.recording.clients, value)));
        }
    }
    let known = || curves.iter().flat_map(|(_, points)| points).map(|(seconds, _)| *seconds);
    let (low, high) = (known().reduce(f64::min)?, known().reduce(f64::max)?);
    let mut chart = titled("Latency of each client", runs);
    chart.x = Scale::times(low, high, "latency of a client");
    chart.y = Scale::linear(0.0, 1.0, "share of clients", percents());
    for (order, (name, points)) in curves.into_iter().enumerate() {
        let sampled = sample_positions(points.len()).map(|at| points[at]).collect();
        chart.line(&name, sampled, Colour::of(order));
    }
    Some(chart)
}

/// Latency in seconds, and the share of the clients with at most this value.
pub(super) fn within(clients: &[Client], value: fn(&Client) -> f64) -> Vec<(f64, f64)> {
    let active: Vec<_> = clients.iter().filter(|client| client.sent > 0).collect();
    let known = active.iter().map(|client| value(client) / 1e6).filter(|&seconds| seconds > 0.0);
    let mut known: Vec<f64> = known.collect();
    known.sort_by(f64::total_cmp);
    (1..).zip(known).map(|(rank, seconds)| (seconds, f64::from(rank) / active.len() as f64)).collect()
}

/// Measured values of each run, and expected ones if all clients have them.
fn curves(runs: &[Run], value: impl Fn(&Run, f64) -> Option<f64>) -> Vec<Curve> {
    let mut curves = Vec::new();
    for run in runs.iter().filter(|run| !run.recording.clients.is_empty()) {
        let clients = &run.recording.clients;
        let mut add = |name: String, is_measured: bool, queries: Vec<f64>| {
            let mut values: Vec<f64> = queries.into_iter().filter_map(|queries| value(run, queries)).collect();
            values.sort_by(|one, other| other.total_cmp(one));
            curves.push((name, is_measured, values));
        };
        add(run.label.clone(), true, clients.iter().map(|client| client.sent as f64).collect());
        if let Some(expected) = clients.iter().map(|client| client.expected).collect() {
            add(format!("{} expected", run.label), false, expected);
        }
    }
    curves
}

fn colour(order: usize, is_measured: bool) -> Colour {
    if is_measured { Colour::of(order) } else { Colour::of(order).thin() }
}

fn percents() -> Option<Vec<(f64, String)>> {
    Some((0..=10).map(|tenth| (f64::from(tenth) / 10.0, format!("{} %", 10 * tenth))).collect())
}

fn decades(from: i32, to: i32) -> Vec<(f64, String)> {
    let name = |decade: i32| format!("{:.*}", decade.min(0).unsigned_abs() as usize, 10f64.powi(decade));
    (from..=to).map(|decade| (10f64.powi(decade), name(decade))).collect()
}

/// Positions to draw: all if there are few, otherwise the first ones and a sample.
fn sample_positions(count: usize) -> impl Iterator<Item = usize> {
    let step = count.div_ceil(CURVE_POINTS_MAX).max(1);
    (0..count).filter(move |at| at % step == 0 || *at < 100 || at + 1 == count)
}
