//! The pictures of a page.

use super::results::{Combination, Results};
use super::timeline;
use crate::claim::cell_name;
use crate::definition::{Experiment, Picture, TIME, Value};
use crate::expression::is_same;
use report::pictures::{ImageFormat, ParameterChart, ParameterLine, TimeChart};
use std::collections::BTreeMap;
use std::path::Path;

/// A picture with its file name.
pub(super) struct DrawnPicture {
    /// Name of its files, without extension.
    pub(super) file_stem: String,
    pub(super) title: String,
    pub(super) chart: AnyChart,
}

/// A chart of a figure.
pub(super) enum AnyChart {
    /// By a parameter.
    Parameter(ParameterChart),
    /// Over time.
    Time(TimeChart),
}

impl AnyChart {
    /// The contents of its file.
    pub(super) fn draw(&self, format: ImageFormat) -> Result<Vec<u8>, String> {
        match self {
            Self::Parameter(chart) => chart.draw(format),
            Self::Time(chart) => chart.draw(format),
        }
    }

    /// What its lines are, in words.
    pub(super) fn caption(&self) -> String {
        match self {
            Self::Parameter(chart) => {
                let grey = if chart.paper.iter().any(Option::is_some) { " Grey: the source's values." } else { "" };
                format!(
                    "Points are medians over the repeats. Whiskers reach from the lowest to the highest repeat.{grey}"
                )
            }
            Self::Time(_) => "Lines are medians over the repeats, second by second. Areas reach from the lowest to \
                              the highest repeat."
                .into(),
        }
    }
}

/// Draws the pictures from the results in a folder.
pub(super) fn draw(folder: &Path, experiment: &Experiment, results: &Results) -> Result<Vec<DrawnPicture>, String> {
    // A size may not have the cells of a picture.
    let pictures = experiment.pictures.iter().filter(|picture| planned(picture, results).next().is_some());
    (1..)
        .zip(pictures)
        .map(|(number, picture)| {
            let chart = if picture.by == TIME {
                Ok(AnyChart::Time(timeline::chart(folder, picture, experiment, results)))
            } else {
                chart(picture, experiment, results).map(AnyChart::Parameter)
            };
            let chart = chart.map_err(|error| format!("cannot draw the picture \"{}\": {error}", picture.title))?;
            Ok(DrawnPicture { file_stem: format!("picture-{number}"), title: picture.title.clone(), chart })
        })
        .collect()
}

fn chart(picture: &Picture, experiment: &Experiment, results: &Results) -> Result<ParameterChart, String> {
    let values = |name: &String| {
        let known = || experiment.matrix.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let values = experiment.matrix.get(name);
        values.ok_or_else(|| format!("there is no parameter `{name}`; parameters: {}", known()))
    };
    let places = values(&picture.by)?;
    if let Some(lines) = &picture.lines {
        values(lines)?;
    }
    let mut lines: Vec<ParameterLine> = Vec::new();
    for combination in planned(picture, results) {
        let place = combination.parameters.get(&picture.by);
        let Some(place) = places.iter().position(|value| Some(&value.0) == place) else { continue };
        let name = line_name(picture, experiment, combination);
        let line = match lines.iter().position(|line| line.name == name) {
            Some(line) => line,
            None => {
                lines.push(ParameterLine { name, points: vec![None; places.len()] });
                lines.len() - 1
            }
        };
        lines[line].points[place] = combination.figure(&picture.figure);
    }
    lines.sort_by_key(|line| rank(picture, experiment, &line.name));
    Ok(ParameterChart {
        title: picture.title.clone(),
        warning: warning(picture, results, |combination| combination.figure(&picture.figure).is_some()),
        parameter: picture.by.clone(),
        values: places.iter().map(|value| value.0.clone()).collect(),
        figure: axis(picture),
        lines,
        paper: places.iter().map(|value| paper(&picture.paper, value)).collect(),
    })
}

/// The title of the vertical axis.
pub(super) fn axis(picture: &Picture) -> String {
    let unit = if picture.unit.is_empty() { String::new() } else { format!(", {}", picture.unit) };
    format!("{}{unit}", picture.figure)
}

/// The place of a line in the order of the definition.
pub(super) fn rank(picture: &Picture, experiment: &Experiment, line: &str) -> Option<usize> {
    let order = experiment.matrix.get(picture.lines.as_ref()?)?;
    order.iter().position(|value| line.split(", ").next() == Some(value.0.as_str()))
}

/// The planned combinations that the picture shows.
pub(super) fn planned<'a>(picture: &'a Picture, results: &'a Results) -> impl Iterator<Item = &'a Combination> {
    let has = |combination: &Combination, name: &String, value: &Value| {
        combination.parameters.get(name).is_some_and(|found| is_same(found, &value.0))
    };
    let all = results.combinations.iter().filter(|combination| combination.is_planned);
    all.filter(move |combination| picture.only.iter().all(|(name, value)| has(combination, name, value)))
}

/// The value of `lines`, then all other parameters with several values.
pub(super) fn line_name(picture: &Picture, experiment: &Experiment, combination: &Combination) -> String {
    let first = picture.lines.as_ref().and_then(|name| combination.parameters.get(name)).cloned();
    let is_other = |name: &String| {
        *name != picture.by
            && !picture.only.contains_key(name)
            && Some(name) != picture.lines.as_ref()
            && experiment.matrix.get(name).is_some_and(|values| values.len() > 1)
    };
    let others = combination.parameters.iter().filter(|(name, _)| is_other(name));
    let others = others.map(|(name, value)| format!("{name}={value}"));
    let name = first.into_iter().chain(others).collect::<Vec<_>>().join(", ");
    if name.is_empty() { "here".into() } else { name }
}

/// The source's value.
fn paper(values: &BTreeMap<String, f64>, place: &Value) -> Option<f64> {
    values.iter().find(|(name, _)| is_same(name, &place.0)).map(|(_, value)| *value)
}

/// Names a combination that is not drawn, or is drawn from fewer repeats.
pub(super) fn warning(picture: &Picture, results: &Results, is_drawn: impl Fn(&Combination) -> bool) -> String {
    let incomplete = planned(picture, results).filter(|one| !one.is_complete() || !is_drawn(one));
    let mut lines = incomplete.map(|combination| {
        let outcome = match combination.cells.first() {
            Some(first) if combination.is_complete() => first.why_absent(&picture.figure),
            _ => combination.outcome(),
        };
        format!("{}: {outcome}", cell_name(&combination.parameters))
    });
    // The picture has room for one combination. The table of cells lists all.
    let Some(first) = lines.next() else { return String::new() };
    match lines.count() {
        0 => format!("Not all repeats are drawn. {first}"),
        more => format!("Not all repeats are drawn. {first}; {more} more combinations"),
    }
}
