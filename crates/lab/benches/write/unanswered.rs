//! Checks for unanswered queries and lost updates in a cluster full of updates.

use super::table::{Row, Verdict};

/// Judges unanswered queries without and with updates. None are allowed.
pub(crate) fn without_an_answer([still, disturbed]: [u64; 2]) -> Row {
    none("queries without an answer", format!("{still}, {disturbed} with updates"), still + disturbed)
}

/// Judges acknowledged updates that are missing on a node. An unanswered update may be applied and hide a lost one, so
/// a zero says nothing if there are unanswered updates.
pub(crate) fn lost_updates(count: u64, unanswered: u64) -> Row {
    let row = none("acknowledged updates lost", count.to_string(), count);
    match (count, unanswered) {
        (0, 1..) => Row { verdict: Verdict::Absent, note: format!("{unanswered} without an answer"), ..row },
        _ => row,
    }
}

fn none(what: &str, figure: String, count: u64) -> Row {
    let (what, budget) = (what.to_owned(), "0".to_owned());
    Row { what, figure, budget, verdict: Verdict::of(count == 0), note: String::new() }
}
