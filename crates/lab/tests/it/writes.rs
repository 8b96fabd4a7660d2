//! Updates at a fixed rate, and how soon they become visible, on the servers that support updates. Tests the program
//! from its command line to its folder.

use crate::support::engines::engine_alone;
use compare::updates::{KINDS, generate, start_all};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use testbed::Kind;
use wire::name::Name;

/// The key of `start_all`.
const KEY: &str = "hmac-sha256:key.test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn catlab(arguments: &[&[&str]]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_catlab")).args(arguments.concat()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // A busy machine may make the run invalid; this test does not check that.
    let code = output.status.code().unwrap_or(-1);
    assert!(matches!(code, 0 | 1), "{text}");
    (code, text.into_owned())
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn updates_are_acknowledged_and_seen() {
    let folder = std::env::temp_dir().join(format!("catlab-writes-{}", std::process::id()));
    let apex: Name = "z0.test.".parse().unwrap();
    for kind in KINDS {
        if kind.program().is_none() {
            skip::peer(kind.label());
            continue;
        }
        let servers = start_all(&[kind], &folder, &[(apex.clone(), generate::zone(&apex, 0))]).unwrap();
        let server = servers[0].address.to_string();
        let _alone = engine_alone();
        generated_updates_and_freshness(kind, &server, &folder);
        updates_of_a_file(&server, &folder);
        refused_freshness(&server, &folder);
        drop(servers);
    }
    let _cleared = std::fs::remove_dir_all(&folder);
}

fn generated_updates_and_freshness(kind: Kind, server: &str, folder: &Path) {
    let run = folder.join("run");
    let (_, text) = catlab(&[
        &["load", "--quiet", "--server", server, "--rate", "100", "--duration", "2s"][..],
        &["--update-zone", "z0.test", "--name", "h{n}.z0.test", "--names", "50", "--types", "A,AAAA,TXT"],
        &["--tsig", KEY, "--force", "--out", run.to_str().unwrap()],
        &["--freshness", server, "--freshness-zone", "z0.test", "--freshness-tsig", KEY],
    ]);
    let summary = json(&run.join("summary.json"));
    assert_eq!((&summary["sent"], &summary["rcodes"]["NOERROR"]), (&200.into(), &200.into()), "{text}");
    let freshness = json(&run.join("freshness.json"));
    let sent = freshness["sent"].as_u64().unwrap();
    // Knot acknowledges some updates a second late, and the probe waits for each.
    let min = if kind == Kind::Knot { 1 } else { 10 };
    assert!(sent >= min && freshness["acknowledged"] == sent, "{freshness}");
    assert_eq!(freshness["servers"][0]["unseen"], 0, "{freshness}");
    let lines = std::fs::read_to_string(run.join("freshness.jsonl")).unwrap();
    assert_eq!(lines.lines().count() as u64, sent);
    // The run folder may be shared, so it must not contain the key.
    let manifest = std::fs::read_to_string(run.join("manifest.json")).unwrap();
    assert!(manifest.contains("hmac-sha256:key.test:***") && !manifest.contains("MDEyMzQ1"), "{manifest}");
}

fn updates_of_a_file(server: &str, folder: &Path) {
    let file = folder.join("updates.txt");
    // The last update of the probe removed its record, so the first prerequisite holds.
    let blocks = "z0.test\nprohibit _catlab-probe\nadd w 60 A 192.0.2.1\nsend\n\
                  z0.test\nrequire w A 192.0.2.1\ndelete w A\nsend\n";
    std::fs::write(&file, blocks).unwrap();
    let run = folder.join("run");
    let arguments = &["load", "--quiet", "--server", server, "--closed-loop", "--in-flight", "1"][..];
    let files = &["--updates", file.to_str().unwrap(), "--force", "--out", run.to_str().unwrap()][..];
    let (_, text) = catlab(&[arguments, files, &["--duration", "500ms", "--tsig", KEY]]);
    let summary = json(&run.join("summary.json"));
    let sent = summary["sent"].as_u64().unwrap();
    assert!(sent >= 2 && summary["rcodes"]["NOERROR"] == sent, "{text}");
    // Unsigned updates are refused.
    let (_, text) = catlab(&[arguments, files, &["--duration", "200ms"]]);
    let rcodes = &json(&run.join("summary.json"))["rcodes"];
    assert!(rcodes["NOERROR"].is_null() && rcodes.as_object().is_some_and(|rcodes| !rcodes.is_empty()), "{text}");
}

/// If every update of the probe is refused, the report says so and the exit code is 1.
fn refused_freshness(server: &str, folder: &Path) {
    let run = folder.join("run");
    let (code, text) = catlab(&[
        &["load", "--quiet", "--server", server, "--rate", "100", "--duration", "1s", "--name", "z0.test"][..],
        &["--lag-limit", "10s", "--force", "--out", run.to_str().unwrap()],
        &["--freshness", server, "--freshness-zone", "z0.test"],
    ]);
    let freshness = json(&run.join("freshness.json"));
    assert_eq!((&freshness["acknowledged"], &freshness["refused"]), (&0.into(), &freshness["sent"]), "{freshness}");
    assert!(text.contains("validity   valid") && text.contains("no update was acknowledged"), "{text}");
    assert_eq!(code, 1, "{text}");
}
