//! What nobody may miss while a cluster is full of updates.

use super::table::{Row, Verdict};

/// Queries that got no answer, without updates and with them: none may be.
pub(crate) fn without_an_answer([still, disturbed]: [u64; 2]) -> Row {
    none("queries without an answer", format!("{still}, {disturbed} with updates"), still + disturbed)
}

/// Acknowledged updates that some node does not have. Those that are there are counted, so each without an answer that
/// was done may stand for one that was lost: with some of them, that none is missing shows nothing.
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
