//! What nobody may miss while a cluster is full of updates.

use super::table::{Row, Verdict};

/// Queries that got no answer, without updates and with them: none may be.
pub(crate) fn without_an_answer([still, disturbed]: [u64; 2]) -> Row {
    none("queries without an answer", format!("{still}, {disturbed} with updates"), still + disturbed)
}

/// Acknowledged updates that some node does not have.
pub(crate) fn lost_updates(count: u64) -> Row {
    none("acknowledged updates lost", count.to_string(), count)
}

fn none(what: &str, figure: String, count: u64) -> Row {
    let (what, budget) = (what.to_owned(), "0".to_owned());
    Row { what, figure, budget, verdict: Verdict::of(count == 0), note: String::new() }
}
