//! A node that starts alone answers with the data it has, marked stale.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::http;
use crate::support::nodes::{Nodes, cluster_of_nodes, log_of};
use crate::updates::{Stream, assert_on_every_node, is_there, socket};
use std::time::Instant;

/// Updates that each node acknowledges before all are killed.
const UPDATES: usize = 20;
/// Maximum number of times that all nodes are killed.
const KILLS: usize = 10;

/// Kills all nodes while each acknowledges updates. Returns the leader, and the names that were added.
fn kill_under_load(cluster: &Cluster, nodes: &mut Nodes, kill: usize) -> (u64, Vec<String>) {
    let leader = nodes.leader(cluster);
    let streams: Vec<_> = cluster.ids().map(|id| Stream::start(cluster, id, &format!("alone{kill}-{id}"))).collect();
    wait_for("updates", || streams.iter().all(|stream| stream.acknowledged() >= UPDATES).then_some(()));
    // The leader is killed first: it has applied more than its log shows as committed.
    for id in (0..3).map(|next| (leader - 1 + next) % 3 + 1) {
        nodes.kill(id);
    }
    (leader, streams.into_iter().flat_map(Stream::finish).collect())
}

#[test]
fn a_node_that_was_killed_under_load_answers_alone_and_reports_that_it_is_stale() {
    let (cluster, mut nodes) = cluster_of_nodes("alone");
    let (socket, mut names) = (socket(), Vec::new());
    // Repeat if a node's log showed everything that it had applied when it was killed.
    let leader = (0..KILLS)
        .find_map(|kill| {
            let (leader, acknowledged) = kill_under_load(&cluster, &mut nodes, kill);
            names.extend(acknowledged);
            nodes.start(&cluster, leader);
            let start = Instant::now();
            wait_for("an answer", || is_there(&socket, cluster.dns(leader), "www.example.test.").then_some(()));
            println!("node {leader} answers alone after {:?}", start.elapsed());
            if log_of(&cluster, leader).contains("knows no leader and answers with old data") {
                return Some(leader);
            }
            cluster.ids().filter(|&id| id != leader).for_each(|id| nodes.start(&cluster, id));
            cluster.settle();
            None
        })
        .expect("a node without confirmation of its last changes");
    let status = cluster.status(leader).unwrap();
    assert_eq!((&status["serving"], status["leader"].is_null()), (&"stale".into(), true), "{status}");
    let [stale_ms, uptime_ms] = ["staleness_ms", "uptime_ms"].map(|what| status[what].as_u64().unwrap());
    assert!(stale_ms + 1_000 >= uptime_ms, "{status}");
    let metrics = http::get(cluster.api(leader), "/metrics").unwrap();
    assert!(metrics.text().contains("catamaran_serving 1\n"));
    let is_fresh = http::get(cluster.api(leader), "/healthz?max_staleness_ms=1000").unwrap();
    assert_eq!(is_fresh.status, 503);

    // Once the other nodes run, no update is missing and the answers are fresh.
    cluster.ids().filter(|&id| id != leader).for_each(|id| nodes.start(&cluster, id));
    cluster.settle();
    wait_for("fresh answers", || (cluster.status(leader)?["serving"] == "yes").then_some(()));
    assert_on_every_node(&cluster, &names);
}
