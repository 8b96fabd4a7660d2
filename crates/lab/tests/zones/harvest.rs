//! `catlab zones harvest` and what is rebuilt from it: a resolver that walks the rebuilt hierarchy says what it said in
//! the one that was harvested.

use super::support::Folder;
use super::{CATLAB, are_here, can_make_namespaces, text, well};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a resolver in front of a hierarchy answers to all questions of a file, TTLs aside.
fn answers(tree: &Path, queries: &Path) -> BTreeSet<String> {
    let dig = ["dig", "@127.0.0.1", "+noall", "+answer", "+comments", "+nottlid", "-f", text(queries)];
    let told = well(&[&["hierarchy", "run", text(tree), "--resolver", "unbound", "--"], &dig[..]].concat());
    let is_answer = |line: &&str| line.contains("IN") && !line.starts_with(';');
    let rcodes = told.lines().filter(|line| line.contains("status: ")).enumerate();
    let rcodes = rcodes.map(|(index, line)| {
        let status = line.split("status: ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
        format!("{index} {status}")
    });
    let answers = told.lines().filter(is_answer).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    rcodes.chain(answers).collect()
}

#[test]
fn a_hierarchy_that_is_rebuilt_from_a_harvest_answers_as_the_one_harvested() {
    if !are_here(&["unbound", "dig"]) || !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("zones-harvest");
    let [tree, rebuilt, capture, queries] =
        ["tree", "rebuilt", "upstream.pcap", "queries.txt"].map(|name| folder.path().join(name));
    well(&["zones", "synth", "--zones", "30", "--out", text(&tree)]);
    // All that a zone has, and what it has not.
    let mut asked = String::new();
    for line in fs::read_to_string(tree.join("queries.txt")).unwrap().lines() {
        let zone = line.split_whitespace().next().unwrap().trim_start_matches("www.").trim_end_matches('.');
        for (label, rtype) in [("www.", "A"), ("alias.", "AAAA"), ("", "MX"), ("nowhere.", "A"), ("www.", "TXT")] {
            asked.push_str(&format!("{label}{zone} {rtype}\n"));
        }
    }
    fs::write(&queries, &asked).unwrap();
    let harvest = ["zones", "harvest", text(&queries), "--resolver", "127.0.0.1", "--settle", "500ms"];
    let run = ["hierarchy", "run", text(&tree), "--resolver", "unbound", "--", CATLAB];
    let told = well(&[&run[..], &harvest, &["--out", text(&capture)]].concat());
    let count = asked.lines().count();
    assert!(told.contains(&format!("{count} questions: ")) && told.contains("0 without an answer"), "{told}");
    well(&["zones", "build", text(&capture), "--out", text(&rebuilt)]);
    let (before, after) = (answers(&tree, &queries), answers(&rebuilt, &queries));
    assert!(before.iter().filter(|line| line.ends_with("NOERROR")).count() * 5 > count * 3, "{before:?}");
    assert_eq!(before, after);
    // The same, signed anew, is validated from its root down.
    let signed = folder.path().join("signed");
    let told = well(&["zones", "build", text(&capture), "--resign", "--out", text(&signed)]);
    assert!(told.contains("zones signed") && told.contains("trust begins at .\n"), "{told}");
    let anchors = signed.join("anchors.txt");
    let first = asked.split_whitespace().next().unwrap();
    let run = ["hierarchy", "run", text(&signed), "--resolver", "unbound", "--anchor", text(&anchors), "--"];
    let told = well(&[&run[..], &["dig", "@127.0.0.1", "+dnssec", first, "A"]].concat());
    let is_authentic = told.lines().any(|line| line.contains("flags:") && line.contains(" ad"));
    assert!(told.contains("status: NOERROR") && is_authentic, "{told}");
}
