//! The cells that a selector selects.

use crate::definition::Experiment;
use crate::expression::{Selector, is_same};
use crate::results::{Cell, CellResult, Outcome};
use std::collections::BTreeMap;

/// The end of the reason why a claim is not measured if its cells are not part of the run.
pub(crate) const NOT_IN_RUN: &str = "is not part of this run";
/// Ends the reason if `--only` left out a cell.
pub(crate) const NOT_RUN: &str = "was not run";

/// The cells that a selector selects.
pub(super) enum Selection {
    /// The parameters of the cell of each repeat.
    Cells(BTreeMap<String, String>),
    /// The matrix has no such cell: the reason.
    None(String),
}

/// The cell that a selector selects in each repeat.
///
/// # Errors
/// The selector names an unknown parameter, or selects more than one cell.
pub(super) fn select(selector: &Selector, experiment: &Experiment) -> Result<Selection, String> {
    let matrix = &experiment.matrix;
    let name = |what: &str| format!("column {}: {}: {what}", selector.column, selector.figure);
    for (parameter, _) in &selector.parameters {
        if !matrix.contains_key(parameter) {
            let known: Vec<_> = matrix.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            return Err(name(&format!("there is no parameter `{parameter}`; parameters: {known}")));
        }
    }
    selector.check_one_cell(experiment.parameters())?;
    let mut cell = BTreeMap::new();
    for (parameter, values) in matrix {
        let wanted = selector.parameters.iter().find(|(named, _)| named == parameter).map(|(_, value)| value.as_str());
        match values.iter().find(|value| wanted.is_none_or(|wanted| is_same(&value.0, wanted))) {
            Some(value) => cell.insert(parameter.clone(), value.0.clone()),
            None => {
                let wanted = wanted.map_or_else(String::new, |wanted| format!("={wanted}"));
                return Ok(Selection::None(format!("{parameter}{wanted} {NOT_IN_RUN}")));
            }
        };
    }
    Ok(Selection::Cells(cell))
}

/// The figure of a cell, or the reason why there is none.
pub(super) fn figure(
    figure: &str,
    parameters: &BTreeMap<String, String>,
    repeat: u32,
    cells: &[CellResult],
) -> Result<f64, String> {
    let wanted = Cell { parameters: parameters.clone(), repeat };
    let Some(result) = cells.iter().find(|result| result.cell == wanted) else {
        return Err(NOT_RUN.into());
    };
    let because = |reasons: &[String]| if reasons.is_empty() { "no reason given".into() } else { reasons.join("; ") };
    match &result.outcome {
        Outcome::Measured => {}
        Outcome::Invalid(reasons) => return Err(format!("INVALID: {}", because(reasons))),
        Outcome::Failed(reasons) => return Err(format!("failed: {}", because(reasons))),
        Outcome::NotMeasured(reasons) => return Err(format!("not measured: {}", because(reasons))),
    }
    match result.figures.get(figure) {
        Some(value) if value.is_finite() => Ok(*value),
        Some(_) => Err(format!("the figure `{figure}` is not a finite number")),
        None => Err(result.why_absent(figure)),
    }
}

/// The parameters of a cell as text: `cpu=1, server=bind`.
pub(crate) fn cell_name(parameters: &BTreeMap<String, String>) -> String {
    parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}
