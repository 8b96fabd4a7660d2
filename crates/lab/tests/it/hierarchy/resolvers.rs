//! Installed resolvers resolve names in a hierarchy.

use super::{can_make_namespaces, catlab, ended, has_program, leaf, synthesized};
use crate::support::{Folder, data, root_zone};
use hierarchy::synth::{Families, SynthPlan};
use hierarchy::{Folder as Hierarchy, ZoneEntry};
use serde_json::Value;
use std::path::Path;

/// Resolvers for `--resolver`, and their programs.
const RESOLVERS: [(&str, &str); 4] =
    [("unbound", "unbound"), ("bind", "named"), ("pdns", "pdns_recursor"), ("knot", "kresd")];

/// Questions with an answer, one for a name that does not exist, and one for a type that does not exist.
fn questions(folder: &Folder, tree: &Path) -> (std::path::PathBuf, Vec<&'static str>) {
    let (leaf, parent, _) = leaf(tree);
    let path = folder.path().join("questions.txt");
    let lines = [
        (format!("www.{leaf} A"), "NOERROR"),
        (format!("www.{leaf} AAAA"), "NOERROR"),
        (format!("alias.{leaf} A"), "NOERROR"),
        (format!("any.wild.{leaf} A"), "NOERROR"),
        (format!("none.{leaf} A"), "NXDOMAIN"),
        (format!("{parent} MX"), "NOERROR"),
        ("none. A".to_owned(), "NXDOMAIN"),
    ];
    let text: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    std::fs::write(&path, text).unwrap();
    (path, lines.map(|(_, rcode)| rcode).into())
}

