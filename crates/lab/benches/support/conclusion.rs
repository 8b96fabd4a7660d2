//! What a bench prints at its end, and puts into its document.

use super::table::{self, Row, Verdict};
use super::{document, machine};
use std::path::Path;
use std::time::Instant;

/// When a bench began, and how much else was running then.
pub(crate) struct Beginning {
    at: Instant,
    load: f64,
}

impl Beginning {
    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), load: machine::load_average() }
    }

    /// Prints the rows, writes them between the marks of `command` in the document; gives whether every budget was met.
    pub(crate) fn conclude(&self, command: &str, rows: &[Row], document: Option<&Path>) -> Result<bool, String> {
        let head = format!(
            "{}; load average {:.1} before the run of {:.0} s and {:.1} after it, of which two are its own.",
            machine::description(),
            self.load,
            self.at.elapsed().as_secs_f64(),
            machine::load_average()
        );
        let text = format!("{head}\n\n{}", table::markdown(rows));
        println!("{text}");
        if let Some(path) = document {
            document::write(path, command, &text)?;
        }
        let missed = rows.iter().filter(|row| matches!(row.verdict, Verdict::Missed | Verdict::Undecided)).count();
        println!("{missed} budgets not met");
        Ok(missed == 0)
    }
}
