//! The verdict on a claim.

use super::interval::Interval;
use super::number;
use super::selection::{Selection, cell_name, figure, select};
use crate::definition::{Claim, Experiment};
use crate::expression::Expression;
use crate::results::CellResult;
use crate::want::{Position, Want};
use serde::Serialize;
use std::collections::BTreeMap;

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// In the wanted range, and better than the value of the source.
    #[serde(rename = "ahead")]
    Ahead,
    /// In the wanted range.
    #[serde(rename = "holds")]
    Holds,
    /// In the wanted range, but the source measured something else.
    #[serde(rename = "not comparable")]
    NotComparable,
    /// Outside the wanted range.
    #[serde(rename = "differs")]
    Differs,
    /// The interval is only partly in the wanted range.
    #[serde(rename = "undecided")]
    Undecided,
    /// A cell is missing, failed or INVALID.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Verdict {
    /// The verdict in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Holds => "holds",
            Self::NotComparable => "not comparable",
            Self::Differs => "differs",
            Self::Undecided => "undecided",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A judged claim.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// The claim, in words.
    pub claim: String,
    /// The value of the source.
    pub paper: Option<f64>,
    /// The median over the repeats.
    pub here: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
    /// The unit of all values.
    pub unit: String,
    /// The wanted range.
    pub want: String,
    /// The expression.
    pub value: String,
    /// The figures in the expression.
    pub figures: Vec<UsedFigure>,
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons why it differs, is undecided or not comparable, or was not measured.
    pub reasons: Vec<String>,
}

/// A figure that a claim uses, with the servers that it was measured with.
#[derive(Clone, Debug, Serialize)]
pub struct UsedFigure {
    /// Its name.
    pub figure: String,
    /// The parameters of its cell.
    pub cell: BTreeMap<String, String>,
    /// The median over the repeats. `None` if a repeat has no value.
    pub median: Option<f64>,
    /// The kinds and versions of the servers of the cell, for example `bind 9.20.30`.
    pub servers: Vec<String>,
}

/// Judges a claim.
///
/// # Errors
/// The claim cannot be parsed: the expression, the wanted range, or a selector that does not pick exactly one cell.
pub fn judge(claim: &Claim, experiment: &Experiment, cells: &[CellResult]) -> Result<Judgement, String> {
    let in_claim = |key: &str, error: String| format!("cannot judge the claim \"{}\": {key}: {error}", claim.text);
    let in_value = |error: String| in_claim(&format!("value `{}`", claim.value), error);
    let want = Want::parse(&claim.want).map_err(|error| in_claim("want", error))?;
    let expression = Expression::parse(&claim.value).map_err(in_value)?;
    let selections: Vec<_> = expression
        .selectors
        .iter()
        .map(|selector| select(selector, experiment))
        .collect::<Result<_, _>>()
        .map_err(in_value)?;
    let mut judgement = Judgement {
        claim: claim.text.clone(),
        paper: claim.paper,
        here: None,
        interval: None,
        unit: claim.unit.clone(),
        want: claim.want.clone(),
        value: claim.value.clone(),
        figures: used_figures(&expression, &selections, experiment.repeats, cells),
        verdict: Verdict::NotMeasured,
        reasons: Vec::new(),
    };
    let (values, reasons) = values(&expression, &selections, experiment.repeats, cells);
    let values: Vec<f64> = values.into_iter().flatten().collect();
    match Interval::of(&values) {
        Some((here, interval)) if reasons.is_empty() => {
            judgement.here = Some(here);
            judgement.interval = Some(interval);
            (judgement.verdict, judgement.reasons) = verdict(&want, claim, &interval);
        }
        Some((_, interval)) => {
            judgement.reasons = reasons;
            judgement.reasons.push(match values.as_slice() {
                [value] => format!("the other repeat gives {}", number::text(*value)),
                _ => format!("the other {} repeats give {}", values.len(), interval.ends()),
            });
        }
        None if reasons.is_empty() => judgement.reasons = vec!["the experiment has no repeats".into()],
        None => judgement.reasons = reasons,
    }
    Ok(judgement)
}

