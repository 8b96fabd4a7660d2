//! The first wrong answers of runs with checked answers.

use super::figure::escape;
use super::table::{END, append, head};
use crate::Run;

/// One row for each. Empty without wrong answers.
pub(super) fn answers(runs: &[Run]) -> String {
    let mut rows = String::new();
    for run in runs {
        for wrong in run.summary.iter().flat_map(|summary| &summary.wrong_answers) {
            let at = format!("{:.3} s", wrong.at);
            let cells = [&run.label, &at, &wrong.question, &wrong.expected, &wrong.got];
            let cells: String = cells.map(|cell| format!("<td>{}</td>", escape(cell))).concat();
            append(&mut rows, &format!("<tr>{cells}</tr>\n"));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let head = head("lines", &["run", "sent at", "question", "expected", "got"]);
    format!("<h2 id=\"wrong\">Wrong answers</h2>\n<p>The first ones.</p>\n{head}{rows}{END}")
}
