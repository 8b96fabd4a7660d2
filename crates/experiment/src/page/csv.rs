//! `cells.csv`: the figures of each repeat, for a spreadsheet or a program.

use super::results::{Results, outcome};
use crate::definition::Experiment;

impl Results {
    /// A row for each repeat that ran: its parameters, its outcome, and the figures of claims and pictures.
    pub(super) fn csv(&self, experiment: &Experiment) -> String {
        let parameters: Vec<&String> = experiment.matrix.keys().collect();
        let names = parameters.iter().copied().cloned().chain(["repeat", "outcome"].map(str::to_owned));
        let mut out = row(names.chain(self.figures.iter().cloned()));
        for result in &self.cells {
            let values = parameters.iter().map(|name| result.cell.parameters.get(*name).cloned().unwrap_or_default());
            let states = [(result.cell.repeat + 1).to_string(), outcome(&result.outcome).0.to_owned()];
            let figure = |name| result.figures.get(name).map_or_else(String::new, f64::to_string);
            out += &row(values.chain(states).chain(self.figures.iter().map(figure)));
        }
        out
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
