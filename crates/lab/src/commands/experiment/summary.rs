//! The end of `catlab experiment run`: experiments, cells and claims.

use experiment::page::Verdicts;
use experiment::results::{CellResult, Outcome};
use std::process::ExitCode;

/// Maximum number of characters of a reason. All of it was printed before.
const REASON_CHARACTERS_MAX: usize = 160;

/// What happened to each experiment.
#[derive(Default)]
pub(super) struct Summary {
    /// Name, and a line.
    lines: Vec<(String, String)>,
    claims: Vec<Verdicts>,
    has_failed_cells: bool,
    is_incomplete: bool,
}

impl Summary {
    /// Adds an experiment that ran.
    pub(super) fn measured(&mut self, name: String, verdicts: Verdicts, results: &[CellResult]) {
        let is_failed = |result: &CellResult| matches!(result.outcome, Outcome::Failed(_) | Outcome::Invalid(_));
        self.has_failed_cells |= results.iter().any(is_failed);
        self.lines.push((name, format!("{}; {}", claims(&verdicts), cells(results))));
        self.claims.push(verdicts);
    }

    /// Adds an experiment of `all` that cannot use the options.
    pub(super) fn skipped(&mut self, name: String, reason: &str) {
        self.lines.push((name, format!("left out: {}", in_line(reason))));
    }

    /// Adds an experiment that did not run.
    pub(super) fn failed(&mut self, name: String, reason: &str) {
        self.is_incomplete = true;
        self.lines.push((name, format!("did not run: {}", in_line(reason))));
    }

    /// Adds an experiment that the user stopped.
    pub(super) fn stopped(&mut self, name: String) {
        self.is_incomplete = true;
        self.lines.push((name, "stopped".into()));
    }

    /// One line for each experiment, then all together.
    pub(super) fn text(&self) -> String {
        let width = self.lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        let lines: String = self.lines.iter().map(|(name, line)| format!("{name:width$}  {line}\n")).collect();
        let all = Verdicts { claims: self.claims.iter().flat_map(|verdicts| verdicts.claims.clone()).collect() };
        match (self.lines.len(), self.claims.len()) {
            (1, _) => lines,
            (count, ran) => format!("{lines}{ran} of {count} experiments ran; {}\n", claims(&all)),
        }
    }

    /// 2 if an experiment did not run, 1 if a claim differs or a cell failed, otherwise 0.
    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match () {
            () if self.is_incomplete => 2,
            () if self.has_failed_cells || self.claims.iter().any(Verdicts::has_differing) => 1,
            () => 0,
        }
    }
}

fn claims(verdicts: &Verdicts) -> String {
    match verdicts.claims.len() {
        0 => "no claims".into(),
        1 => format!("1 claim: {}", verdicts.counts()),
        count => format!("{count} claims: {}", verdicts.counts()),
    }
}

/// The number of cells with each outcome. If none was measured, the first reason.
fn cells(results: &[CellResult]) -> String {
    let mut counts = [("measured", 0), ("INVALID", 0), ("failed", 0), ("not measured", 0)];
    let mut first = None;
    for result in results {
        let (index, reasons) = match &result.outcome {
            Outcome::Measured => (0, None),
            Outcome::Invalid(reasons) => (1, Some(reasons)),
            Outcome::Failed(reasons) => (2, Some(reasons)),
            Outcome::NotMeasured(reasons) => (3, Some(reasons)),
        };
        counts[index].1 += 1;
        first = first.or_else(|| reasons?.first());
    }
    let texts = counts.iter().filter(|(_, count)| *count > 0).map(|(word, count)| format!("{count} {word}"));
    let text = format!("cells: {}", texts.collect::<Vec<_>>().join(", "));
    match first {
        Some(reason) if counts[0].1 == 0 => format!("{text} ({})", in_line(reason)),
        _ => text,
    }
}

/// A reason in one line, shortened.
fn in_line(reason: &str) -> String {
    let line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REASON_CHARACTERS_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::claim::judge;
    use experiment::definition::built_in;
    use experiment::results::Cell;

    fn result(outcome: Outcome) -> CellResult {
        CellResult {
            cell: Cell { parameters: [].into(), repeat: 0 },
            outcome,
            figures: [].into(),
            commands: Vec::new(),
            servers: Vec::new(),
            runs: [].into(),
            events: Vec::new(),
        }
    }

    /// The first claims of a built-in experiment, without results.
    fn verdicts(count: usize) -> Verdicts {
        let experiment = built_in("read-rate").unwrap().unwrap();
        let claims = experiment.claims.iter().take(count);
        Verdicts { claims: claims.map(|claim| judge(claim, &experiment, &[]).unwrap()).collect() }
    }

    #[test]
    fn experiments_and_claims_are_counted() {
        let mut summary = Summary::default();
        let missing = Outcome::NotMeasured(vec!["knot is not installed\nmore".into()]);
        summary.measured("one".into(), verdicts(2), &[result(Outcome::Measured), result(missing.clone())]);
        assert_eq!(summary.text(), "one  2 claims: 2 not measured; cells: 1 measured, 1 not measured\n");
        summary.measured("second".into(), verdicts(1), &[result(missing)]);
        summary.skipped("third".into(), "it has no [quick] size");
        assert_eq!(summary.code(), 0);
        assert_eq!(
            summary.text(),
            "one     2 claims: 2 not measured; cells: 1 measured, 1 not measured\n\
             second  1 claim: 1 not measured; cells: 1 not measured (knot is not installed more)\n\
             third   left out: it has no [quick] size\n\
             2 of 3 experiments ran; 3 claims: 3 not measured\n"
        );
    }

    #[test]
    fn failed_cells_and_experiments_change_the_exit_code() {
        for outcome in [Outcome::Failed(vec!["no".into()]), Outcome::Invalid(vec!["send lag".into()])] {
            let mut summary = Summary::default();
            summary.measured("one".into(), verdicts(0), &[result(Outcome::Measured), result(outcome)]);
            assert_eq!(summary.code(), 1);
            summary.failed("two".into(), "no permission");
            assert_eq!(summary.code(), 2);
            assert!(summary.text().contains("two  did not run: no permission\n"), "{}", summary.text());
        }
        let mut summary = Summary::default();
        let mut differing = verdicts(1);
        differing.claims[0].verdict = experiment::claim::Verdict::Differs;
        summary.measured("one".into(), differing, &[result(Outcome::Measured)]);
        assert_eq!(summary.code(), 1);
    }

    #[test]
    fn long_reasons_are_shortened() {
        assert_eq!(in_line("it failed:\n  no\tpermission\n"), "it failed: no permission");
        assert_eq!(in_line(&"é".repeat(500)), format!("{} ...", "é".repeat(REASON_CHARACTERS_MAX)));
    }
}
