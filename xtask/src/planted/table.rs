//! Reads and rewrites the table of planted bugs in the documentation.

use super::{Bug, Found};
use std::collections::BTreeMap;

const BEGIN: &str = "<!-- planted bugs: written by `cargo xtask sim --planted --full --write` -->\n";
const END: &str = "<!-- end of planted bugs -->\n";
const HEAD: &str = "\
| bug | what goes wrong | found by | first seed | seeds | tests |
|---|---|---|---|---|---|
";
/// Maximum number of tests in a row. A bug may fail a hundred.
pub(super) const TESTS_SHOWN: usize = 3;

/// One bug in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) first_seed: Option<u64>,
    pub(super) tests: Vec<String>,
    /// The row as it is in the document.
    line: String,
}

/// Reads the rows by number.
pub(super) fn read(text: &str) -> Result<BTreeMap<u32, Row>, String> {
    let (_, rows, _) = parts(text)?;
    let rows = rows.lines().skip(HEAD.lines().count());
    rows.map(|line| row(line).ok_or_else(|| format!("cannot read the row `{line}`"))).collect()
}

/// Returns the document with the new rows. Bugs that were not run keep their rows.
pub(super) fn written(
    text: &str,
    bugs: &[Bug],
    found: &BTreeMap<u32, Result<Found, String>>,
    old: &BTreeMap<u32, Row>,
) -> Result<String, String> {
    let (before, _, after) = parts(text)?;
    let mut lines: BTreeMap<u32, String> = old.iter().map(|(number, row)| (*number, row.line.clone())).collect();
    for bug in bugs {
        if let Some(Ok(found)) = found.get(&bug.number) {
            lines.insert(bug.number, line(bug, found));
        }
    }
    let lines: String = lines.into_values().map(|line| line + "\n").collect();
    Ok(format!("{before}{BEGIN}{HEAD}{lines}{END}{after}"))
}

fn parts(text: &str) -> Result<(&str, &str, &str), String> {
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (rows, after) = rest.split_once(END)?;
        Some((before, rows, after))
    });
    parts.ok_or_else(|| format!("{} has no table between its begin and end marks", super::TABLE))
}

fn line(bug: &Bug, found: &Found) -> String {
    let by = if bug.is_simulated { "simulator" } else { "tests" };
    let seed = found.first_seed.map_or("-".into(), |seed| seed.to_string());
    let share = found.seeds.map_or("-".into(), |(seeds, of)| format!("{seeds} of {of}"));
    let mut tests: Vec<String> = found.tests.iter().map(|test| format!("`{test}`")).collect();
    let more = found.test_count.saturating_sub(tests.len());
    if more > 0 {
        tests.push(format!("{more} more"));
    }
    let tests = if tests.is_empty() { "-".into() } else { tests.join(", ") };
    let Bug { number, name, text, .. } = bug;
    format!("| {number} `{name}` | {text} | {by} | {seed} | {share} | {tests} |")
}

fn row(line: &str) -> Option<(u32, Row)> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let &[bug, _, _, seed, _, tests] = cells.as_slice() else { return None };
    let number = bug.split(' ').next()?.parse().ok()?;
    let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    Some((number, Row { first_seed: seed.parse().ok(), tests, line: line.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_table_is_read_back() {
        let document = format!("# Bugs\n\n{BEGIN}{HEAD}{END}\nMore.\n");
        assert_eq!(read(&document), Ok(BTreeMap::new()));
        let bug = Bug { number: 26, name: "HeadKept".into(), is_simulated: true, text: "A text.".into() };
        let tests = vec!["a::b".into(), "server c::d".into()];
        let found = Found { first_seed: Some(5), seeds: Some((7, 300)), tests: tests.clone(), test_count: 9 };
        let found = BTreeMap::from([(26, Ok(found))]);
        let document = written(&document, std::slice::from_ref(&bug), &found, &BTreeMap::new()).unwrap();
        let rows = read(&document).unwrap();
        assert_eq!((rows[&26].first_seed, &rows[&26].tests), (Some(5), &tests));
        assert!(document.contains("| 7 of 300 | `a::b`, `server c::d`, 7 more |") && document.ends_with("\nMore.\n"));
        // A bug that was not run, or whose run had an error, keeps its row.
        assert_eq!(written(&document, &[], &BTreeMap::new(), &rows).unwrap(), document);
    }
}
