//! The audit log of real nodes: the same lines on all of them, each once, whatever happens to the processes.

use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::http;
use crate::support::nodes::Nodes;
use crate::support::tools::{has, nsupdate};
use serde_json::Value;

/// The updates in a node's file, by index.
fn updates(cluster: &Cluster, id: u64) -> Vec<Value> {
    let text = std::fs::read_to_string(cluster.dir.join(format!("node-{id}/data.audit"))).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
    let lines: Vec<Value> = whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line.get("gap_after").is_none()), "node {id}: {text}");
    lines.into_iter().filter(|line| line.get("serial_to").is_some()).collect()
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
        // Node 2 is not there from the tenth on.
        let id = if number > 10 { 1 + 2 * (u64::from(number) % 2) } else { u64::from(number) % 3 + 1 };
        // An election that takes long on a busy machine refuses it; the same record again changes nothing.
        wait_for("an update to be taken", || add(id, number).ok());
        if number == 10 {
            // It is out for a while, and starts again behind the others.
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
    // The API shows the end of it, to who has the token.
    assert_eq!(http::get(cluster.api(1), "/v1/audit").unwrap().status, 401);
    let said = http::request(cluster.api(1), "GET", "/v1/audit?lines=3", Some(&cluster.token()), b"").unwrap();
    assert!(said.status == 200 && said.text().lines().count() == 3, "{}", said.text());
}
