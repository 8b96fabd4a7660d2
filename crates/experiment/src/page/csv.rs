//! `cells.csv`: the figures of each repeat, for a spreadsheet or a program.

use super::results::{Results, outcome};
use crate::definition::Experiment;
use crate::results::CellResult;

impl Results {
    /// A row for each measured repeat: its parameters, its outcome, and the figures of claims and pictures.
    pub(super) fn csv(&self, experiment: &Experiment) -> String {
        let parameters: Vec<&str> = experiment.matrix.keys().map(String::as_str).collect();
        let heads = parameters.iter().copied().chain(["repeat", "outcome"]);
        let mut out = row(heads.chain(self.figures.iter().map(String::as_str)).map(str::to_owned));
        for cell in &self.cells {
            out += &row(self.fields(&parameters, cell));
        }
        out
    }

    fn fields(&self, parameters: &[&str], result: &CellResult) -> impl Iterator<Item = String> {
        let value = |name: &&str| result.cell.parameters.get(*name).cloned().unwrap_or_default();
        let of_cell = parameters.iter().map(value).collect::<Vec<_>>().into_iter();
        let figure = |name: &String| result.figures.get(name).map_or_else(String::new, f64::to_string);
        let figures: Vec<String> = self.figures.iter().map(figure).collect();
        let states = [(result.cell.repeat + 1).to_string(), outcome(&result.outcome).0.to_owned()];
        of_cell.chain(states).chain(figures)
    }
}

/// A row, quoted where needed (RFC 4180).
fn row(fields: impl Iterator<Item = String>) -> String {
    let quoted = |field: String| {
        if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    fields.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        let fields = ["a b", "1,5", "say \"x\"", ""].map(str::to_owned);
        assert_eq!(row(fields.into_iter()), "a b,\"1,5\",\"say \"\"x\"\"\",\n");
    }
}
