//! A node that starts alone answers with the data it has, marked stale.

use crate::support::cluster::wait_for;
use crate::support::http;
use crate::support::nodes::{cluster_of_nodes, said};
use crate::updates::{Stream, assert_on_every_node, is_there, socket};
use std::time::Instant;

/// Updates that each node acknowledges before all are killed.
const UPDATES: usize = 20;

#[test]
fn a_node_that_was_killed_under_load_answers_alone_and_says_that_it_is_stale() {
    let (cluster, mut nodes) = cluster_of_nodes("alone");
    let leader = nodes.leader(&cluster);
    let streams: Vec<_> = cluster.ids().map(|id| Stream::start(&cluster, id, &format!("alone{id}"))).collect();
    wait_for("updates", || streams.iter().all(|stream| stream.acknowledged() >= UPDATES).then_some(()));
    // The leader is killed first: it has applied more than its log shows as committed.
    for id in (0..3).map(|next| (leader - 1 + next) % 3 + 1) {
        nodes.kill(id);
    }
    let names: Vec<String> = streams.into_iter().flat_map(Stream::finish).collect();

    nodes.start_heard(&cluster, leader);
    let (start, socket) = (Instant::now(), socket());
    wait_for("an answer", || is_there(&socket, cluster.dns(leader), "www.example.test.").then_some(()));
    println!("node {leader} answers alone after {:?}", start.elapsed());
    let status = cluster.status(leader).unwrap();
    assert_eq!((&status["serving"], status["leader"].is_null()), (&"stale".into(), true), "{status}");
    let waited_ms = start.elapsed().as_millis() as u64;
    assert!(status["staleness_ms"].as_u64().unwrap() + 1_000 >= waited_ms, "{status} after {waited_ms} ms");
    let metrics = http::get(cluster.api(leader), "/metrics").unwrap();
    assert!(metrics.text().contains("catamaran_serving 1\n"));
    let is_fresh = http::get(cluster.api(leader), "/healthz?max_staleness_ms=1000").unwrap();
    assert_eq!(is_fresh.status, 503);
    println!("{}", said(&cluster, leader));

    // Once the other nodes run, no update is missing and the answers are fresh.
    cluster.ids().filter(|&id| id != leader).for_each(|id| nodes.start(&cluster, id));
    cluster.settle();
    wait_for("fresh answers", || (cluster.status(leader)?["serving"] == "yes").then_some(()));
    assert_on_every_node(&cluster, &names);
}
