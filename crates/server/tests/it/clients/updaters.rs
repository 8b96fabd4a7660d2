//! Programs that send what they are told: `nsupdate`, `knsupdate`, and a script of dnspython's.

use super::{kill_the_leader, wait_until_gone, wait_until_there};
use crate::support::cluster::{Cluster, wait_for};
use crate::support::nodes::{Nodes, cluster_of_nodes};
use crate::support::tools::{TsigWords, has, missing, outcome, update};
use std::cell::Cell;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// Each with its own way to be given the key, over UDP and over TCP.
const TOOLS: [&str; 7] = [
    "nsupdate -t 20 -k",
    "nsupdate -t 20 -v -k",
    "nsupdate -t 20 -y",
    "nsupdate -t 20 -v -y",
    "knsupdate -y",
    "knsupdate -v -y",
    "knsupdate -k",
];

/// Runs of a test that may have to be made again, on a machine that is busy with other tests.
const AGAIN_MAX: usize = 4;

#[derive(Clone, Copy)]
enum Wish {
    Add,
    Remove,
}

/// Runs a client to its end: `Ok` is its exit code 0.
type Client<'c> = &'c dyn Fn(SocketAddr, Wish, &str) -> Result<String, String>;

/// Runs a client until it ends with exit code 0. When there is no leader for long, on a machine that has no time for
/// an election, a node says SERVFAIL, that the update was not taken (RFC 2136 3.4.2), or nothing: its user tries again.
/// Nothing else is borne, and that in a few runs only.
fn run(who: &str, client: Client<'_>, to: SocketAddr, wish: Wish, owner: &str, again: &Cell<usize>) {
    wait_for(&format!("an end of {who} with exit code 0"), || match client(to, wish, owner) {
        Ok(_) => Some(()),
        Err(said) if ["SERVFAIL", "timed out", "timeout"].iter().any(|word| said.contains(word)) => {
            println!("{who} is run again: {said}");
            again.set(again.get() + 1);
            assert!(again.get() <= AGAIN_MAX, "more than {AGAIN_MAX} runs did not end well, the last {who}: {said}");
            None
        }
        Err(said) => panic!("{who}: {said}"),
    });
}

fn through_each_node_and_across_a_kill(
    cluster: &Cluster,
    nodes: &mut Nodes,
    who: &str,
    client: Client<'_>,
    again: &Cell<usize>,
) {
    let label: String = who.chars().filter(char::is_ascii_alphabetic).collect();
    let node_count = cluster.nodes;
    for id in cluster.ids() {
        let owner = format!("{label}-{id}.example.test.");
        run(who, client, cluster.dns(id), Wish::Add, &owner, again);
        wait_until_there(cluster, cluster.ids(), &owner, "A");
        // Removed through another one.
        run(who, client, cluster.dns(id % node_count + 1), Wish::Remove, &owner, again);
        wait_until_gone(cluster, &owner, "A");
    }
    // At once through one that knows of no other leader yet.
    let owner = format!("{label}-kill.example.test.");
    let (leader, survivors) = kill_the_leader(cluster, nodes);
    run(who, client, cluster.dns(survivors[0]), Wish::Add, &owner, again);
    wait_until_there(cluster, survivors, &owner, "A");
    nodes.start(cluster, leader);
    wait_until_there(cluster, [leader], &owner, "A");
    cluster.settle();
    // And the other way round: removed while the next one dies.
    let (leader, survivors) = kill_the_leader(cluster, nodes);
    run(who, client, cluster.dns(survivors[1]), Wish::Remove, &owner, again);
    nodes.start(cluster, leader);
    wait_until_gone(cluster, &owner, "A");
    cluster.settle();
}

#[test]
fn nsupdate_and_knsupdate_end_well_through_each_node_and_across_kills_of_the_leader() {
    if !has("dig") || !has("nsupdate") || !has("knsupdate") {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("updaters");
    let again = Cell::new(0);
    for tool in TOOLS {
        let client = |to: SocketAddr, wish, owner: &str| {
            let lines = match wish {
                Wish::Add => format!("update add {owner} 60 A 192.0.2.1"),
                Wish::Remove => format!("update delete {owner} A"),
            };
            update(tool, to, &cluster.update_key(), &format!("zone example.test.\n{lines}"))
        };
        through_each_node_and_across_a_kill(&cluster, &mut nodes, tool, &client, &again);
    }
    println!("{} runs had to be made again", again.get());
    cluster.settle();
    assert_eq!(cluster.ids().map(|id| cluster.metric(id, "catamaran_panics_total")).sum::<u64>(), 0);
}

#[test]
fn dnspython_ends_well_through_each_node_and_across_kills_of_the_leader() {
    let python = std::env::var("CATAMARAN_DNSPYTHON").unwrap_or_else(|_| "python3".to_owned());
    let check = Command::new(&python).args(["-c", "import dns.update"]).stderr(Stdio::null()).status();
    if !check.is_ok_and(|status| status.success()) {
        missing("dnspython", "python3 -m venv DIR; DIR/bin/pip install dnspython; CATAMARAN_DNSPYTHON=DIR/bin/python3");
        return;
    }
    if !has("dig") {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("dnspython");
    let again = Cell::new(0);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/dnspython_client.py");
    let key = TsigWords::of(&cluster.update_key()).joined();
    for transport in ["udp", "tcp"] {
        let client = |to: SocketAddr, wish, owner: &str| {
            let what = if matches!(wish, Wish::Add) { "add" } else { "delete" };
            let (address, port) = (to.ip().to_string(), to.port().to_string());
            let output = Command::new(&python)
                .args([script, &address, &port, transport, &key, what, owner])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            // Its exit code is the RCODE, of which 2 is SERVFAIL.
            let is_not_taken = output.status.code() == Some(2);
            outcome(output).map_err(|said| if is_not_taken { format!("SERVFAIL {said}") } else { said })
        };
        through_each_node_and_across_a_kill(&cluster, &mut nodes, &format!("dnspython {transport}"), &client, &again);
    }
    println!("{} runs had to be made again", again.get());
}
