//! The results of all cells, by combination of parameters.

use crate::claim::Interval;
use crate::definition::{Experiment, TIME};
use crate::limits::CELLS_MAX;
use crate::results::{CellResult, Outcome};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The main figures of a load. The table has them if no claim and no picture names a figure.
pub(crate) const FIGURES: [&str; 3] = ["rate", "p50_us", "p99_us"];

/// All results.
pub(crate) struct Results {
    /// The cells that ran.
    pub(crate) cells: Vec<CellResult>,
    /// All combinations: those of the matrix, then others that have results.
    pub(crate) combinations: Vec<Combination>,
    /// The figures of the table: those of claims and pictures.
    pub(super) figures: Vec<String>,
}

/// A combination of parameters.
pub(crate) struct Combination {
    pub(crate) parameters: BTreeMap<String, String>,
    /// The results of its repeats.
    pub(crate) cells: Vec<CellResult>,
    /// Number of repeats that were not run.
    pub(super) missing: u32,
    /// Whether it is in the matrix. If not, it was measured before the matrix changed.
    pub(super) is_planned: bool,
}

impl Results {
    pub(crate) fn read(folder: &Path, experiment: &Experiment) -> Result<Self, String> {
        let mut cells: Vec<CellResult> = Vec::new();
        for path in paths(&folder.join("cells"))? {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string());
            let cell = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
            cells.push(cell.map_err(|error| {
                format!("cannot read {}: {error}; remove this file, then run the experiment again", path.display())
            })?);
        }
        cells.iter_mut().for_each(fail_without_events);
        cells.sort_by(|one, other| one.cell.cmp(&other.cell));
        let mut combinations: Vec<_> = experiment
            .combinations()
            .into_iter()
            .map(|parameters| Combination { parameters, cells: Vec::new(), missing: 0, is_planned: true })
            .collect();
        for cell in &cells {
            let found = combinations.iter_mut().find(|all| all.parameters == cell.cell.parameters);
            match found {
                Some(combination) => combination.cells.push(cell.clone()),
                None => combinations.push(Combination {
                    parameters: cell.cell.parameters.clone(),
                    cells: vec![cell.clone()],
                    missing: 0,
                    is_planned: false,
                }),
            }
        }
        for combination in combinations.iter_mut().filter(|combination| combination.is_planned) {
            let has = |repeat: &u32| combination.cells.iter().any(|result| result.cell.repeat == *repeat);
            combination.missing = (0..experiment.repeats).filter(|repeat| !has(repeat)).count() as u32;
        }
        Ok(Self { cells, combinations, figures: figures(experiment) })
    }
}

impl Combination {
    /// Lowest, median and highest figure of its measured repeats.
    pub(super) fn figure(&self, figure: &str) -> Option<[f64; 3]> {
        let values: Vec<f64> = self.each_repeat(figure).into_iter().flatten().collect();
        low_median_high(&values)
    }

    /// A figure in each repeat. `None` for a repeat without a valid one.
    pub(crate) fn each_repeat(&self, figure: &str) -> Vec<Option<f64>> {
        let last = self.cells.iter().map(|result| result.cell.repeat).max();
        let repeats = last.map_or(0, |last| last.min(CELLS_MAX as u32) + 1);
        let of = |repeat| {
            let mut measured = self.cells.iter().filter(|result| result.outcome == Outcome::Measured);
            let result = measured.find(|result| result.cell.repeat == repeat)?;
            result.figures.get(figure).copied().filter(|value| value.is_finite())
        };
        (0..repeats).map(of).collect()
    }

    /// The number of repeats with each outcome, for example `2 measured, 1 INVALID`.
    pub(crate) fn outcome(&self) -> String {
        let words = ["measured", "INVALID", "failed", "not measured"];
        let counts = words.map(|word| {
            let count = self.cells.iter().filter(|result| outcome(&result.outcome).0 == word).count();
            (count, word)
        });
        let missing = (self.missing as usize, "not run");
        let counted = counts.into_iter().chain([missing]).filter(|(count, _)| *count > 0);
        counted.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }

