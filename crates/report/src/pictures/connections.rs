//! Charts of open connections and handshake times.

use super::chart::{Chart, Colour, Scale};
use super::common::{end, steps, titled};
use crate::{ConnectionRow, Run};

/// Peak number of open connections in each second, by run and transport.
pub(super) fn open(runs: &[Run]) -> Option<Chart> {
    let most = all(runs).map(|(_, rows)| rows.iter().map(ConnectionRow::most_open).max().unwrap_or_default()).max()?;
    let mut chart = titled("Peak open connections in each second", runs);
    chart.x = time(runs);
    chart.y = Scale::linear(0.0, most.max(1) as f64 * 1.05, "connections", None);
    for (colour, (name, rows)) in all(runs).enumerate() {
        let points = rows.iter().map(|row| (row.at + 0.5, row.most_open() as f64)).collect();
        chart.line(&name, points, Colour::of(colour));
    }
    chart.events(runs);
    Some(chart)
}

/// Median and maximum handshake time in each second.
pub(super) fn handshakes(runs: &[Run]) -> Option<Chart> {
    let seconds = |us: f64| us / 1e6;
    let timed = |rows: &[ConnectionRow]| rows.iter().filter(|row| row.handshake_us.n > 0).cloned().collect::<Vec<_>>();
    let each: Vec<_> = all(runs).map(|(name, rows)| (name, timed(rows))).collect();
    let rows = || each.iter().flat_map(|(_, rows)| rows);
    let high = rows().map(|row| seconds(row.handshake_us.max)).reduce(f64::max)?;
    let low = rows().map(|row| seconds(row.handshake_us.p50)).reduce(f64::min)?;
    let mut chart = titled("Handshakes: median (thick) and longest of each second", runs);
    chart.x = time(runs);
    chart.y = Scale::times(low.max(1e-7), high.max(1e-7), "from first packet to use");
    for (colour, (name, rows)) in each.iter().enumerate() {
        let at =
            |value: fn(&ConnectionRow) -> f64| rows.iter().map(|row| (row.at + 0.5, seconds(value(row)))).collect();
        chart.line(name, at(|row| row.handshake_us.p50), Colour::of(colour));
        chart.line("", at(|row| row.handshake_us.max), Colour::of(colour).thin());
    }
    chart.events(runs);
    Some(chart)
}

/// Each transport with connections of each run, with its name.
fn all(runs: &[Run]) -> impl Iterator<Item = (String, &[ConnectionRow])> {
    let is_alone = runs.len() == 1;
    runs.iter().flat_map(move |run| {
        let with = run.recording.transports.iter().filter(|(_, transport_rows)| !transport_rows.connections.is_empty());
        with.map(move |(transport, transport_rows)| {
            let name = if is_alone { transport.clone() } else { format!("{} {transport}", run.label) };
            (name, transport_rows.connections.as_slice())
        })
    })
}

fn time(runs: &[Run]) -> Scale {
    Scale::time(end(&runs.iter().map(steps).collect::<Vec<_>>()))
}
