//! The options in `--help` and on the documentation page are the same.

use super::{catlab, ended};
use std::collections::BTreeSet;

/// The options that `--help` defines: each is the first word of its line, or the second after a short option.
fn defined(words: &[&str]) -> BTreeSet<String> {
    let output = catlab(words).arg("--help").output().unwrap();
    let (code, text, error) = ended(&output);
    assert_eq!(code, 0, "{error}");
    let option = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next()?;
        let first = if first.starts_with("--") { first } else { words.next().filter(|_| first.ends_with(','))? };
        Some(first.split('=').next()?.to_owned()).filter(|word| word.starts_with("--") && word.len() > 2)
    };
    let mut all: BTreeSet<String> = text.lines().filter_map(option).collect();
    all.remove("--help");
    all
}

#[test]
fn the_page_documents_every_option_and_its_table_no_others() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/catlab/emulate.md");
    let page = std::fs::read_to_string(page).unwrap();
    let [profile, run] = ["profile", "run"].map(|word| defined(&["hierarchy", word]));
    assert!(profile.contains("--anchor") && run.contains("--backend"), "{profile:?} {run:?}");
    // The table lists the options of `profile` without those for its output.
    let row = |line: &str| line.strip_prefix("| `").and_then(|row| row.split([' ', '`']).next()).map(str::to_owned);
    let table: BTreeSet<String> = page.lines().filter_map(row).filter(|word| word.starts_with("--")).collect();
    let settings: BTreeSet<String> =
        profile.iter().filter(|option| !matches!(option.as_str(), "--out" | "--force")).cloned().collect();
    assert_eq!(table, settings);
    let is_told = |option: &&String| page.split(['`', ' ', '\n', '(', ')', ',']).any(|word| word == **option);
    let untold: Vec<_> = run.union(&profile).filter(|option| !is_told(option)).collect();
    assert!(untold.is_empty(), "docs/catlab/emulate.md says nothing of {untold:?}");
}
