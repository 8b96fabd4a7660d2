//! Nodes that cannot continue: they print the reason and what to do, also at the next start, and the other nodes
//! continue.

use crate::support::cluster::{Cluster, wait_for};
use crate::support::dns::Transport;
use crate::support::nodes::{Nodes, cluster_of_nodes, data, log_of, serve_refused_unless};
use crate::support::pipeline::outcome_of;
use crate::updates::{Stream, add, assert_on_every_node, rcode, wait_for_more};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// Starts updates through all nodes but one.
fn streams(cluster: &Cluster, not: u64, prefix: &str) -> Vec<Stream> {
    let others = cluster.ids().filter(|id| *id != not);
    others.map(|id| Stream::start(cluster, id, &format!("{prefix}{id}"))).collect()
}

/// The number after `entry `.
fn entry(printed: &str) -> u64 {
    let (_, rest) = printed.split_once("panicked at entry ").unwrap_or_else(|| panic!("{printed}"));
    rest.split(|byte: char| !byte.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn a_node_that_panics_at_a_committed_entry_stops_there_at_each_start() {
    const LABEL: &str = "entry-of-death";
    if !cfg!(debug_assertions) {
        skip::platform("a panic on demand (debug assertions)");
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("panics");
    let leader = nodes.leader(&cluster);
    let victim = leader % 3 + 1;
    nodes.stop(victim);
    nodes.start_to_panic(&cluster, victim, LABEL);
    cluster.settle();
    let streams = streams(&cluster, victim, "p");
    wait_for_more(&streams, 50);

    // The leader applies the update, and a majority has it. It is acknowledged whatever happens to the third node.
    let owner = format!("{LABEL}.example.test.");
    let message = add(&cluster.client_key(), &owner);
    assert_eq!(rcode(&message, &outcome_of(Transport::Tcp, cluster.dns(leader), &message)), 0);
    let (status, printed) = nodes.ended(&cluster, victim);
    assert_eq!(status.signal(), Some(6), "{printed}");
    let index = entry(&printed);
    assert!(printed.contains(&format!("error: node {victim} cannot continue")), "{printed}");

    for _ in 0..2 {
        nodes.start_to_panic(&cluster, victim, LABEL);
        let (status, printed) = nodes.ended(&cluster, victim);
        assert_eq!(status.code(), Some(8), "{printed}");
        assert!(
            printed.contains(&format!("this software panics at entry {index}, which the cluster committed")),
            "{printed}"
        );
        for part in ["where: ", "please report", "keep the directory", "catamaran cluster remove"] {
            assert!(printed.contains(part), "{part}: {printed}");
        }
        wait_for_more(&streams, 50);
    }

    // With software that does not panic at this entry, the node continues.
    nodes.start(&cluster, victim);
    let mut names: Vec<String> = streams.into_iter().flat_map(Stream::finish).collect();
    names.push(owner);
    cluster.settle();
    assert_on_every_node(&cluster, &names);
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

#[test]
fn a_node_whose_disk_went_back_in_time_ends_until_another_leader_has_filled_it_up() {
    let (cluster, mut nodes) = cluster_of_nodes("older");
    let leader = nodes.leader(&cluster);
    let victim = leader % 3 + 1;
    let (dir, older) = (data(&cluster, victim), cluster.dir.join("older"));
    nodes.stop(victim);
    copy(&dir, &older);
    nodes.start(&cluster, victim);
    cluster.settle();
    let streams = streams(&cluster, victim, "o");
    // After an election, the new leader does not count on the lost entries. The loss then begins again.
    wait_for("two starts under one leader", || {
        let (leader, term) = nodes.leader_and_term(&cluster);
        if leader == victim {
            cluster.run(&["cluster", "transfer-leader"]);
            return None;
        }
        wait_for_more(&streams, 100);
        // The node has acknowledged the entries that it is about to lose.
        let index = cluster.status(leader)?["applied_index"].as_u64()?;
        wait_for("the node to follow", || {
            let status = cluster.status(victim)?;
            (status["applied_index"].as_u64()? >= index.max(100)).then_some(())
        });
        nodes.kill(victim);
        copy(&older, &dir);
        // The leader still counts on the lost entries, so each start ends in the same way. Nothing prevents the start.
        for _ in 0..2 {
            let was_election = || {
                let status = cluster.status(leader);
                status.is_some_and(|status| status["term"] != term || status["leader"] != leader)
            };
            let refused = serve_refused_unless(&cluster, victim, was_election);
            let Some((code, printed)) = refused.filter(|_| !was_election()) else {
                println!("there was an election");
                nodes.start(&cluster, victim);
                wait_for("the missing entries", || (!dir.with_extension("doubt").exists()).then_some(()));
                return None;
            };
            assert_eq!(code, Some(10), "{printed}");
            let by = format!("node {leader}, the leader of term");
            let what = format!("error: node {victim} cannot continue");
            for part in ["LogLost", "its log ends with", &by, &what, "where: ", "start it again", "cluster remove"] {
                assert!(printed.contains(part), "{part}: {printed}");
            }
            let noted = std::fs::read_to_string(dir.with_extension("doubt")).unwrap();
            assert!(noted.starts_with("doubt term=") && noted.contains(&by), "{noted}");
            assert!(!dir.with_extension("quarantined").exists());
            wait_for_more(&streams, 50);
        }
        Some(())
    });

    // A new leader does not count on the node's old acknowledgments. It sends the missing entries, and the loss is
    // resolved.
    let handed_over = cluster.run(&["cluster", "transfer-leader"]);
    assert!(handed_over.status.success(), "{}", String::from_utf8_lossy(&handed_over.stderr));
    nodes.start(&cluster, victim);
    wait_for("data.doubt to be removed", || (!dir.with_extension("doubt").exists()).then_some(()));
    wait_for_more(&streams, 50);
    let names: Vec<String> = streams.into_iter().flat_map(Stream::finish).collect();
    assert_on_every_node(&cluster, &names);
}

/// The leader must do this while it runs: after its exit, another node would lead anyway.
#[test]
fn a_leader_transfers_the_leadership_before_it_stops() {
    let mut cluster = Cluster::start("hand-over", 3, &[]);
    assert_eq!(cluster.end("TERM"), Some(0));
    let mut nodes = Nodes::default();
    cluster.ids().for_each(|id| nodes.start(&cluster, id));
    cluster.settle();
    let leader = nodes.leader(&cluster);
    let term = cluster.status(leader).unwrap()["term"].as_u64().unwrap();
    nodes.stop(leader);
    let printed = log_of(&cluster, leader);
    let (_, after) = printed.split_once("stopping").unwrap_or_else(|| panic!("{printed}"));
    // There may have been another election before.
    let terms = after.split("role=Follower term=").skip(1);
    let mut terms =
        terms.filter_map(|rest| rest.split(|byte: char| !byte.is_ascii_digit()).next()?.parse::<u64>().ok());
    assert!(terms.any(|later| later > term), "{term}: {printed}");
}