/// Lets a resolver resolve names in a hierarchy. Returns the report.
fn walk(folder: &Folder, tree: &Path, options: &[&str]) -> Value {
    let (questions, rcodes) = questions(folder, tree);
    let output = catlab(&["hierarchy", "run", tree.to_str().unwrap(), "--json", "-"])
        .args(["--ask", questions.to_str().unwrap()])
        .args(options)
        .output()
        .unwrap();
    let (code, text, error) = ended(&output);
    assert_eq!(code, 0, "{options:?}: {error}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let all = report["asked"]["all"].as_array().unwrap();
    let found: Vec<_> = all.iter().map(|question| question["rcode"].as_str().unwrap()).collect();
    assert_eq!(found, rcodes, "{options:?}: {error}{report:#}");
    let answers: Vec<_> = all.iter().map(|question| question["answers"].as_u64().unwrap()).collect();
    assert_eq!(answers, [1, 1, 2, 1, 0, 1, 0], "{options:?}: {report:#}");
    assert!(all[0]["upstream"].as_u64().unwrap() >= 3, "root, top-level domain, leaf: {report:#}");
    assert_eq!(report["upstream"]["to_unnamed_addresses"], 0, "{report:#}");
    println!("{options:?}: {}", error.lines().rev().take(2).collect::<Vec<_>>().join("; "));
    report
}

fn walks(resolver: &str, program: &str) {
    if !can_make_namespaces() || !has_program(program) {
        return;
    }
    let folder = Folder::new(&format!("hierarchy-{resolver}"));
    let families: &[Families] =
        if Path::new("/proc/sys/net/ipv6").exists() { &[Families::V4, Families::V6] } else { &[Families::V4] };
    for &families in families {
        let tree = synthesized(&folder, SynthPlan { zone_count: 40, depth: 4, families, ..SynthPlan::default() });
        walk(&folder, &tree, &["--resolver", resolver]);
        walk(&folder, &tree, &["--resolver", resolver, "--own-hints", "--minimisation", "off"]);
        std::fs::remove_dir_all(&tree).unwrap();
    }
}

#[test]
fn unbound_walks_a_hierarchy_over_either_family() {
    let (resolver, program) = RESOLVERS[0];
    walks(resolver, program);
}

#[test]
fn bind_walks_a_hierarchy_over_either_family() {
    let (resolver, program) = RESOLVERS[1];
    walks(resolver, program);
}

#[test]
fn powerdns_recursor_walks_a_hierarchy_over_either_family() {
    let (resolver, program) = RESOLVERS[2];
    walks(resolver, program);
}

#[test]
fn knot_resolver_walks_a_hierarchy_over_either_family() {
    let (resolver, program) = RESOLVERS[3];
    walks(resolver, program);
}

/// The root zone as signed in August 2017, with the keys of that time.
#[test]
fn a_recorded_root_is_validated_although_its_signatures_have_expired() {
    let Some(zone) = data("zones/root-20170821.zone.xz") else { return };
    if !can_make_namespaces() {
        return;
    }
    let folder = Folder::new("hierarchy-signed");
    let file = root_zone(&folder, &zone).remove(0).file;
    let text = std::fs::read_to_string(&file).unwrap();
    let is_key = |line: &&str| line.split_whitespace().skip(2).take(3).eq(["IN", "DNSKEY", "257"]);
    let keys: String = text.lines().filter(is_key).map(|line| format!("{line}\n")).collect();
    assert!(keys.lines().count() >= 1, "the root has keys that sign keys");
    let (anchor, questions) = (folder.path().join("anchor"), folder.path().join("questions.txt"));
    std::fs::write(&anchor, keys).unwrap();
    std::fs::write(&questions, ". SOA\ncom DS\nnone.such.tld-that-is-not A\n").unwrap();
    let servers = vec!["198.41.0.4".parse().unwrap()];
    let root = ZoneEntry { name: ".".into(), file: file.file_name().unwrap().into(), servers };
    Hierarchy::new(vec![root]).write(folder.path()).unwrap();
    for (resolver, program) in RESOLVERS.into_iter().take(2).filter(|(_, program)| has_program(program)) {
        for (expired, rcodes) in [(true, ["NOERROR", "NOERROR", "NXDOMAIN"]), (false, ["SERVFAIL"; 3])] {
            let output = catlab(&["hierarchy", "run", folder.path().to_str().unwrap(), "--resolver", resolver])
                .args(["--anchor", anchor.to_str().unwrap(), "--ask", questions.to_str().unwrap(), "--json", "-"])
                .args(expired.then_some("--expired"))
                .output()
                .unwrap();
            let (code, text, error) = ended(&output);
            assert_eq!(code, 0, "{program}: {error}");
            let report: Value = serde_json::from_str(&text).unwrap();
            let all = report["asked"]["all"].as_array().unwrap();
            let found: Vec<_> = all.iter().map(|question| question["rcode"].as_str().unwrap()).collect();
            assert_eq!(found, rcodes, "{program}, --expired {expired}: {report:#}");
            assert!(all.iter().all(|question| question["authenticated"] == expired), "{program}: {report:#}");
        }
    }
}

#[test]
fn a_resolver_answers_what_the_zone_file_has() {
    if !can_make_namespaces() || !has_program("unbound") || !has_program("dig") {
        return;
    }
    let folder = Folder::new("hierarchy-dig");
    let tree = synthesized(&folder, SynthPlan { zone_count: 12, ..SynthPlan::default() });
    let (leaf, _, address) = leaf(&tree);
    let out = folder.path().join("out");
    let script = format!("dig +short @127.0.0.1 www.{leaf} A; dig +tries=1 @192.0.2.99 x.example TXT; exit 5");
    let output = catlab(&["hierarchy", "run", tree.to_str().unwrap(), "--resolver", "unbound", "--out"])
        .arg(&out)
        .args(["--", "sh", "-c", &script])
        .output()
        .unwrap();
    let (code, text, error) = ended(&output);
    assert_eq!(code, 5, "the exit code of the program: {error}");
    assert!(text.starts_with(&format!("{address}\n")), "{text}{error}");
    assert!(text.contains("status: REFUSED"), "{text}");
    assert!(error.contains("1 REFUSED: no zone has a server at the address"), "{error}");
    assert!(error.contains("192.0.2.99, first for"), "{error}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(out.join("report.json")).unwrap()).unwrap();
    let queries = report["upstream"]["queries"].as_u64().unwrap();
    let upstream = std::fs::read_to_string(out.join("upstream.txt")).unwrap();
    assert_eq!(upstream.lines().count() as u64, queries + 1, "a line for each query, and a head");
    assert!(upstream.contains(&format!("\t{leaf}\t")), "{upstream}");
    assert!(out.join("resolver/unbound.conf").exists() && out.join("resolver/root.hints").exists());
}
