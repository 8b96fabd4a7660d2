//! The table of faults.

use crate::faults::{self, Fault};

/// The build that founds a row's cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Founder {
    /// The build under test.
    Current,
    /// The build of the previous feature level, for a row with mixed builds.
    Previous,
}

/// A row of the table: one fault.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The cluster size of the row by default.
    pub(crate) nodes: usize,
    pub(crate) founder: Founder,
    /// Causes the fault and ends it. Returns the evidence that it happened. An error fails the run.
    pub(crate) cause: fn(&mut Fault<'_, '_>) -> Result<String, String>,
}

const fn row(name: &'static str, what: &'static str, cause: fn(&mut Fault<'_, '_>) -> Result<String, String>) -> Row {
    Row { name, what, nodes: 3, founder: Founder::Current, cause }
}

const fn five(row: Row) -> Row {
    Row { nodes: 5, ..row }
}

/// All rows.
pub(crate) const ROWS: &[Row] = &[
    row("kill-one", "kill -9 of one node, the leader or another", faults::kill::one),
    five(row("kill-two", "kill -9 of two nodes", faults::kill::two)),
    row("kill-all", "kill -9 of all nodes", faults::kill::all),
    row("pause", "SIGSTOP of the leader, then SIGCONT", faults::kill::pause),
    row("cut", "one node is cut off from all others", faults::cut::full),
    five(row("cut-half", "the nodes are split into two groups", faults::cut::split)),
    row("cut-one-way", "packets from one node to the others are dropped, but not packets to it", faults::cut::one_way),
    row("cut-flap", "a cut that starts and stops repeatedly", faults::cut::flap),
    row("clock", "the clock of one node steps, forwards and back", faults::clock::step),
    row("churn", "members join and leave, the leadership moves", faults::members::churn),
    row("power-one", "the power of one node's disk is cut", faults::power::one),
    row("power-all", "the power of all disks is cut at once", faults::power::all),
    row("power-behind-cut", "one node is cut off, then the power of all others", faults::power::behind_cut),
    row("full-one", "the disk of one node is full", faults::disks::full_one),
    row("full-all", "all disks are full", faults::disks::full_all),
    row("slow", "the disk of the leader is slow", faults::disks::slow),
    row("damage-log", "a bit of a log flips", faults::damage::log),
    row("damage-checkpoint", "a bit of a checkpoint flips", faults::damage::checkpoint),
    row("damage-vote", "a bit of the file of votes flips", faults::damage::vote),
    row("damage-spare", "a bit of an unused segment flips", faults::damage::spare),
    row("damage-audit", "a bit of the audit log flips", faults::damage::audit),
    row("damage-settings", "a bit of keys, certificates and settings flips", faults::damage::settings),
    row("wiped", "a node loses its data", faults::copies::wiped),
    row("cloned", "a copy of a node runs at the same time", faults::copies::cloned),
    row("rolled-back", "a node gets an older copy of its data", faults::copies::rolled_back),
    five(row("rolling", "all nodes restart, one after the other", faults::rolling::restart)),
    Row {
        founder: Founder::Previous,
        ..five(row(
            "two-builds",
            "nodes change from the previous build to this one, and some back",
            faults::rolling::two_builds,
        ))
    },
];

/// The rows with these names.
pub(crate) fn named(names: &[String]) -> Result<Vec<Row>, String> {
    if names.is_empty() {
        return Ok(ROWS.to_vec());
    }
    let mut rows = Vec::new();
    for name in names {
        // `kill` selects all rows whose names begin with `kill-`.
        let matching = |row: &&Row| {
            row.name == name || row.name.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('-'))
        };
        let found: Vec<Row> = ROWS.iter().filter(matching).copied().collect();
        if found.is_empty() {
            return Err(format!("there is no row `{name}`; --list prints all rows"));
        }
        // `cut,cut-flap` selects one row twice.
        rows.retain(|row: &Row| found.iter().all(|other| other.name != row.name));
        rows.extend(found);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_its_row_or_a_family() {
        let names = |names: &[&str]| -> Vec<&str> {
            let words: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            named(&words).unwrap().iter().map(|row| row.name).collect()
        };
        assert_eq!(names(&["kill", "wiped"]), ["kill-one", "kill-two", "kill-all", "wiped"]);
        // `cut` is a row, and also the prefix of other rows.
        assert_eq!(names(&["cut"]), ["cut", "cut-half", "cut-one-way", "cut-flap"]);
        assert_eq!(names(&["cut", "cut-flap"]), ["cut", "cut-half", "cut-one-way", "cut-flap"]);
        assert_eq!(names(&[]).len(), ROWS.len());
        assert!(named(&["none".to_owned()]).is_err());
    }
}
