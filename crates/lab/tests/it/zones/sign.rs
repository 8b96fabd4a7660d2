//! `catlab zones sign`: BIND's tools and validating resolvers accept the signed zones.

use super::{CATLAB, are_here, can_make_namespaces, text, well};
use crate::support::Folder;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A hierarchy of this many zones, unsigned and signed.
fn signed(folder: &Folder, zones: &str) -> [PathBuf; 2] {
    let [tree, out] = ["tree", "signed"].map(|name| folder.path().join(name));
    well(&["zones", "synth", "--zones", zones, "--out", text(&tree)]);
    let key = folder.path().join("lab.key");
    let printed = well(&["zones", "sign", text(&tree), "--key", text(&key), "--out", text(&out)]);
    assert!(printed.contains(&format!("{zones} zones signed")) && printed.contains("trust anchors: ."), "{printed}");
    [tree, out]
}

/// The zone files of a hierarchy, by zone.
fn zone_files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let index: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("hierarchy.json")).unwrap()).unwrap();
    let zones = index["zones"].as_array().unwrap().iter();
    zones.map(|zone| (zone["name"].as_str().unwrap().into(), folder.join(zone["file"].as_str().unwrap()))).collect()
}

#[test]
fn dnssec_verify_accepts_every_signed_zone() {
    if !are_here(&["dnssec-verify"]) {
        return;
    }
    let folder = Folder::new("zones-sign");
    let [tree, out] = signed(&folder, "40");
    let files = zone_files(&out);
    assert_eq!(files.len(), 40);
    for (zone, file) in &files {
        // `-z`: one key signs everything.
        let output = Command::new("dnssec-verify").args(["-z", "-o", zone, text(file)]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{zone}: {stderr}");
    }
    // The same key and time give the same bytes; another key gives others.
    let [again, same, other] = ["again", "same", "other"].map(|name| folder.path().join(name));
    let key = folder.path().join("lab.key");
    for out in [&again, &same] {
        well(&["zones", "sign", text(&tree), "--key", text(&key), "--now", "1700000000", "--out", text(out)]);
    }
    for (zone, file) in zone_files(&same) {
        assert_eq!(fs::read(&file).unwrap(), fs::read(&zone_files(&again)[&zone]).unwrap(), "{zone}");
    }
    well(&["zones", "sign", text(&tree), "--now", "1700000000", "--out", text(&other)]);
    assert!(other.join("lab.key").exists());
    assert_ne!(fs::read(zone_files(&other)["."].as_path()).unwrap(), fs::read(&zone_files(&again)["."]).unwrap());
    let full = Command::new(CATLAB).args(["zones", "sign", text(&tree), "--out", text(&other)]).output().unwrap();
    assert!(full.status.code() == Some(2) && String::from_utf8_lossy(&full.stderr).contains("name another folder"));
}

/// Queries a validating resolver in front of a hierarchy.
fn ask(out: &Path, resolver: &str, question: &[&str]) -> Output {
    let anchors = out.join("anchors.txt");
    let mut command = Command::new(CATLAB);
    command.args(["hierarchy", "run", text(out), "--resolver", resolver, "--anchor", text(&anchors), "--"]);
    command.args(["dig", "@127.0.0.1", "+dnssec", "+tries=1", "+time=10"]).args(question);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn resolvers_validate_signed_zones_and_reject_changed_ones() {
    if !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("zones-validated");
    let [_, out] = signed(&folder, "25");
    let files = zone_files(&out);
    let leaf = files.keys().find(|zone| zone.starts_with('z')).unwrap().clone();
    let resolvers = [("unbound", "unbound"), ("named", "bind"), ("pdns_recursor", "pdns"), ("kresd", "knot")];
    for (program, resolver) in resolvers {
        if !are_here(&[program, "dig"]) {
            continue;
        }
        let name = format!("www.{leaf}");
        let output = ask(&out, resolver, &[&name, "A"]);
        let response = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_authentic =
            |response: &str| response.lines().any(|line| line.contains("flags:") && line.contains(" ad"));
        assert!(response.contains("status: NOERROR") && is_authentic(&response), "{resolver}: {response} {output:?}");
        let response = ask(&out, resolver, &[&format!("nowhere.{leaf}"), "A"]).stdout;
        let response = String::from_utf8_lossy(&response);
        assert!(response.contains("status: NXDOMAIN") && is_authentic(&response), "{resolver}: {response}");
        // Changes one byte of an address, like a forger.
        let whole = fs::read_to_string(&files[&leaf]).unwrap();
        let line =
            whole.lines().find(|line| line.starts_with("www.") && !line.contains("RRSIG") && line.contains("\tA\t"));
        let line = line.unwrap();
        let forged = format!("{}203.0.113.9", &line[..=line.rfind('\t').unwrap()]);
        fs::write(&files[&leaf], whole.replace(line, &forged)).unwrap();
        let response = ask(&out, resolver, &[&name, "A"]).stdout;
        let response = String::from_utf8_lossy(&response);
        assert!(response.contains("status: SERVFAIL"), "{resolver}: {response}");
        fs::write(&files[&leaf], whole).unwrap();
    }
}

const SCENARIO: &str = "RANGE_BEGIN 0 9
ADDRESS 192.0.2.1
ENTRY_BEGIN
REPLY QR AA NOERROR
SECTION QUESTION
www.example.test. IN A
SECTION ANSWER
www.example.test. 60 IN A 192.0.2.80
ENTRY_END
RANGE_END
";

#[test]
fn generated_records_keep_their_marks_when_signed() {
    let folder = Folder::new("zones-sign-marks");
    let [trace, tree, out] = ["one.rpl", "tree", "signed"].map(|name| folder.path().join(name));
    fs::write(&trace, SCENARIO).unwrap();
    well(&["zones", "build", text(&trace), "--out", text(&tree)]);
    well(&["zones", "sign", text(&tree), "--out", text(&out)]);
    let (mut marked_count, mut signed_count, mut answer_count) = (0, 0, 0);
    for (zone, file) in zone_files(&tree) {
        let signed = fs::read_to_string(&zone_files(&out)[&zone]).unwrap();
        signed_count += signed.lines().filter(|line| line.ends_with(" ; made: signed anew")).count();
        for line in fs::read_to_string(file).unwrap().lines().filter(|line| line.contains(" ; made: ")) {
            assert!(signed.lines().any(|other| other == line), "{zone}: {line} is not in\n{signed}");
            marked_count += 1;
        }
        answer_count += signed.lines().filter(|line| line.ends_with("\t192.0.2.80")).count();
    }
    assert_eq!(answer_count, 1, "the recorded answer stays and has no mark");
    // At least SOA and NS are generated.
    assert!(marked_count >= 2 && signed_count >= 5, "{marked_count} {signed_count}");
}
