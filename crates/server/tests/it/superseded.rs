//! The old majority comes back after `cluster recover`: its nodes exit, and acknowledge nothing under the same keys.

use crate::support::cluster::{Cluster, Scratch, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::nodes::{Nodes, config, serve_refused};
use crate::support::restored::Restored;
use crate::updates::{add, rcode};
use std::process::Output;
use std::time::Duration;

const REMOVED: i32 = 7;

/// Makes a new cluster from a stopped node.
fn recover(scratch: &Scratch, name: &str, from: &str, words: &[&str]) -> (Restored, Output) {
    let new = Restored::new(scratch, name);
    let output = new.make(&[&["recover", from, "--accept-loss"], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (new, output)
}

fn mark(cluster: &Cluster, id: u64) -> std::path::PathBuf {
    cluster.dir.join(format!("node-{id}/data.superseded"))
}

#[test]
fn the_old_majority_ends_when_it_comes_back_after_a_recovery() {
    let mut cluster = Cluster::start("superseded", 3, &[]);
    let scratch = Scratch::new("superseded");
    cluster.settle();
    assert_eq!(cluster.end("TERM"), Some(0));
    let source = config(&cluster, 3).to_str().unwrap().to_owned();
    // A rehearsal leaves the old cluster unchanged.
    let (_rehearsal, _) = recover(&scratch, "rehearsal", &source, &["--rehearsal"]);
    assert!([1, 2, 3].iter().all(|id| !mark(&cluster, *id).exists()));

    let (mut new, made) = recover(&scratch, "new", &source, &[]);
    let printed = String::from_utf8_lossy(&made.stdout).into_owned();
    assert!(printed.contains("marked 3 directories"), "{printed}");
    for id in [1, 2, 3] {
        let (code, printed) = serve_refused(&cluster, id);
        assert_eq!(code, Some(REMOVED), "{printed}");
        assert!(
            printed.contains(&format!("the cluster of node {id} is superseded")) && printed.contains("try:"),
            "{printed}"
        );
    }
    // On other machines the command cannot mark the directories. The old majority starts again.
    for id in [1, 2] {
        std::fs::remove_file(mark(&cluster, id)).unwrap();
    }
    let mut nodes = Nodes::default();
    [1, 2].into_iter().for_each(|id| nodes.start(&cluster, id));
    let key = cluster.client_key();
    wait_for("the old majority to acknowledge an update", || {
        let message = add(&key, "old.example.test.");
        let response = exchange(Transport::Tcp, cluster.dns(1), &message, Duration::from_secs(10))?;
        (rcode(&message, &response) == 0).then_some(())
    });

    new.start();
    for id in [1, 2] {
        let (status, printed) = nodes.ended(&cluster, id);
        assert_eq!(status.code(), Some(REMOVED), "{printed}");
        assert!(printed.contains(&format!("the cluster of node {id} is superseded")), "{printed}");
        assert!(printed.contains("was made from node 3"), "{printed}");
        assert!(mark(&cluster, id).exists());
    }
    let (code, printed) = serve_refused(&cluster, 1);
    assert_eq!(code, Some(REMOVED), "{printed}");
}

#[test]
fn the_old_majority_ends_when_it_comes_back_after_a_restore_that_names_an_old_node() {
    let mut cluster = Cluster::start("superseded-restore", 3, &[]);
    let scratch = Scratch::new("superseded-restore");
    cluster.settle();
    let file = scratch.path().join("backup").to_str().unwrap().to_owned();
    let saved = cluster.run(&["cluster", "backup", &file, "--with-data-key"]);
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    assert_eq!(cluster.end("TERM"), Some(0));
    let old = config(&cluster, 3).to_str().unwrap().to_owned();
    let mut new = Restored::new(&scratch, "new");
    let made = new.make(&["restore", &file, "--data-key", &format!("{file}.key"), "--old-node", &old]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for id in [1, 2] {
        std::fs::remove_file(mark(&cluster, id)).unwrap();
    }
    let mut nodes = Nodes::default();
    [1, 2].into_iter().for_each(|id| nodes.start(&cluster, id));
    nodes.leader(&cluster);
    new.start();
    for id in [1, 2] {
        let (status, printed) = nodes.ended(&cluster, id);
        assert_eq!(status.code(), Some(REMOVED), "{printed}");
        assert!(mark(&cluster, id).exists());
    }
}
