//! All verdicts of an experiment.

use crate::claim::{Interval, Judgement, NOT_IN_RUN, NOT_RUN, Verdict, number};
use serde::Serialize;

/// The verdicts on the claims of an experiment.
#[derive(Clone, Debug)]
pub struct Verdicts {
    /// The judged claims, in the order of the definition.
    pub claims: Vec<Judgement>,
}

/// A row of `claims.json`.
#[derive(Serialize)]
struct Row<'v> {
    experiment: &'v str,
    #[serde(flatten)]
    judgement: &'v Judgement,
}

impl Verdicts {
    /// Whether a claim differs from what is wanted.
    #[must_use]
    pub fn has_differing(&self) -> bool {
        self.claims.iter().any(|judged| judged.verdict == Verdict::Differs)
    }

    /// The number of claims with each verdict, for example `2 holds, 1 differs`.
    #[must_use]
    pub fn counts(&self) -> String {
        let all = [
            Verdict::Ahead,
            Verdict::Holds,
            Verdict::NotComparable,
            Verdict::Differs,
            Verdict::Undecided,
            Verdict::NotMeasured,
        ];
        let counted = all.map(|verdict| (verdict, self.claims.iter().filter(|one| one.verdict == verdict).count()));
        let texts = counted.iter().filter(|(_, count)| *count > 0);
        texts.map(|(verdict, count)| format!("{count} {}", verdict.text())).collect::<Vec<_>>().join(", ")
    }

    /// One line for each claim, followed by its reasons. Claims about cells that are not part of the run are counted.
    #[must_use]
    pub fn outline(&self) -> String {
        let (outside, claims): (Vec<_>, Vec<_>) = self.claims.iter().partition(|judged| is_outside(judged));
        let lines = claims.into_iter().map(|judged| {
            let paper = judged.paper.map_or_else(String::new, |paper| format!("; source {}", number::text(paper)));
            let here =
                here(judged).map_or_else(String::new, |(here, interval)| format!(": {here} ({interval}){paper}"));
            let reasons: String = judged.reasons.iter().map(|reason| format!("               {reason}\n")).collect();
            format!("{:<14} {}{here}\n{reasons}", judged.verdict.text(), judged.claim)
        });
        let lines: String = lines.collect();
        match outside.len() {
            0 => lines,
            1 => lines + "not measured   1 claim about cells that are not part of this run\n",
            count => lines + &format!("not measured   {count} claims about cells that are not part of this run\n"),
        }
    }

    pub(super) fn json(&self, experiment: &str) -> Result<String, String> {
        let rows: Vec<_> = self.claims.iter().map(|judgement| Row { experiment, judgement }).collect();
        let text = serde_json::to_string_pretty(&rows);
        text.map(|text| text + "\n").map_err(|error| format!("cannot write claims.json: {error}"))
    }
}

/// Whether a claim is about cells that this size or selection does not have.
fn is_outside(judged: &Judgement) -> bool {
    let is_about_other_cells = |reason: &String| reason.ends_with(NOT_IN_RUN) || reason.ends_with(NOT_RUN);
    judged.verdict == Verdict::NotMeasured && judged.reasons.iter().any(is_about_other_cells)
}

/// The value with its unit.
pub(super) fn value(judged: &Judgement) -> Option<String> {
    let unit = if judged.unit.is_empty() { String::new() } else { format!(" {}", judged.unit) };
    Some(number::text(judged.here?) + &unit)
}

/// The value with its unit, and its interval.
pub(super) fn here(judged: &Judgement) -> Option<(String, String)> {
    value(judged).zip(judged.interval.as_ref().map(Interval::text))
}
