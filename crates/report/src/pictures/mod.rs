//! Single charts for papers and READMEs: black on white, without scripts, as SVG or PNG.

// Axes, legend, title.
mod chart;
// File formats.
mod image_format;
// Bitmaps.
mod bitmap;
// Shared parts of charts.
mod common;
// Charts of monitored values.
mod clients;
mod connections;
mod server;
// Arbitrary values.
mod curves;
// Shares around faults.
mod faults;
// Figures by a parameter, and over time.
mod parameters;
mod time;

use super::{Distribution, Row, Run, palette};
use chart::{Chart, Colour, Scale};
use common::{CURVE_POINTS_MAX, end, steps, titled};
pub use curves::{Curve, HorizontalAxis, cumulative, turns};
pub use faults::{FaultCurve, write_fault_chart};
pub use image_format::ImageFormat;
pub use parameters::{ParameterChart, ParameterLine};
use std::path::Path;
pub use time::{TimeChart, TimeLine};

/// Steps per decade of the percentile plot.
const PERCENTILE_STEPS: f64 = 24.0;
/// Rows per decade of the heat map.
const HEAT_STEPS: f64 = 12.0;

/// A chart with a file name and a format.
pub struct Picture {
    chart: Chart,
    format: ImageFormat,
    /// Name of the picture's file.
    pub file_name: String,
}

impl Picture {
    /// Returns the contents of the picture's file.
    ///
    /// # Errors
    /// The picture cannot be drawn.
    pub fn draw(&self) -> Result<Vec<u8>, String> {
        self.chart.draw(self.format).map_err(|error| format!("cannot draw {}: {error}", self.file_name))
    }
}

/// Returns all pictures of these runs.
#[must_use]
pub fn all(runs: &[Run], format: ImageFormat) -> Vec<Picture> {
    let mut pictures = Vec::new();
    let mut add = |name: String, chart: Option<Chart>| {
        let file_name = format!("{name}.{}", format.extension());
        pictures.extend(chart.map(|chart| Picture { chart, format, file_name }));
    };
    add("percentiles".into(), percentiles(runs));
    add("cdf".into(), cumulative_latency(runs));
    add("losses".into(), losses(runs));
    add("send-lag".into(), send_lag(runs));
    add("connections".into(), connections::open(runs));
    add("handshakes".into(), connections::handshakes(runs));
    add("server-cpu".into(), server::processor(runs));
    add("server-memory".into(), server::memory(runs));
    add("client-rates".into(), clients::rates(runs));
    add("client-shares".into(), clients::shares(runs));
    add("client-latency".into(), clients::latencies(runs));
    let frame = Frame::of(runs);
    for (index, run) in runs.iter().enumerate() {
        let name = |kind: &str| if runs.len() == 1 { kind.to_owned() } else { format!("{kind}-{}", index + 1) };
        add(name("seconds"), boxes(run, index, &frame));
        add(name("heat"), heat(run, &frame));
        add(name("answers"), answers(run, &frame));
    }
    pictures
}

/// Draws the latency of several named runs at every percentile, as an SVG.
///
/// # Errors
/// If the chart cannot be drawn or written, or there is nothing to draw.
pub fn latencies(path: &Path, title: &str, lines: &[(&str, &Distribution)]) -> Result<(), String> {
    let error_text = |reason: String| format!("{}: {reason}", path.display());
    let chart = by_percentile(Chart::new(title, ""), lines).ok_or_else(|| error_text("no latencies".into()))?;
    let bytes = chart.draw(ImageFormat::Svg).map_err(|error| error_text(error.to_string()))?;
    std::fs::write(path, bytes).map_err(|error| error_text(error.to_string()))
}

fn percentiles(runs: &[Run]) -> Option<Chart> {
    let lines: Vec<_> = runs.iter().map(|run| (run.label.as_str(), &run.total.latency)).collect();
    by_percentile(titled("Latency by percentile", runs), &lines)
}

fn by_percentile(mut chart: Chart, lines: &[(&str, &Distribution)]) -> Option<Chart> {
    let (low, high, n) = extent(lines.iter().map(|(_, latency)| *latency))?;
    let mut ticks = vec![(1.0, "min".to_owned()), (2.0, "50 %".into()), (10.0, "90 %".into()), (100.0, "99 %".into())];
    ticks.extend((3..12).map(|decade: usize| (10f64.powi(decade as i32), format!("99.{} %", "9".repeat(decade - 2)))));
    chart.x = Scale::logarithmic(1.0, n.max(10.0), "share that was as fast or faster", ticks);
    chart.y = Scale::times(low, high, "latency");
    for (index, (name, latency)) in lines.iter().enumerate().filter(|(_, (_, latency))| !latency.is_empty()) {
        let n = latency.n() as f64;
        let steps = (n.log10() * PERCENTILE_STEPS).ceil() as u32;
        let x = (0..=steps).map(|step| 10f64.powf(f64::from(step) / PERCENTILE_STEPS).min(n));
        let points = x.map(|x| (x, seconds(latency.quantile(1.0 - 1.0 / x)))).collect();
        chart.line(name, points, Colour::of(index));
    }
    Some(chart)
}