/// Each figure of an expression once, from left to right.
fn used_figures(
    expression: &Expression,
    selections: &[Selection],
    repeats: u32,
    cells: &[CellResult],
) -> Vec<UsedFigure> {
    let mut used: Vec<UsedFigure> = Vec::new();
    for (selector, selection) in expression.selectors.iter().zip(selections) {
        let Selection::Cells(cell) = selection else { continue };
        if used.iter().any(|known| known.figure == selector.figure && known.cell == *cell) {
            continue;
        }
        let each = (0..repeats).map(|repeat| figure(&selector.figure, cell, repeat, cells).ok());
        let values: Option<Vec<f64>> = each.collect();
        let mut servers = Vec::new();
        for server in cells.iter().filter(|result| result.cell.parameters == *cell).flat_map(|result| &result.servers) {
            let text = format!("{} {}", server.kind, server.version);
            if !servers.contains(&text) {
                servers.push(text);
            }
        }
        used.push(UsedFigure {
            figure: selector.figure.clone(),
            cell: cell.clone(),
            median: values.and_then(|values| Interval::of(&values)).map(|(median, _)| median),
            servers,
        });
    }
    used
}

/// The value of a claim in each repeat. `None` for a repeat without one.
///
/// # Errors
/// As [`judge`].
pub(crate) fn each_repeat(
    claim: &Claim,
    experiment: &Experiment,
    cells: &[CellResult],
) -> Result<Vec<Option<f64>>, String> {
    let expression = Expression::parse(&claim.value)?;
    let selectors = expression.selectors.iter();
    let selections = selectors.map(|selector| select(selector, experiment)).collect::<Result<Vec<_>, _>>()?;
    Ok(values(&expression, &selections, experiment.repeats, cells).0)
}

/// The value of each repeat if it is complete, and the reasons why others have none.
fn values(
    expression: &Expression,
    selections: &[Selection],
    repeats: u32,
    cells: &[CellResult],
) -> (Vec<Option<f64>>, Vec<String>) {
    let mut absent: Vec<String> = Vec::new();
    // The repeats with the same cell and reason, in the order in which they are found.
    let mut reasons: Vec<(String, String, Vec<String>)> = Vec::new();
    let mut values = Vec::new();
    for repeat in 0..repeats {
        let mut figures = Vec::new();
        let mut add = |cell: String, reason: String| {
            let number = (repeat + 1).to_string();
            match reasons.iter_mut().find(|(name, text, _)| (name, text) == (&cell, &reason)) {
                Some((_, _, repeats)) if repeats.contains(&number) => {}
                Some((_, _, repeats)) => repeats.push(number),
                None => reasons.push((cell, reason, vec![number])),
            }
        };
        for (selector, selection) in expression.selectors.iter().zip(selections) {
            match selection {
                Selection::None(reason) if absent.contains(reason) => {}
                Selection::None(reason) => absent.push(reason.clone()),
                Selection::Cells(parameters) => match figure(&selector.figure, parameters, repeat, cells) {
                    Ok(value) => figures.push(value),
                    Err(reason) => add(cell_name(parameters), reason),
                },
            }
        }
        let is_complete = figures.len() == selections.len();
        let value = is_complete.then(|| expression.evaluate(&figures));
        if value.is_some_and(|value| !value.is_finite()) {
            add(String::new(), format!("the value is not finite, from {}", list(expression, &figures)));
        }
        values.push(value.filter(|value| value.is_finite()));
    }
    let lines = reasons.into_iter().map(|(cell, reason, repeats)| {
        let plural = if repeats.len() > 1 { "repeats" } else { "repeat" };
        let cell = if cell.is_empty() { cell } else { cell + ", " };
        format!("{cell}{plural} {}: {reason}", repeats.join(", "))
    });
    (values, absent.into_iter().chain(lines).collect())
}

/// The figures of an expression with their values.
fn list(expression: &Expression, figures: &[f64]) -> String {
    let named: BTreeMap<_, _> = expression
        .selectors
        .iter()
        .zip(figures)
        .map(|(selector, value)| (selector.column, (selector, value)))
        .collect();
    let each = named.values().map(|(selector, value)| format!("{} {}", selector.figure, number::text(**value)));
    each.collect::<Vec<_>>().join(", ")
}

fn verdict(want: &Want, claim: &Claim, interval: &Interval) -> (Verdict, Vec<String>) {
    let reason = |position: &str| vec![format!("{} is {position} {}", interval.text(), claim.want.trim())];
    match want.position(interval.low, interval.high) {
        Position::Inside if claim.not_comparable.is_some() => {
            (Verdict::NotComparable, claim.not_comparable.iter().cloned().collect())
        }
        Position::Inside if claim.paper.is_some_and(|paper| want.is_beyond(interval.low, interval.high, paper)) => {
            (Verdict::Ahead, Vec::new())
        }
        Position::Inside => (Verdict::Holds, Vec::new()),
        Position::Below => (Verdict::Differs, reason("below the wanted")),
        Position::Above => (Verdict::Differs, reason("above the wanted")),
        Position::Straddles => (Verdict::Undecided, reason("partly outside the wanted")),
    }
}
