//! `catlab zones harvest`, and hierarchies rebuilt from it: a resolver gets the same answers from the rebuilt hierarchy
//! as from the harvested one.

use super::{CATLAB, are_here, can_make_namespaces, text, well};
use crate::support::Folder;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A resolver's answers to all questions of a file, without TTLs.
fn answers(tree: &Path, queries: &Path) -> BTreeSet<String> {
    let dig = ["dig", "@127.0.0.1", "+noall", "+answer", "+comments", "+nottlid", "-f", text(queries)];
    let printed = well(&[&["hierarchy", "run", text(tree), "--resolver", "unbound", "--"], &dig[..]].concat());
    let is_answer = |line: &&str| line.contains("IN") && !line.starts_with(';');
    let rcodes = printed.lines().filter(|line| line.contains("status: ")).enumerate();
    let rcodes = rcodes.map(|(index, line)| {
        let status = line.split("status: ").nth(1).and_then(|rest| rest.split(',').next()).unwrap_or_default();
        format!("{index} {status}")
    });
    let answers = printed.lines().filter(is_answer).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    rcodes.chain(answers).collect()
}

/// `--compare` reports no difference, and finds one after a record is changed.
fn compared(folder: &Folder, rebuilt: &Path, capture: &Path) {
    let report = folder.path().join("compared.json");
    let run = [
        "hierarchy",
        "run",
        text(rebuilt),
        "--resolver",
        "unbound",
        "--compare",
        text(capture),
        "--json",
        text(&report),
    ];
    let figures = || -> serde_json::Value {
        let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
        report["compared"].clone()
    };
    let output = Command::new(CATLAB).args(run).output().unwrap();
    let all = figures();
    assert_eq!(output.status.code(), Some(0), "{all:#}");
    assert!(all["questions"].as_u64().unwrap() > 60 && all["same"] == all["questions"], "{all:#}");
    // Changes one address.
    let zones = fs::read_dir(rebuilt.join("zones")).unwrap().map(|entry| entry.unwrap().path());
    let is_www = |line: &&str| line.starts_with("www.") && line.contains("\tA\t");
    let (path, line) = zones
        .into_iter()
        .find_map(|path| {
            let zone = fs::read_to_string(&path).unwrap();
            let line = zone.lines().find(is_www)?.to_owned();
            Some((path, line))
        })
        .expect("a zone with www");
    let zone = fs::read_to_string(&path).unwrap();
    let owner = line.split('\t').next().unwrap();
    fs::write(&path, zone.replace(&line, &format!("{owner}\t60\tIN\tA\t203.0.113.77"))).unwrap();
    let output = Command::new(CATLAB).args(run).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let others = figures()["others"].clone();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let first = &others[0];
    assert!(first["resolver"].as_str().unwrap().contains("203.0.113.77"), "{others:#}");
    // Aliases of the name differ too.
    let is_of_it = |other: &serde_json::Value| other["resolver"].as_str().unwrap().contains(owner);
    assert!(others.as_array().unwrap().iter().all(is_of_it), "{others:#}");
    assert!(printed.contains("different: ") && printed.contains(&format!("{owner} A")), "{printed}");
    fs::write(&path, zone).unwrap();
}

#[test]
fn a_hierarchy_rebuilt_from_a_harvest_answers_like_the_original() {
    if !are_here(&["unbound", "dig"]) || !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("zones-harvest");
    let [tree, rebuilt, capture, queries] =
        ["tree", "rebuilt", "upstream.pcap", "queries.txt"].map(|name| folder.path().join(name));
    well(&["zones", "synth", "--zones", "30", "--out", text(&tree)]);
    // Names and types that exist in the zones, and some that do not.
    let mut questions = String::new();
    for line in fs::read_to_string(tree.join("queries.txt")).unwrap().lines() {
        let zone = line.split_whitespace().next().unwrap().trim_start_matches("www.").trim_end_matches('.');
        for (label, rtype) in [("www.", "A"), ("alias.", "AAAA"), ("", "MX"), ("nowhere.", "A"), ("www.", "TXT")] {
            questions.push_str(&format!("{label}{zone} {rtype}\n"));
        }
    }
    fs::write(&queries, &questions).unwrap();
    let harvest = ["zones", "harvest", text(&queries), "--resolver", "127.0.0.1", "--settle", "500ms"];
    let run = ["hierarchy", "run", text(&tree), "--resolver", "unbound", "--", CATLAB];
    let printed = well(&[&run[..], &harvest, &["--out", text(&capture)]].concat());
    let count = questions.lines().count();
    assert!(printed.contains(&format!("{count} questions: ")) && printed.contains("0 unanswered"), "{printed}");
    well(&["zones", "build", text(&capture), "--out", text(&rebuilt)]);
    let (before, after) = (answers(&tree, &queries), answers(&rebuilt, &queries));
    assert!(before.iter().filter(|line| line.ends_with("NOERROR")).count() * 5 > count * 3, "{before:?}");
    assert_eq!(before, after);
    compared(&folder, &rebuilt, &capture);
    // The same hierarchy, signed again, validates from the root down.
    let signed = folder.path().join("signed");
    let printed = well(&["zones", "build", text(&capture), "--resign", "--out", text(&signed)]);
    assert!(printed.contains("zones signed") && printed.contains("trust anchors: .\n"), "{printed}");
    let anchors = signed.join("anchors.txt");
    let first = questions.split_whitespace().next().unwrap();
    let run = ["hierarchy", "run", text(&signed), "--resolver", "unbound", "--anchor", text(&anchors), "--"];
    let printed = well(&[&run[..], &["dig", "@127.0.0.1", "+dnssec", first, "A"]].concat());
    let is_authentic = printed.lines().any(|line| line.contains("flags:") && line.contains(" ad"));
    assert!(printed.contains("status: NOERROR") && is_authentic, "{printed}");
}

#[test]
fn a_resolver_elsewhere_is_not_queried() {
    let folder = Folder::new("zones-strangers");
    let (queries, out) = (folder.path().join("queries.txt"), folder.path().join("out"));
    fs::write(&queries, "www.example.test A\n").unwrap();
    let harvest = ["zones", "harvest", text(&queries), "--resolver", "192.0.2.1", "--out", text(&out)];
    let build = ["zones", "build", text(&queries), "--fetch-from", "192.0.2.1:53", "--out", text(&out)];
    for words in [&harvest[..], &build[..]] {
        let output = Command::new(CATLAB).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(printed.contains("--i-own-this-target"), "{printed}");
        assert!(!out.exists());
    }
}
