//! Pictures over time, from the seconds of the run folders.

use super::pictures::{axis, line_name, planned, rank, warning};
use super::results::{Combination, Results};
use crate::claim::Interval;
use crate::definition::{Experiment, Picture};
use crate::limits::MARKS_MAX;
use crate::results::{EventResult, Outcome};
use crate::run::cell_folder;
use report::pictures::{TimeChart, TimeLine};
use std::path::Path;

/// Events at most this far apart are one mark: repeats differ a little.
const SAME_SECONDS: f64 = 1.0;

/// A figure over time, with the events.
pub(super) fn chart(folder: &Path, picture: &Picture, experiment: &Experiment, results: &Results) -> TimeChart {
    let mut lines: Vec<TimeLine> = Vec::new();
    let mut events: Vec<(f64, String)> = Vec::new();
    for combination in planned(picture, results) {
        let points = points(folder, &picture.figure, experiment, combination);
        if !points.is_empty() {
            lines.push(TimeLine { name: line_name(picture, experiment, combination), points });
        }
        let happened = combination.cells.iter().flat_map(|cell| &cell.events);
        for event in happened.filter(|event| event.happened) {
            let what = describe(event);
            let is_new = !events.iter().any(|(at, other)| (at - event.seconds).abs() <= SAME_SECONDS && *other == what);
            if is_new && events.len() < MARKS_MAX {
                events.push((event.seconds, what));
            }
        }
    }
    lines.sort_by_key(|line| rank(picture, experiment, &line.name));
    let is_drawn = |combination: &Combination| {
        let name = line_name(picture, experiment, combination);
        lines.iter().any(|line| line.name == name)
    };
    TimeChart {
        title: picture.title.clone(),
        warning: warning(picture, results, is_drawn),
        figure: axis(picture),
        events,
        lines: lines.clone(),
    }
}

/// An event without its node, which differs between repeats.
fn describe(event: &EventResult) -> String {
    format!("{} {}", event.action.label(), event.server)
}

/// The figure in each second: the lowest, median and highest of the repeats that were measured.
fn points(folder: &Path, figure: &str, experiment: &Experiment, combination: &Combination) -> Vec<(f64, [f64; 3])> {
    let (load, name) = experiment.load_of(figure);
    let measured = combination.cells.iter().filter(|cell| cell.outcome == Outcome::Measured);
    let series: Vec<Vec<(f64, f64)>> = measured
        .filter_map(|cell| {
            let run = report::folder::read(&cell_folder(folder, &cell.cell).join(cell.runs.get(load)?)).ok()?;
            report::second_series(&run, name).filter(|series| !series.is_empty())
        })
        .collect();
    let Some(first) = series.first() else { return Vec::new() };
    first
        .iter()
        .enumerate()
        .filter_map(|(index, (at, _))| {
            let values: Vec<f64> = series.iter().filter_map(|one| one.get(index)).map(|(_, value)| *value).collect();
            let (median, _) = Interval::of(&values)?;
            let [low, high] = [f64::min, f64::max].map(|of| values.iter().copied().reduce(of).unwrap_or(median));
            Some((*at, [low, median, high]))
        })
        .collect()
}
