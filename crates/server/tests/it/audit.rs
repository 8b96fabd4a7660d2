//! The audit log of real nodes: every node has the same lines, each once, also after processes are killed.

use crate::support::cluster::{CATAMARAN, Cluster, Scratch, key_of, kill, wait_for};
use crate::support::dns::Transport;
use crate::support::http;
use crate::support::message::name;
use crate::support::nodes::Nodes;
use crate::support::pipeline::outcome_of;
use crate::support::tools::{has, nsupdate};
use crate::updates::{add, rcode};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use wire::Rtype;
use wire::builder::MessageBuilder;

/// The updates in a node's audit file, in the order of their indexes.
fn updates(cluster: &Cluster, id: u64) -> Vec<Value> {
    let text = std::fs::read_to_string(cluster.dir.join(format!("node-{id}/data.audit"))).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let lines: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line.get("gap_after").is_none()), "node {id}: {text}");
    // Each line contains the digest of the line before, which differs between nodes.
    let unbound = |mut line: Value| {
        assert!(line.as_object_mut().unwrap().remove("prev").is_some());
        line
    };
    lines.into_iter().filter(|line| line.get("serial_to").is_some()).map(unbound).collect()
}

#[test]
fn nodes_write_the_same_lines_also_when_one_is_killed() {
    if !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("audit", 3, &[]);
    let mut nodes = Nodes::default();
    let add = |id: u64, number: u32| {
        let line = format!("update add a{number}.example.test 60 TXT x");
        nsupdate(cluster.dns(id), &cluster.update_key(), &line)
    };
    let before = cluster.status(1).unwrap()["zones"][0]["serial"].as_u64().unwrap();
    for number in 0..30 {
        // Node 2 is down after update number 10.
        let id = if number > 10 { 1 + 2 * (u64::from(number) % 2) } else { u64::from(number) % 3 + 1 };
        // On a busy machine, a slow election makes an update fail. Adding the same record again changes nothing.
        wait_for("an update to be taken", || add(id, number).ok());
        if number == 10 {
            // Node 2 is down for a while, and is behind the others when it starts.
            kill("KILL", cluster.pid(2).unwrap());
            wait_for("the node to be gone", || cluster.status(2).is_none().then_some(()));
        }
    }
    nodes.start(&cluster, 2);
    let all = wait_for("all lines on all nodes", || {
        let files: Vec<_> = cluster.ids().map(|id| updates(&cluster, id)).collect();
        files.iter().all(|file| file.len() >= 30).then_some(files)
    });
    assert_eq!(all[0].len(), 30);
    assert!(all.iter().all(|file| *file == all[0]), "{all:#?}");
    let serials: Vec<_> = all[0].iter().map(|line| line["serial_to"].as_u64().unwrap()).collect();
    assert_eq!(serials, (before + 1..=before + 30).collect::<Vec<_>>());
    let line = &all[0][0];
    assert_eq!((&line["zone"], &line["source"]), (&Value::from("example.test."), &Value::from("127.0.0.1")));
    assert!(line["key"].as_str().unwrap().starts_with("update."), "{line}");
    // The API shows the last lines to a client with the token.
    assert_eq!(http::get(cluster.api(1), "/v1/audit").unwrap().status, 401);
    let response = http::request(cluster.api(1), "GET", "/v1/audit?lines=3", Some(&cluster.token()), b"").unwrap();
    assert!(response.status == 200 && response.text().lines().count() == 3, "{}", response.text());
}

fn verify(file: &Path, more: &[&str]) -> (Option<i32>, String) {
    let output: Output = Command::new(CATAMARAN).args(["audit", "verify"]).arg(file).args(more).output().unwrap();
    let printed = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    (output.status.code(), printed)
}