fn cumulative_latency(runs: &[Run]) -> Option<Chart> {
    let (low, high, _) = extent(runs.iter().map(|run| &run.total.latency))?;
    let mut chart = titled("Cumulative distribution of latency", runs);
    chart.x = Scale::times(low, high, "latency");
    let ticks = (0..=10).map(|tenth| (f64::from(tenth) / 10.0, format!("{} %", 10 * tenth))).collect();
    chart.y = Scale::linear(0.0, 1.0, "share of queries", Some(ticks));
    for (index, run) in runs.iter().enumerate() {
        let mut seen = 0;
        let points: Vec<_> = run
            .total
            .latency
            .entries()
            .iter()
            .map(|&(value, count)| {
                seen += count;
                (seconds(value), seen as f64 / run.total.latency.n() as f64)
            })
            .collect();
        let step = points.len().div_ceil(CURVE_POINTS_MAX).max(1);
        let last = points.last().copied();
        chart.line(&run.label, points.into_iter().step_by(step).chain(last).collect(), Colour::of(index));
    }
    Some(chart)
}

fn losses(runs: &[Run]) -> Option<Chart> {
    let rows: Vec<_> = runs.iter().map(steps).collect();
    let most = rows.iter().flatten().map(|row| row.timed_out).max().unwrap_or_default();
    if most == 0 {
        return None;
    }
    let mut chart = titled("Timeouts, in the second of their query", runs);
    chart.x = Scale::time(end(&rows));
    chart.y = Scale::linear(0.0, most as f64 * 1.05, "queries without an answer", None);
    for (index, (run, rows)) in runs.iter().zip(&rows).enumerate() {
        let corners = rows.iter().flat_map(|row| {
            let (from, to) = (row.start_seconds, row.start_seconds + row.span_seconds);
            [(from, row.timed_out as f64), (to, row.timed_out as f64)]
        });
        chart.line(&run.label, corners.collect(), Colour::of(index));
    }
    chart.events(runs);
    Some(chart)
}

fn send_lag(runs: &[Run]) -> Option<Chart> {
    let rows: Vec<_> = runs.iter().map(steps).collect();
    let (low, high, _) = extent(rows.iter().flatten().map(|row| &row.send_lag))?;
    let mut chart = titled("Send lag: p99 (thick) and largest of each second", runs);
    chart.x = Scale::time(end(&rows));
    chart.y = Scale::times(low.max(1e-8), high, "send lag");
    for (index, (run, rows)) in runs.iter().zip(&rows).enumerate() {
        let at = |quantile: f64| -> Vec<(f64, f64)> {
            let timed = rows.iter().filter(|row| !row.send_lag.is_empty());
            timed.map(|row| (middle(row), seconds(row.send_lag.quantile(quantile)).max(1e-8))).collect()
        };
        chart.line(&run.label, at(0.99), Colour::of(index));
        chart.line("", at(1.0), Colour::of(index).thin());
    }
    chart.events(runs);
    Some(chart)
}

/// Axis ranges that the pictures of all runs share.
struct Frame {
    is_alone: bool,
    end: f64,
    /// Lowest and highest latency in seconds.
    latency: Option<(f64, f64)>,
    /// Most queries in a cell of the heat map.
    most: f64,
    /// Highest rate of queries.
    rate: f64,
}

impl Frame {
    fn of(runs: &[Run]) -> Self {
        let rows: Vec<_> = runs.iter().map(steps).collect();
        let all = || rows.iter().flatten();
        let most = all().flat_map(cells).map(|(_, count)| count).max().unwrap_or(1).max(2) as f64;
        Self {
            is_alone: runs.len() == 1,
            end: end(&rows),
            latency: extent(all().map(|row| &row.latency)).map(|(low, high, _)| (low, high)),
            most,
            rate: all().map(|row| rate(row, row.sent.max(row.answered))).fold(0.0, f64::max),
        }
    }

    /// An empty picture of one run. Its time axis covers the longest run.
    fn chart(&self, name: &str, run: &Run) -> Chart {
        let name = if self.is_alone { name.to_owned() } else { format!("{name}: {}", run.label) };
        let mut chart = titled(&name, std::slice::from_ref(run));
        chart.x = Scale::time(self.end);
        chart
    }
}

