//! Pictures over time, from the seconds of the run folders.

use super::pictures::{axis, line_name, planned, rank, warning};
use super::results::{Combination, Results, low_median_high};
use crate::definition::{Experiment, Picture};
use crate::limits::MARKS_MAX;
use crate::results::{EventResult, Outcome};
use crate::run::cell_folder;
use report::pictures::{TimeChart, TimeLine};
use std::collections::BTreeMap;
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
    let warning = warning(picture, results, is_drawn);
    TimeChart { title: picture.title.clone(), warning, figure: axis(picture), events, lines }
}

/// An event without its node, which differs between repeats.
fn describe(event: &EventResult) -> String {
    format!("{} {}", event.action.label(), event.server)
}

/// The figure in each second, over the repeats that were measured. Empty if one of them has no such figure.
fn points(folder: &Path, figure: &str, experiment: &Experiment, combination: &Combination) -> Vec<(f64, [f64; 3])> {
    let (load, name) = experiment.load_of(figure);
    let measured = combination.cells.iter().filter(|cell| cell.outcome == Outcome::Measured);
    let series = measured.map(|cell| {
        let run = report::folder::read(&cell_folder(folder, &cell.cell).join(cell.runs.get(load)?)).ok()?;
        report::second_series(&run, name).filter(|series| !series.is_empty())
    });
    series.collect::<Option<Vec<_>>>().map_or_else(Vec::new, |series| by_second(&series))
}

/// The middle of each second with the lowest, median and highest value. A repeat may lack a second, for example the
/// latency of one in which no query was answered.
fn by_second(series: &[Vec<(f64, f64)>]) -> Vec<(f64, [f64; 3])> {
    let mut seconds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for (at, value) in series.iter().flatten() {
        seconds.entry(*at as u64).or_default().push(*value);
    }
    let points = seconds.into_iter();
    points.filter_map(|(second, values)| Some((second as f64 + 0.5, low_median_high(&values)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_compared_second_by_second() {
        let [whole, gap] = [vec![(0.5, 1.0), (1.5, 2.0), (2.5, 9.0)], vec![(0.5, 3.0), (2.5, 7.0)]];
        let expected = vec![(0.5, [1.0, 2.0, 3.0]), (1.5, [2.0; 3]), (2.5, [7.0, 8.0, 9.0])];
        assert_eq!(by_second(&[whole, gap]), expected);
    }
}