#[test]
fn the_audit_log_has_changes_and_refusals_and_detects_edits() {
    let cluster = Cluster::start("audit-chain", 1, &[]);
    let (dns, scratch) = (cluster.dns(1), Scratch::new("audit-chain"));
    let file = cluster.dir.join("node-1/data.audit");
    let log = || std::fs::read_to_string(&file).unwrap_or_default();
    let line = |part: &str| {
        let text = wait_for(part, || log().lines().find(|line| line.contains(part)).map(str::to_owned));
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let send = |message: Vec<u8>| rcode(&message, &outcome_of(Transport::Tcp, dns, &message));
    // A line about an update has the names of its records.
    assert_eq!(send(add(&cluster.client_key(), "done.example.test.")), 0);
    assert_eq!(line("\"serial_to\"")["names"], serde_json::json!(["done.example.test. A"]));
    // A key without a grant, an unknown key, and a message without a key.
    let made = cluster.run(&["key", "add", "nothing"]);
    let key = key_of(&String::from_utf8(made.stdout).unwrap());
    assert_eq!(send(add(&key, "denied.example.test.")), 5);
    let denied = line("denied.example.test.");
    assert_eq!((&denied["refused"], &denied["key"]), (&Value::from("not_granted"), &Value::from("nothing.")));
    assert_eq!((&denied["source"], &denied["zone"]), (&Value::from("127.0.0.1"), &Value::from("example.test.")));
    let unknown =
        "key \"stranger\" { algorithm hmac-sha256; secret \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"; };";
    assert_eq!(send(add(&key_of(unknown), "stranger.example.test.")), 9);
    assert_eq!(line("stranger.example.test.")["refused"], "tsig_bad_key");
    let unsigned = MessageBuilder::update(7, name("example.test.").as_ref());
    let unsigned = unsigned.add(name("unsigned.example.test.").as_ref(), Rtype::A, 60, &[192, 0, 2, 1]).build();
    assert_eq!(send(unsigned.clone()), 5);
    assert_eq!(line("unsigned.example.test.")["refused"], "unsigned");
    // A flood of unsigned messages writes few lines. Refusals of keys are still logged.
    (0..500).for_each(|_| _ = send(unsigned.clone()));
    assert_eq!(send(add(&key, "later.example.test.")), 5);
    line("later.example.test.");
    let strangers = || log().lines().filter(|line| line.contains("\"unsigned\"")).count();
    wait_for("a line of the flood", || (strangers() >= 2).then_some(()));
    assert!(strangers() < 200, "{}", strangers());
    // The hash chain stays complete across a restart, and the command prints a digest to note.
    let mut cluster = cluster;
    cluster.end("TERM");
    let (code, printed) = verify(&file, &[]);
    assert!(code == Some(0) && printed.contains("from the first that was written"), "{printed}");
    let noted = printed.split("last:").nth(1).unwrap().trim().to_owned();
    cluster.resume(&[]);
    assert_eq!(send(add(&cluster.client_key(), "again.example.test.")), 0);
    line("again.example.test.");
    cluster.end("TERM");
    let (code, printed) = verify(&file, &["--noted", &noted]);
    assert_eq!(code, Some(0), "{printed}");
    let text = log();
    let other = |what: &str, text: String, more: &[&str]| {
        let (code, printed) = verify(Path::new(&scratch.file("data.audit", &text)), more);
        assert!(code == Some(5) && printed.contains("was modified"), "{what}: {code:?} {printed}");
    };
    other("edited", text.replacen("\"nothing.\"", "\"another.\"", 1), &[]);
    other("taken out", text.lines().filter(|line| !line.contains("denied")).map(|l| format!("{l}\n")).collect(), &[]);
    let early = text.lines().take(2).map(|line| format!("{line}\n")).collect();
    other("cut off", early, &["--noted", &noted]);
}

#[test]
fn a_node_whose_audit_log_cannot_be_written_continues_and_reports_it() {
    let mut cluster = Cluster::start("audit-failing", 1, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let log = cluster.dir.join("node-1/data.audit");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let mut nodes = Nodes::default();
    nodes.start(&cluster, 1);
    cluster.settle();
    let health = |query: &str| http::get(cluster.api(1), &format!("/healthz{query}")).unwrap();
    let update = |owner: &str| {
        let message = add(&cluster.client_key(), owner);
        assert_eq!(rcode(&message, &outcome_of(Transport::Tcp, cluster.dns(1), &message)), 0);
    };
    update("one.example.test.");
    wait_for("the lost record", || (cluster.metric(1, "catamaran_audit_records_lost_total") > 0).then_some(()));
    assert_eq!(cluster.metric(1, "catamaran_audit_failing"), 1);
    let all = health("");
    assert_eq!((all.status, &all.json().unwrap()["audit_failing"]), (200, &serde_json::Value::Bool(true)));
    assert_eq!(health("?audit=true").status, 503);
    // The audit log recovers without a restart, and records the gap.
    std::fs::remove_dir(&log).unwrap();
    update("two.example.test.");
    wait_for("the audit log", || (health("?audit=true").status == 200).then_some(()));
    assert_eq!(cluster.metric(1, "catamaran_audit_failing"), 0);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("gap_to") && text.contains("two.example.test."), "{text}");
    nodes.stop(1);
}