/// Queries of a second by latency: the index and the count of each bin.
fn cells(row: &Row) -> Vec<(i64, u64)> {
    let bin = |ns: u64| (seconds(ns).log10() * HEAT_STEPS).floor() as i64 as u64;
    let binned = Distribution::of(row.latency.entries().iter().map(|&(value, count)| (bin(value), count)));
    binned.entries().iter().map(|&(bin, count)| (bin as i64, count)).collect()
}

fn rate(row: &Row, count: u64) -> f64 {
    count as f64 / row.span_seconds.max(1e-9)
}

fn boxes(run: &Run, index: usize, frame: &Frame) -> Option<Chart> {
    let rows = steps(run);
    let _measured = extent(rows.iter().map(|row| &row.latency))?;
    let (low, high) = frame.latency?;
    let one = std::slice::from_ref(run);
    let mut chart = frame.chart("Latency of each second: smallest, quartiles, largest", run);
    chart.y = Scale::times(low, high, "latency");
    let colour = Colour::of(index);
    for row in rows.iter().filter(|row| !row.latency.is_empty()) {
        let at = |quantile| seconds(row.latency.quantile(quantile));
        let (x, half) = (middle(row), row.span_seconds * 0.32);
        chart.line("", vec![(x, at(0.0)), (x, at(0.25))], colour.thin());
        chart.line("", vec![(x, at(0.75)), (x, at(1.0))], colour.thin());
        for quantile in [0.0, 1.0] {
            chart.line("", vec![(x - half / 2.0, at(quantile)), (x + half / 2.0, at(quantile))], colour.thin());
        }
        chart.area((x - half, at(0.25)), (x + half, at(0.75)), colour.pale());
        chart.line("", vec![(x - half, at(0.5)), (x + half, at(0.5))], colour);
    }
    chart.events(one);
    Some(chart)
}

fn heat(run: &Run, frame: &Frame) -> Option<Chart> {
    let rows = steps(run);
    let _measured = extent(rows.iter().map(|row| &row.latency))?;
    let (low, high) = frame.latency?;
    let one = std::slice::from_ref(run);
    let mut chart = frame.chart("Latency over time (darker: more queries)", run);
    chart.y = Scale::times(low, high, "latency");
    for (row, (bin, count)) in rows.iter().flat_map(|row| cells(row).into_iter().map(move |cell| (row, cell))) {
        let edge = |bin: i64| 10f64.powf(bin as f64 / HEAT_STEPS);
        let strength = (count as f64).ln_1p() / frame.most.ln_1p();
        let (from, to) = (row.start_seconds, row.start_seconds + row.span_seconds);
        chart.area((from, edge(bin)), (to, edge(bin + 1)), Colour::heat(strength));
    }
    chart.events(one);
    Some(chart)
}

fn answers(run: &Run, frame: &Frame) -> Option<Chart> {
    let rows = steps(run);
    if rows.iter().all(|row| row.sent.max(row.answered) == 0) {
        return None;
    }
    let one = std::slice::from_ref(run);
    let mut chart = frame.chart("Answers by RCODE", run);
    chart.y = Scale::linear(0.0, frame.rate * 1.05, "queries a second", None);
    let names: Vec<&String> = run.total.rcodes.keys().collect();
    for row in &rows {
        let mut below = 0.0;
        let mut stack = |count: u64, colour: Colour| {
            if count > 0 {
                let above = below + rate(row, count);
                chart.area((row.start_seconds, below), (row.start_seconds + row.span_seconds, above), colour);
                below = above;
            }
        };
        for name in &names {
            stack(row.rcodes.get(*name).copied().unwrap_or_default(), Colour::hex(palette::rcode(name)));
        }
        stack(row.timed_out + row.connection_lost + row.interrupted, Colour::hex(palette::BAD));
    }
    for name in names {
        chart.line(name, Vec::new(), Colour::hex(palette::rcode(name)));
    }
    if run.total.timed_out > 0 {
        chart.line("timed out", Vec::new(), Colour::hex(palette::BAD));
    }
    chart.events(one);
    Some(chart)
}

/// Minimum and maximum in seconds, and the number of values.
fn extent<'a>(distributions: impl Iterator<Item = &'a Distribution>) -> Option<(f64, f64, f64)> {
    distributions.filter(|distribution| !distribution.is_empty()).fold(None, |found, distribution| {
        let (low, high, n) = found.unwrap_or((f64::MAX, 0.0, 0.0));
        let [min, max] = [distribution.min(), distribution.max()].map(seconds);
        Some((f64::min(low, min), f64::max(high, max), f64::max(n, distribution.n() as f64)))
    })
}

fn middle(row: &Row) -> f64 {
    row.start_seconds + row.span_seconds / 2.0
}

/// Converts nanoseconds to seconds. Never zero, for a logarithmic axis.
fn seconds(ns: u64) -> f64 {
    ns.max(1) as f64 / 1e9
}

#[cfg(test)]
mod tests;
