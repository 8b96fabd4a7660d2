//! The conclusion of a bench: its printed table, and the figures in its document.

#[path = "line.rs"]
mod line;

use super::table::{self, Budgets, Row};
use super::{command, document, machine};
use std::path::Path;
use std::time::Instant;

/// When a bench began, and the load of the machine at that time.
pub(crate) struct Beginning {
    at: Instant,
    load: f64,
}

impl Beginning {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), load: machine::load_average() }
    }

    /// Prints the rows and writes them between the marks of `marks` in the document. Returns whether every budget was
    /// met.
    pub(crate) fn conclude(&self, marks: &str, rows: &[Row], document: Option<&Path>) -> Result<bool, String> {
        // Marks also name parts of a bench.
        let bench = marks.split(" --").next().unwrap_or(marks);
        let head = format!(
            "{}; load average {:.1} before the run of {:.0} s and {:.1} after it. The bench itself adds two.\n\
             The command was: `{}`",
            machine::description(),
            self.load,
            self.at.elapsed().as_secs_f64(),
            machine::load_average(),
            line::line(bench, std::env::args().skip(1), &command::root())
        );
        let text = format!("{head}\n\n{}", table::markdown(rows));
        println!("{text}");
        if let Some(path) = document {
            document::write(path, marks, &text)?;
        }
        let budgets = Budgets::of(rows);
        println!("{budgets}");
        Ok(budgets.are_met())
    }
}
