//! The chart of freshness: time from an acknowledged update until it is visible on each watched server.

use super::figure::{BAD, Figure, colour, escape, log_seconds};
use crate::{Run, Sighting};
use serde_json::json;
use std::collections::BTreeSet;

/// Maximum number of points per server. Beyond it, the points are a sample.
const POINTS_MAX: usize = 4_000;
/// The position of updates that were visible before they were acknowledged: a logarithmic axis has no zero.
const AT_ONCE_SECONDS: f64 = 1e-6;

/// The chart, or none for runs without a probe.
pub(super) fn all(runs: &[Run]) -> Option<Figure> {
    if runs.iter().all(|run| run.recording.sightings.is_empty()) {
        return None;
    }
    let mut figure = Figure::new("freshness", "Freshness", &runs.iter().collect::<Vec<_>>()).caption(
        "Each point is an update: the time from its acknowledgement until the server showed it. 1 us means that it was \
         visible before. Crosses at the top are updates that were acknowledged and never seen.",
    );
    let mut order = 0;
    for run in runs {
        let sightings = &run.recording.sightings;
        let most = sightings.iter().filter_map(|sighting| sighting.visible_us).fold(1.0, f64::max) / 1e6;
        let servers: BTreeSet<_> = sightings.iter().map(|sighting| sighting.server.as_str()).collect();
        for server in servers {
            let name = if runs.len() == 1 { server.to_owned() } else { format!("{} {server}", run.label) };
            let of_server: Vec<&Sighting> = sightings.iter().filter(|sighting| sighting.server == server).collect();
            let step = of_server.len().div_ceil(POINTS_MAX).max(1);
            let seen =
                of_server.iter().step_by(step).filter_map(|sighting| Some((sighting.at, sighting.visible_us? / 1e6)));
            let (x, y): (Vec<_>, Vec<_>) = seen.map(|(at, seconds)| (at, seconds.max(AT_ONCE_SECONDS))).unzip();
            figure.traces.push(json!({
                "type": "scatter", "mode": "markers", "name": escape(&name), "x": x, "y": y,
                "marker": { "color": colour(order), "size": 4 }, "hovertemplate": "%{x:.3f} s: visible after %{y:.3s}s",
            }));
            let never: Vec<_> =
                of_server.iter().filter(|sighting| sighting.visible_us.is_none()).map(|sighting| sighting.at).collect();
            if !never.is_empty() {
                figure.traces.push(json!({
                    "type": "scatter", "mode": "markers", "name": escape(&format!("{name} never seen")), "x": never,
                    "y": vec![most * 2.0; never.len()], "marker": { "color": BAD, "symbol": "x", "size": 7 },
                    "hovertemplate": "%{x:.3f} s: never seen",
                }));
            }
            order += 1;
        }
    }
    let all: Vec<_> = runs.iter().enumerate().collect();
    let mut figure = figure.timed(&all, log_seconds("from acknowledged to visible"));
    figure.layout["hovermode"] = "closest".into();
    Some(figure)
}
