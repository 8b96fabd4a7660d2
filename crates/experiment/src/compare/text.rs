//! A comparison as text.

use super::{ComparedServer, Comparison, Difference, Pair, RunSummary};
use crate::claim::{Verdict, number};
use std::fmt::Write as _;

const NONE: &str = "-";

impl Comparison {
    /// The comparison as text, with tables.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.experiment);
        text += &aligned(&[self.a.row("A"), self.b.row("B")], &[]);
        self.warnings().iter().for_each(|warning| text += &format!("Warning: {warning}\n"));
        text += "\nServers\n";
        text += &aligned(&self.servers.iter().flat_map(ComparedServer::rows).collect::<Vec<_>>(), &[]);
        if !self.claims.is_empty() {
            text += &self.claims_text();
        }
        text += &self.figures_text();
        text + &self.ending()
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = Vec::new();
        warnings.extend(self.definition_differences.iter().map(|text| format!("the definitions differ: {text}")));
        if self.a.machines != self.b.machines {
            warnings.push("the machines differ, and the results include that".into());
        }
        match self.is_interleaved {
            Some(true) => {}
            Some(false) => warnings.push(self.order_warning()),
            None => warnings.push("a run has no times, so the results may include drift of the machine".into()),
        }
        warnings
    }

    fn order_warning(&self) -> String {
        let whole = |first: &RunSummary, second: &RunSummary| {
            first.started.zip(second.started).is_some_and(|(first, second)| first[1] < second[0])
        };
        let order = match (whole(&self.a, &self.b), whole(&self.b, &self.a)) {
            (true, _) => "all of A was measured first",
            (_, true) => "all of B was measured first",
            _ => "they took fewer turns than they have repeats",
        };
        format!("the runs are not interleaved: {order}, so the results include drift of the machine between them")
    }

    fn claims_text(&self) -> String {
        let mut rows = vec![head(&["verdict A", "verdict B"], &["claim"])];
        rows.extend(self.claims.iter().map(|claim| {
            let verdict = |verdict: Option<Verdict>| verdict.map_or(NONE, Verdict::text).to_owned();
            let unit = if claim.unit.is_empty() { String::new() } else { format!(" ({})", claim.unit) };
            let mut row = vec![verdict(claim.verdict_a), verdict(claim.verdict_b)];
            row.extend(values(&claim.pair));
            row.push(format!("{}{unit}", claim.claim));
            row
        }));
        format!("\nClaims\n{}", aligned(&rows, &[2, 3, 4]))
    }

    fn figures_text(&self) -> String {
        let mut rows = vec![head(&["cell", "figure"], &[])];
        for cell in &self.cells {
            rows.extend(cell.figures.iter().map(|compared| {
                let mut row = vec![cell.name(), compared.figure.clone()];
                row.extend(values(&compared.pair));
                row
            }));
        }
        let mut text = format!("\nFigures\n{}", aligned(&rows, &[2, 3, 4]));
        // Repeats that were not measured are not in the medians.
        for cell in self.cells.iter().filter(|cell| !cell.is_complete) {
            let [a, b] = [&cell.outcome_a, &cell.outcome_b]
                .map(|outcome| if outcome.is_empty() { "not part of this run" } else { outcome });
            let _written = writeln!(text, "  {}: A {a}; B {b}", cell.name());
        }
        text
    }

    /// How many values differ, and what that means.
    fn ending(&self) -> String {
        let claims: Vec<Difference> = self.claims.iter().map(|claim| claim.pair.differs).collect();
        let figures = self.cells.iter().flat_map(|cell| &cell.figures);
        let figures: Vec<Difference> = figures.map(|compared| compared.pair.differs).collect();
        let count = |all: &[Difference]| all.iter().filter(|one| one.is_certain()).count();
        format!(
            "\nDifferent by more than the spread of the repeats: {} of {} claims, {} of {} figures.\n\
             The intervals of these values in A and B do not overlap (a range with fewer than 6 repeats).\n",
            count(&claims),
            claims.len(),
            count(&figures),
            figures.len()
        )
    }
}

impl RunSummary {
    fn row(&self, name: &str) -> Vec<String> {
        let machines = if self.machines.is_empty() { "unknown machine".to_owned() } else { self.machines.join("; ") };
        vec![name.to_owned(), self.folder.clone(), machines]
    }
}

impl ComparedServer {
    /// One row if the versions are the same, otherwise one for each run that has the server.
    fn rows(&self) -> Vec<Vec<String>> {
        let runs = if self.a == self.b { vec![("A, B", &self.a)] } else { vec![("A", &self.a), ("B", &self.b)] };
        let rows = runs.into_iter().filter(|(_, versions)| !versions.is_empty());
        rows.map(|(run, versions)| vec![self.name.clone(), self.kind.clone(), run.to_owned(), versions.join("; ")])
            .collect()
    }
}

fn head(before: &[&str], after: &[&str]) -> Vec<String> {
    let values = ["A", "B", "B/A", "interval of B/A", "differs"];
    before.iter().chain(&values).chain(after).map(|&word| word.to_owned()).collect()
}

/// Both values, their ratio with its interval, and whether they differ.
fn values(pair: &Pair) -> [String; 5] {
    let [a, b, ratio] = [pair.a, pair.b, pair.ratio]
        .map(|estimate| estimate.map_or_else(|| NONE.to_owned(), |estimate| number::text(estimate.value)));
    let interval = pair.ratio.map_or_else(|| NONE.to_owned(), |ratio| ratio.interval.text());
    [a, b, ratio, interval, pair.differs.text().to_owned()]
}

/// Rows with columns of equal width, indented. The columns in `right` are aligned to the right.
fn aligned(rows: &[Vec<String>], right: &[usize]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += "  ";
            line += &if right.contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
