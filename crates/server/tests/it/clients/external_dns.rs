//! external-dns: its provider `rfc2136`, its registry and its plan bring 70 names to their desired state. It lists the
//! zone by AXFR, and marks its names with TXT records. The program around them is ours (`external_dns/main.go`),
//! because the full external-dns requires modules that the Go module proxy does not serve.

use super::{kill_the_leader, wait_until_gone};
use crate::support::cluster::{Cluster, wait_for};
use crate::support::nodes::cluster_of_nodes;
use crate::support::tools::{TsigText, fetched, has, is_full, transfer};
use std::process::Command;

const NAMES: usize = 70;

/// Runs the client once with this desired number of names. Its exit code must be 0.
fn run(program: &str, cluster: &Cluster, node: u64, names: usize) {
    let TsigText { algorithm, name, secret } = TsigText::of(&cluster.update_key());
    let output = Command::new(program)
        .env("CATAMARAN_NAMES", names.to_string())
        .args(["--source=fake", "--provider=rfc2136", "--rfc2136-host=127.0.0.1", "--rfc2136-zone=example.test"])
        .args(["--rfc2136-tsig-axfr", &format!("--rfc2136-port={}", cluster.dns(node).port())])
        .arg(format!("--rfc2136-tsig-keyname={}", name.trim_end_matches('.')))
        .arg(format!("--rfc2136-tsig-secret={secret}"))
        .arg(format!("--rfc2136-tsig-secret-alg={algorithm}"))
        .args(["--domain-filter=example.test", "--policy=sync", "--registry=txt", "--txt-owner-id=test"])
        .args(["--txt-prefix=owned-", "--once"])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{printed}");
}

/// The number of addresses of its names on a node.
fn addresses(cluster: &Cluster, node: u64) -> usize {
    let records = transfer(cluster.dns(node), Some(&cluster.update_key()), "example.test");
    records.iter().filter(|line| line.starts_with("service-") && line.contains(" A 192.0.2.")).count()
}

fn wait_for_addresses(cluster: &Cluster, ids: &[u64], count: usize) {
    for &id in ids {
        wait_for(&format!("{count} addresses on node {id}"), || (addresses(cluster, id) == count).then_some(()));
    }
}

#[test]
fn external_dns_keeps_its_names_through_each_node_and_across_a_kill_of_the_leader() {
    if !is_full("external-dns") || !has("dig") {
        return;
    }
    let Some(client) = fetched("CATAMARAN_EXTERNAL_DNS", "cargo xtask test --full") else { return };
    let (cluster, mut nodes) = cluster_of_nodes("external-dns");
    let all: Vec<u64> = cluster.ids().collect();
    let before = transfer(cluster.dns(1), Some(&cluster.update_key()), "example.test").len();
    for id in cluster.ids() {
        run(&client, &cluster, id, NAMES);
        wait_for_addresses(&cluster, &all, 2 * NAMES);
        // Half of the names are removed, and the others stay.
        run(&client, &cluster, id, NAMES / 2);
        wait_for_addresses(&cluster, &all, NAMES);
        if id == 3 {
            // They are removed through a survivor.
            let (leader, survivors) = kill_the_leader(&cluster, &mut nodes);
            run(&client, &cluster, survivors[0], 0);
            wait_for_addresses(&cluster, &survivors, 0);
            nodes.start(&cluster, leader);
        } else {
            run(&client, &cluster, id, 0);
        }
        cluster.settle();
        wait_for_addresses(&cluster, &all, 0);
        wait_until_gone(&cluster, "service-0.example.test.", "A");
    }
    // The leader dies before names are added, and the client uses a node that may not know a new leader yet.
    let (leader, survivors) = kill_the_leader(&cluster, &mut nodes);
    run(&client, &cluster, survivors[1], NAMES);
    wait_for_addresses(&cluster, &survivors, 2 * NAMES);
    nodes.start(&cluster, leader);
    cluster.settle();
    wait_for_addresses(&cluster, &[leader], 2 * NAMES);
    run(&client, &cluster, leader, 0);
    wait_for_addresses(&cluster, &all, 0);
    // The TXT marks are gone too.
    let after = transfer(cluster.dns(1), Some(&cluster.update_key()), "example.test");
    assert_eq!(after.len(), before, "{after:?}");
}