    /// Whether all repeats were measured.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0 && self.cells.iter().all(|result| result.outcome == Outcome::Measured)
    }

    /// The reasons why repeats were not measured. Each reason is listed once, with its repeats.
    pub(super) fn reasons(&self) -> Vec<String> {
        let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
        for result in &self.cells {
            let repeat = (result.cell.repeat + 1).to_string();
            for reason in self::reasons(result) {
                match reasons.iter_mut().find(|(text, _)| *text == reason) {
                    Some((_, repeats)) => repeats.push(repeat.clone()),
                    None => reasons.push((reason, vec![repeat.clone()])),
                }
            }
        }
        if !self.is_planned {
            reasons.push(("measured earlier; no longer in the matrix".into(), Vec::new()));
        }
        let lines = reasons.into_iter().map(|(reason, repeats)| match repeats.as_slice() {
            [] => reason,
            [one] => format!("repeat {one}: {reason}"),
            all => format!("repeats {}: {reason}", all.join(", ")),
        });
        lines.collect()
    }
}

/// The lowest, median and highest value. `None` without values.
pub(super) fn low_median_high(values: &[f64]) -> Option<[f64; 3]> {
    let (median, _) = Interval::of(values)?;
    let [low, high] = [f64::min, f64::max].map(|of| values.iter().copied().reduce(of).unwrap_or(median));
    Some([low, median, high])
}

/// The outcome in words, and its reasons.
pub(super) fn outcome(outcome: &Outcome) -> (&'static str, &[String]) {
    match outcome {
        Outcome::Measured => ("measured", &[]),
        Outcome::Invalid(reasons) => ("INVALID", reasons),
        Outcome::Failed(reasons) => ("failed", reasons),
        Outcome::NotMeasured(reasons) => ("not measured", reasons),
    }
}

/// The reasons why a cell was not measured.
fn reasons(result: &CellResult) -> Vec<String> {
    let (state, reasons) = outcome(&result.outcome);
    let mut texts: Vec<String> = reasons.iter().map(|reason| format!("{state}: {reason}")).collect();
    if texts.is_empty() && result.outcome != Outcome::Measured {
        texts.push(format!("{state}, no reason given"));
    }
    texts
}

/// A cell fails if one of its events had no effect.
fn fail_without_events(result: &mut CellResult) {
    let absent = result.events.iter().filter(|event| !event.happened).map(|event| {
        let seconds = (event.seconds * 10.0).round() / 10.0;
        format!("{} of {} at {seconds} s did not happen", event.action.label(), event.server)
    });
    let absent: Vec<String> = absent.collect();
    match &mut result.outcome {
        _ if absent.is_empty() => {}
        Outcome::Measured => result.outcome = Outcome::Failed(absent),
        Outcome::Invalid(reasons) => reasons.extend(absent),
        // A cell that failed has a reason already.
        Outcome::Failed(_) | Outcome::NotMeasured(_) => {}
    }
}

/// The paths of all results, sorted. Empty if the folder does not exist yet.
fn paths(cells: &Path) -> Result<Vec<PathBuf>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}; check the permissions", cells.display());
    let mut paths = Vec::new();
    match std::fs::read_dir(cells) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot(error)),
        Ok(entries) => {
            for entry in entries {
                paths.push(entry.map_err(cannot)?.path().join("cell.json"));
            }
        }
    }
    // An interrupted cell has no result.
    paths.retain(|path| path.exists());
    paths.sort();
    Ok(paths)
}

/// The figures of claims and pictures, each once.
fn figures(experiment: &Experiment) -> Vec<String> {
    let of_claims = experiment.claims.iter().flat_map(|claim| crate::expression::figures(&claim.value));
    let mut figures: Vec<String> = Vec::new();
    // Figures over time have no value for a whole run.
    let drawn = experiment.pictures.iter().filter(|picture| picture.by != TIME);
    for figure in of_claims.chain(drawn.map(|picture| picture.figure.clone())) {
        if !figures.contains(&figure) {
            figures.push(figure);
        }
    }
    if figures.is_empty() { FIGURES.map(str::to_owned).to_vec() } else { figures }
}
