//! The pictures of a page.

use super::results::{Combination, Results};
use crate::claim::cell_name;
use crate::definition::{Experiment, Picture, Value};
use crate::expression::is_same;
use report::pictures::{ParameterChart, ParameterLine};
use std::collections::BTreeMap;

/// A picture with its file name.
pub(super) struct DrawnPicture {
    /// Name of its files, without extension.
    pub(super) file_stem: String,
    pub(super) chart: ParameterChart,
}

pub(super) fn draw(experiment: &Experiment, results: &Results) -> Result<Vec<DrawnPicture>, String> {
    // A size may not have the cells of a picture.
    let pictures = experiment.pictures.iter().filter(|picture| planned(picture, results).next().is_some());
    (1..)
        .zip(pictures)
        .map(|(number, picture)| {
            let chart = chart(picture, experiment, results)
                .map_err(|error| format!("cannot draw the picture \"{}\": {error}", picture.title))?;
            Ok(DrawnPicture { file_stem: format!("picture-{number}"), chart })
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
    // In the order of the definition.
    if let Some(order) = picture.lines.as_ref().and_then(|name| experiment.matrix.get(name)) {
        let rank = |name: &str| order.iter().position(|value| name.split(", ").next() == Some(value.0.as_str()));
        lines.sort_by_key(|line| rank(&line.name));
    }
    let unit = if picture.unit.is_empty() { String::new() } else { format!(", {}", picture.unit) };
    Ok(ParameterChart {
        title: picture.title.clone(),
        warning: warning(picture, results),
        parameter: picture.by.clone(),
        values: places.iter().map(|value| value.0.clone()).collect(),
        figure: format!("{}{unit}", picture.figure),
        lines,
        paper: places.iter().map(|value| paper(&picture.paper, value)).collect(),
    })
}

/// The planned combinations that the picture shows.
fn planned<'a>(picture: &'a Picture, results: &'a Results) -> impl Iterator<Item = &'a Combination> {
    let has = |combination: &Combination, name: &String, value: &Value| {
        combination.parameters.get(name).is_some_and(|found| is_same(found, &value.0))
    };
    let all = results.combinations.iter().filter(|combination| combination.is_planned);
    all.filter(move |combination| picture.only.iter().all(|(name, value)| has(combination, name, value)))
}

/// The value of `lines`, then all other parameters with several values.
fn line_name(picture: &Picture, experiment: &Experiment, combination: &Combination) -> String {
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
fn warning(picture: &Picture, results: &Results) -> String {
    let incomplete =
        planned(picture, results).filter(|one| !one.is_complete() || one.figure(&picture.figure).is_none());
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
